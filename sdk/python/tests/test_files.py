"""The files that the package writes: who can read them."""

from __future__ import annotations

import ast
import asyncio
import os
import stat

import pytest
from conftest import HERE, Server

import windlass_tasks as windlass


def test_only_the_owner_can_read_a_backup(server: Server) -> None:
    copies = [server.folder / name for name in ("blocking.db", "awaited.db")]

    async def awaited() -> None:
        async with windlass.AsyncClient(server.url, server.token) as client:
            await client.backup(copies[1])

    before = os.umask(0)
    try:
        server.client().backup(copies[0])
        asyncio.run(awaited())
    finally:
        os.umask(before)
    assert [oct(stat.S_IMODE(copy.stat().st_mode)) for copy in copies] == ["0o600", "0o600"]
    link = server.folder / "link.db"
    link.symlink_to(server.folder / "elsewhere.db")
    with pytest.raises(FileExistsError):
        server.client().backup(link)
    assert not (server.folder / "elsewhere.db").exists()


def test_the_package_creates_files_in_one_place() -> None:
    """A call that may write a file, outside of `_files.py`, may give it another mode."""
    writes = {"write_text", "write_bytes", "mkstemp", "mkdtemp", "NamedTemporaryFile", "touch", "mkdir", "makedirs", "fdopen"}
    found = []
    for path in sorted((HERE.parent / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            is_plain = isinstance(node.func, ast.Name)
            if name in writes or (is_plain and name == "open" and not _only_reads(node)):
                found.append(path.name)
    assert found == ["_files.py"]


def _only_reads(call: ast.Call) -> bool:
    mode = call.args[1] if len(call.args) > 1 else None
    return mode is None or (isinstance(mode, ast.Constant) and mode.value in ("r", "rb"))
