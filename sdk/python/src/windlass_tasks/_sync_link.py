"""The client whose calls block, made of `_aio_link.py` by `make_sync.py`: do not edit it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

from ._streams import Address, SyncStream


class Answer:
    """The status, the headers and the body of an answer."""

    def __init__(self, stream: SyncStream, status: int, headers: dict[str, str]) -> None:
        self._stream, self.status, self.headers = stream, status, headers
        self.keeps = headers.get("connection", "").lower() != "close"

    def body(self) -> bytes:
        if self.status == 204:
            return b""
        return b"".join([chunk for chunk in self.chunks()])

    @property
    def is_bounded(self) -> bool:
        """Whether the answer says where its body ends: another one ends with the connection, whole or not."""
        return self._is_chunked or "content-length" in self.headers

    @property
    def _is_chunked(self) -> bool:
        return self.headers.get("transfer-encoding", "").lower() == "chunked"

    def chunks(self, idle: float | None = None) -> Iterator[bytes]:
        """The parts of the body as they come. With `idle`, each one has that time, and otherwise all have the time of the call."""
        stream = self._stream

        def next_one() -> None:
            if idle is not None:
                stream.allow(idle)

        next_one()
        if self._is_chunked:
            while size := int((stream.until(b"\r\n")).split(b";")[0], 16):
                yield (stream.exactly(size + 2))[:-2]
                next_one()
            while stream.until(b"\r\n") != b"\r\n":
                pass  # Fields after the body.
        elif self.is_bounded:
            left = int(self.headers["content-length"])
            while left:
                part = stream.exactly(min(left, 1 << 16))
                left -= len(part)
                yield part
                next_one()
        else:
            self.keeps = False
            while part := stream.some():
                yield part
                next_one()

    def lines(self, idle: float) -> Iterator[str]:
        """The lines of the body as they come."""
        rest = b""
        for chunk in self.chunks(idle):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                yield line.decode().rstrip("\r")
        if rest:
            yield rest.decode()


class Link:
    """A connection to one server, which is opened when it is needed and kept."""

    def __init__(self, address: Address, token: str | None) -> None:
        self.address, self._token, self._stream = address, token, None
        self.is_sent, self.used = False, 0.0

    _stream: SyncStream | None
    is_sent: bool
    """Whether a server may have got the last request."""
    used: float
    """When the last answer came."""

    def send(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
        timeout: float | None,
        connect: float | None = None,
    ) -> Answer:
        """Sends a request, and reads the head of the answer, in `timeout` seconds: with `connect`, once it is connected."""
        lines = [f"{method} {self.address.base}{path} HTTP/1.1", f"Host: {self.address.name}"]
        if self._token:
            lines.append(f"Authorization: Bearer {self._token}")
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        head = "\r\n".join([*lines, "", ""]).encode()
        self.is_sent, is_kept = False, self._stream is not None
        if self._stream is None:
            self._stream = SyncStream.open(self.address, timeout if connect is None else connect)
        if is_kept or connect is not None:
            self._stream.allow(timeout)
        self.is_sent = True
        try:
            self._stream.write(head + (body or b""))
        except ConnectionError:
            if len(body or b"") < 65536:
                raise  # Otherwise the server may have refused the size, and answered.
        status, found = 100, dict[str, str]()
        while status < 200:  # Those below are no answers: 100 (go on), 103 (hints).
            first, *rest = (self._stream.until(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            pairs = [line.split(":", 1) for line in rest if ":" in line]
            found = {name.strip().lower(): value.strip() for name, value in pairs}
            version, text = f"{first} ".split(" ")[:2]
            if not version.startswith("HTTP/1.") or not text.isdecimal():
                raise ConnectionError(f"{self.address.url} does not speak HTTP/1.1")
            status = int(text)
        return Answer(self._stream, status, found)

    def call(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
        timeout: float | None,
        rest: float | None = None,
    ) -> tuple[Answer, bytes]:
        """Sends a request, and reads the whole answer, in `timeout` seconds. With `rest`, the body has that time after its head.

        After an error the connection is closed."""
        try:
            answer = self.send(method, path, body, headers, timeout)
            if rest is not None and self._stream is not None:
                self._stream.allow(rest)
            read = answer.body()
        except BaseException:
            self.close()
            raise
        if not answer.keeps:
            self.close()
        self.used = time.monotonic()
        return answer, read

    @property
    def is_closed(self) -> bool:
        return self._stream is None

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def forget(self) -> None:
        if self._stream is not None:
            self._stream.forget()
            self._stream = None
