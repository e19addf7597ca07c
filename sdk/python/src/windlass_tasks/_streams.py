"""Connections to a server, for code that waits and for code that blocks: the only parts that differ."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

HEAD = 64 * 1024
"""The longest head of an answer, in bytes."""


@dataclass(frozen=True)
class Address:
    """Where a server is: `http://host:port/path`, `https://…`, or `unix:/path/of/the/socket`."""

    url: str
    host: str
    port: int
    base: str
    socket: str | None = None
    tls: bool = False

    @classmethod
    def read(cls, url: str) -> Address:
        """Reads a URL. Raises `ValueError`, which says what a URL looks like."""
        parts = urlsplit(url)
        if parts.scheme == "unix" and parts.path:
            return cls(url, "windlass", 0, "", socket=unquote(parts.path))
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"the URL of a server is like http://localhost:7474 or unix:/run/w.sock, not {url!r}")
        tls = parts.scheme == "https"
        return cls(url, parts.hostname, parts.port or (443 if tls else 80), parts.path.rstrip("/"), tls=tls)

    @property
    def name(self) -> str:
        """The header `Host`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port in (0, 443 if self.tls else 80) else f"{host}:{self.port}"


def tls() -> ssl.SSLContext:
    """The certificates of the system, or those of the file `WINDLASS_CA`."""
    return ssl.create_default_context(cafile=os.environ.get("WINDLASS_CA"))


class AsyncStream:
    """A connection whose calls are awaited. Each read waits for `timeout` seconds, or for ever with `None`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, timeout: float | None) -> None:
        self._reader, self._writer, self.timeout = reader, writer, timeout

    @classmethod
    async def open(cls, to: Address, timeout: float | None) -> AsyncStream:
        if to.socket is not None:
            opening = asyncio.open_unix_connection(to.socket, limit=HEAD)
        else:
            context = tls() if to.tls else None
            opening = asyncio.open_connection(to.host, to.port, limit=HEAD, ssl=context)
        reader, writer = await asyncio.wait_for(opening, timeout)
        return cls(reader, writer, timeout)

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await asyncio.wait_for(self._writer.drain(), self.timeout)

    async def until(self, end: bytes) -> bytes:
        try:
            return await asyncio.wait_for(self._reader.readuntil(end), self.timeout)
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise ConnectionError(f"the answer ends within its head: {error}") from error

    async def exactly(self, count: int) -> bytes:
        try:
            return await asyncio.wait_for(self._reader.readexactly(count), self.timeout)
        except asyncio.IncompleteReadError as error:
            raise ConnectionError("the answer ends before its end") from error

    async def rest(self) -> bytes:
        return await asyncio.wait_for(self._reader.read(), self.timeout)

    def close(self) -> None:
        self._writer.close()


class SyncStream:
    """A connection whose calls block."""

    def __init__(self, link: socket.socket, timeout: float | None) -> None:
        self._link, self._file, self._timeout = link, link.makefile("rb"), timeout

    @classmethod
    def open(cls, to: Address, timeout: float | None) -> SyncStream:
        if to.socket is not None:
            link = socket.socket(socket.AF_UNIX)
            link.settimeout(timeout)
            link.connect(to.socket)
        else:
            link = socket.create_connection((to.host, to.port), timeout)
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if to.tls:
                link = tls().wrap_socket(link, server_hostname=to.host)
        return cls(link, timeout)

    @property
    def timeout(self) -> float | None:
        return self._timeout

    @timeout.setter
    def timeout(self, timeout: float | None) -> None:
        self._timeout = timeout
        self._link.settimeout(timeout)

    def write(self, data: bytes) -> None:
        self._link.sendall(data)

    def until(self, end: bytes) -> bytes:
        read: Any = bytearray()
        while not read.endswith(end):
            line = self._file.readline(HEAD)
            if not line or len(read) > HEAD:
                raise ConnectionError("the answer ends within its head")
            read += line
        return bytes(read)

    def exactly(self, count: int) -> bytes:
        data = self._file.read(count)
        if len(data) < count:
            raise ConnectionError("the answer ends before its end")
        return data

    def rest(self) -> bytes:
        return self._file.read()

    def close(self) -> None:
        self._file.close()
        self._link.close()
