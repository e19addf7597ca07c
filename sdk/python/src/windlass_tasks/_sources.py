"""The source files of the handlers: a process that starts later must not run other code than its worker."""

from __future__ import annotations

import hashlib
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator

_OURS = __name__.partition(".")[0]
_LIBRARIES = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


class Sources:
    """The files of the handlers' packages, of this package, and of all modules that are no library, as they were."""

    def __init__(self, modules: Iterable[str]) -> None:
        packages = {name.partition(".")[0] for name in modules} | {_OURS}
        self._seen = {path: (_stat(path), _digest(path)) for path in sorted(set(_files(packages)))}

    def changed(self) -> str | None:
        """Returns a file whose content is not what it was."""
        for path, (stat, digest) in self._seen.items():
            now = _stat(path)
            if now == stat:
                continue
            if _digest(path) != digest:
                return path
            self._seen[path] = now, digest
        return None


def _files(packages: set[str]) -> Iterator[str]:
    standard = tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib"))
    for name, module in list(sys.modules.items()):
        path = _file(module)
        if path is None or not os.path.isfile(path):
            continue
        path = os.path.abspath(path)
        is_library = path.startswith(standard) or any(part in path for part in _LIBRARIES)
        if not is_library or name.partition(".")[0] in packages:
            yield path


def _file(module: object) -> str | None:
    """Returns the file of a module. One that loads itself when it is first used is not loaded by this."""
    try:
        path = object.__getattribute__(module, "__dict__").get("__file__")
    except AttributeError:
        return None
    return path if isinstance(path, str) else None


def _stat(path: str) -> tuple[int, ...]:
    """What differs in any case when the content does."""
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _digest(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).digest()
    except OSError:
        return b""
