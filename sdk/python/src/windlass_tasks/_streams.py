"""Connections to a server, for code that waits and for code that blocks: the only parts that differ."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

HEAD = 64 * 1024
"""The longest head of an answer, in bytes."""
TIMEOUTS = (TimeoutError, asyncio.TimeoutError)
"""The errors of a time that is over: two in Python 3.10."""


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


class Deadline:
    """The time that a connection has for what is under way, whatever number of reads and writes that takes."""

    def __init__(self, seconds: float | None) -> None:
        self._until: float | None = None
        self.allow(seconds)

    def allow(self, seconds: float | None) -> None:
        """Gives the connection this time from now on; all the time in the world with `None`."""
        self._until = None if seconds is None else time.monotonic() + seconds

    def left(self) -> float | None:
        """Returns the seconds that are left. Raises `TimeoutError` when there are none."""
        if self._until is None:
            return None
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError("no answer in time")
        return left


class AsyncStream(Deadline):
    """A connection whose calls are awaited."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, timeout: float | None) -> None:
        super().__init__(timeout)
        self._reader, self._writer, self._loop = reader, writer, asyncio.get_running_loop()

    @staticmethod
    def home() -> tuple[Any, ...]:
        """Returns to what connections belong that are opened now: this process, and the event loop that runs."""
        return os.getpid(), asyncio.get_running_loop()

    @staticmethod
    def is_over(home: tuple[Any, ...]) -> bool:
        """Returns whether the connections of a process and loop are of no more use here."""
        return home[0] != os.getpid() or bool(home[1].is_closed())

    @classmethod
    async def open(cls, to: Address, timeout: float | None) -> AsyncStream:
        if to.socket is not None:
            opening = asyncio.open_unix_connection(to.socket, limit=HEAD)
        else:
            context = tls() if to.tls else None
            opening = asyncio.open_connection(to.host, to.port, limit=HEAD, ssl=context)
        until = Deadline(timeout)
        reader, writer = await asyncio.wait_for(opening, timeout)
        return cls(reader, writer, until.left())

    async def write(self, data: bytes) -> None:
        left = self.left()
        self._writer.write(data)
        await asyncio.wait_for(self._writer.drain(), left)

    async def until(self, end: bytes) -> bytes:
        left = self.left()
        try:
            return await asyncio.wait_for(self._reader.readuntil(end), left)
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise ConnectionError(f"the answer ends within its head: {error}") from error

    async def exactly(self, count: int) -> bytes:
        left = self.left()
        try:
            return await asyncio.wait_for(self._reader.readexactly(count), left)
        except asyncio.IncompleteReadError as error:
            raise ConnectionError("the answer ends before its end") from error

    async def some(self) -> bytes:
        """Returns what has come, at least one byte; none at the end of the connection."""
        left = self.left()
        return await asyncio.wait_for(self._reader.read(1 << 16), left)

    def close(self) -> None:
        self._writer.close()

    def forget(self) -> None:
        """Leaves a connection to the process that has forked this one. An event loop that is closed has lost its own.

        Here nothing takes the place of the connection, so that no clean-up of its event loop reaches that of the parent."""
        link = self._writer.get_extra_info("socket")
        if link is not None and link.fileno() >= 0 and not self._loop.is_closed():
            nothing = os.open(os.devnull, os.O_RDWR)
            os.dup2(nothing, link.fileno(), inheritable=False)
            os.close(nothing)


class SyncStream(Deadline):
    """A connection whose calls block."""

    def __init__(self, link: socket.socket, timeout: float | None) -> None:
        super().__init__(timeout)
        self._link, self._read = link, bytearray()

    @staticmethod
    def home() -> tuple[Any, ...]:
        """Returns to what connections belong that are opened now: this process."""
        return (os.getpid(),)

    @staticmethod
    def is_over(home: tuple[Any, ...]) -> bool:
        """Returns whether the connections of a process are of no use here."""
        return bool(home[0] != os.getpid())

    @classmethod
    def open(cls, to: Address, timeout: float | None) -> SyncStream:
        until = Deadline(timeout)
        if to.socket is not None:
            link = _connected(socket.AF_UNIX, to.socket, until.left())
        else:
            link = _reached(socket.getaddrinfo(to.host, to.port, type=socket.SOCK_STREAM), until)
            try:
                link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if to.tls:
                    link.settimeout(until.left())
                    link = tls().wrap_socket(link, server_hostname=to.host)
            except BaseException:
                link.close()
                raise
        return cls(link, until.left())

    def write(self, data: bytes) -> None:
        self._link.settimeout(self.left())
        self._link.sendall(data)

    def some(self) -> bytes:
        """Returns what has come, at least one byte; none at the end of the connection."""
        if self._read:
            data, self._read = bytes(self._read), bytearray()
            return data
        self._link.settimeout(self.left())
        return self._link.recv(1 << 16)

    def _more(self, problem: str) -> None:
        self._link.settimeout(self.left())
        data = self._link.recv(1 << 16)
        if not data:
            raise ConnectionError(problem)
        self._read += data

    def _taken(self, count: int) -> bytes:
        data = bytes(self._read[:count])
        del self._read[:count]
        return data

    def until(self, end: bytes) -> bytes:
        while (at := self._read.find(end)) < 0:
            if len(self._read) > HEAD:
                raise ConnectionError("the head of the answer has no end")
            self._more("the answer ends within its head")
        return self._taken(at + len(end))

    def exactly(self, count: int) -> bytes:
        while len(self._read) < count:
            self._more("the answer ends before its end")
        return self._taken(count)

    def close(self) -> None:
        self._link.close()

    def forget(self) -> None:
        """Closes the copy of a connection that belongs to the process that has forked this one."""
        self._link.close()


def _connected(family: int, to: Any, timeout: float | None) -> socket.socket:
    link = socket.socket(family, socket.SOCK_STREAM)
    try:
        link.settimeout(timeout)
        link.connect(to)
    except BaseException:
        link.close()
        raise
    return link


def _reached(addresses: list[Any], until: Deadline) -> socket.socket:
    """Connects to the first address that answers. Each one has a part of the time: the first may be silent."""
    for rest in range(len(addresses), 0, -1):
        family, _, _, _, to = addresses[-rest]
        left = until.left()
        try:
            return _connected(family, to, None if left is None else left / rest)
        except OSError:
            if rest == 1:
                raise
    raise OSError("the name of the server has no address")
