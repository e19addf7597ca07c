"""The requests of a client: to which server they go, and when they are sent again."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import os
import random
import time
import uuid
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from . import _answers, _given, _token, _trace
from ._aio_link import AsyncAnswer, AsyncLink
from ._answers import GATEWAY, Foreign
from ._codec import Codec, Plain, leaving
from ._errors import CODES, ApiError, Unavailable
from ._forms import Json, when
from ._streams import TIMEOUTS, Address, AsyncStream

_ANY: Mapping[str, type] = {}
LATER = (429, 503)
"""The statuses of a server that is busy."""
_WAIT = 20.0
"""The longest that one request waits for a task or an outcome, in seconds."""
_KEPT = 10.0
"""How long a connection is kept that is not in use: proxies and servers close idle ones, some without a word."""
_MARGIN = 2.0
"""How much later than the end of a wait its answer may come, in seconds."""


class AsyncCalls:
    """Requests, each with a connection of its own."""

    def __init__(
        self, url: str | None = None, token: str | None = None, *, timeout: float = 30.0, codec: Codec | None = None
    ) -> None:
        urls = url or os.environ.get("WINDLASS_URL") or "http://localhost:7474"
        self._token = _token.of_environment() if token is None else token
        self._servers = [Address.read(one) for one in urls.split()]
        self._free: dict[tuple[Any, ...], list[AsyncLink]] = {}
        self._timeout, self._codec = _given.seconds("timeout", timeout, forever=True), codec or Plain()

    async def close(self) -> None:
        """Closes the connections of this process and event loop that are not in use."""
        links = self._links()
        while links:
            links.pop().close()

    def _links(self) -> list[AsyncLink]:
        """Returns the connections that are not in use, of this process and event loop: no other may use them."""
        home = AsyncStream.home()
        links = self._free.get(home)
        if links is None:
            for other in [one for one in list(self._free) if AsyncStream.is_over(one)]:
                for link in self._free.pop(other, ()):
                    link.forget()
            links = self._free.setdefault(home, [])
        return links

    def _link(self, links: list[AsyncLink], to: Address, is_new: bool) -> AsyncLink:
        """Returns a connection that nobody else uses, and closes those that are old, or of another server."""
        while links:
            try:
                link = links.pop()
            except IndexError:
                break  # Another thread has taken it.
            if not is_new and link.address == to and time.monotonic() - link.used < _KEPT:
                return link
            link.close()
        return AsyncLink(to, self._token)

    def _next_server(self, failed: Address) -> None:
        first, *others = self._servers
        if others and first == failed:  # Another request may have changed the server before.
            self._servers = [*others, first]

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        key: bool = False,
        again: bool = False,
        wait: float = 0.0,
        within: float | None = None,
        **query: Any,
    ) -> Any:
        """Sends any request, and returns the JSON of the answer.

        With a codec the values of `body` are encoded, and those of the answer are as the server has them. `query` leaves out
        what is `None`. `key` adds an `Idempotency-Key`, with which a request may be sent again; `again` is for a request that
        may be without it. `wait` is for how long the server may hold the answer back, and `within` for how long the call may
        take in all; without it, `timeout` of the client and `wait`. Raises `ApiError` for an answer that is an error,
        `Unavailable` when no server answers in time, and `Unreadable`."""
        given, wait = _query(query), _given.seconds("wait", wait)
        within = None if within is None else _given.seconds("within", within, forever=True)
        if wait:
            given["wait"] = f"{round(wait * 1000)}ms"
        target = f"/v1{path}" + (f"?{urlencode(given, doseq=True)}" if given else "")
        headers = _trace.current()
        if body is not None:
            headers["Content-Type"] = "application/json"
        if isinstance(body, list) and method == "PATCH":
            headers["Content-Type"] = "application/json-patch+json"
        if key:
            headers["Idempotency-Key"] = str(uuid.uuid4())
        body = leaving(method, path, body, self._codec)
        data = None if body is None else json.dumps(body, allow_nan=False).encode()
        return await self._send(method, target, data, headers, wait, within, method in ("GET", "DELETE") or key or again)

    async def _object(self, method: str, path: str, body: Any = None, needs: Mapping[str, type] = _ANY, **more: Any) -> Json:
        """Sends a request whose answer is an object that has these fields."""
        try:
            return _answers.shaped(await self.request(method, path, body, **more), needs)
        except Foreign as error:
            raise Unavailable(f"{self._servers[0].url}: {error}") from error

    async def _send(
        self,
        method: str,
        target: str,
        data: bytes | None,
        headers: dict[str, str],
        wait: float,
        within: float | None,
        again: bool,
    ) -> Any:
        for text in (method, target, self._token or "", *headers.values()):
            if not text.isprintable() or " " in target:
                raise ValueError(f"a request has a character that HTTP does not allow: {text[:80]!r}")
        began, left, pause, is_new = time.monotonic(), self._timeout, 0.05, not again
        end = float("inf") if within is None else began + within
        while True:
            servers, sent = self._servers, time.monotonic()
            links = self._links()
            link = self._link(links, servers[0], is_new)
            is_fresh = link.is_closed
            # The first of several servers may be silent: another one gets the rest of the time.
            share = left / 2 if again and len(servers) > 1 else left
            answer = None
            try:
                answer, read = await link.call(method, target, data, headers, max(0.01, min(wait + share, end - sent)))
            except (OSError, ValueError, asyncio.TimeoutError) as error:
                cause: Exception | None = error
                silent = isinstance(error, TIMEOUTS)
                problem = f"no answer in {time.monotonic() - sent:.1f} s" if silent else str(error) or type(error).__name__
                # An old connection may have been closed between two requests: a new one is tried at once.
                delay, known = (pause if is_fresh else 0.0), not link.is_sent
            else:
                if not link.is_closed:
                    links.append(link)
                cause, document = None, _answers.problem(read) if answer.status >= 400 else None
                problem = f"answered {answer.status}"
                if answer.status in LATER:
                    known = answer.status == 429 or document is not None
                    delay = _answers.pause(answer.headers, pause)
                    if answer.status == 503 and len(servers) > 1:
                        delay = min(delay, pause)
                elif answer.status in GATEWAY or (answer.status >= 500 and document is None):
                    known, delay = answer.status == 408 and document is not None, _answers.pause(answer.headers, pause)
                else:
                    return self._read(answer, read, target)
            problem = f"{link.address.url}: {problem}"
            if not again and not known:
                raise Unavailable(f"{problem}; whether the request was carried out is not known") from cause
            self._next_server(link.address)
            now = time.monotonic()
            left -= max(0.0, now - sent - wait) + max(delay, 0.01)
            if left <= 0 or now + delay >= end:
                raise Unavailable(
                    f"no server has carried out the request in {min(self._timeout, end - began):g} s: {problem}"
                ) from cause
            is_new = True
            await asyncio.sleep(delay * random.uniform(0.9, 1.1))
            pause = min(pause * 2, 2.0)

    def _read(self, answer: AsyncAnswer, read: bytes, target: str) -> Any:
        if answer.status < 300:
            try:
                return _answers.value(read) if read else None
            except Foreign as error:
                raise Unavailable(f"{self._servers[0].url}: {error}") from error
        problem = _answers.problem(read)
        if problem is None:
            page = read.decode(errors="replace")[:500]
            problem = {"detail": f"an answer that is not that of a windlass server: {page or 'an empty body'}"}
        raise CODES.get(problem.get("code", ""), ApiError)(answer.status, problem, target)


def part(text: str) -> str:
    if not isinstance(text, str) or not text:
        raise ValueError(f"an id or a name is a text of one character or more, not {text!r}")
    return quote(text, safe="")


def _query(fields: Mapping[str, Any]) -> Json:
    """Returns the parameters of a request: `for_` is `for`, what is `None` is left out. A datetime without a zone is in that of
    this machine."""

    def one(value: Any, name: str) -> Any:
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, dt.timedelta) and name == "overlap":
            return f"{round(value.total_seconds() * 1000)}ms"
        if isinstance(value, dt.timedelta):
            raise TypeError(f"{name}: {value!r} is not a point in time: give a datetime, or a text such as '1h ago'")
        return when(value, name) if isinstance(value, dt.datetime) else value

    given = {name.rstrip("_"): value for name, value in fields.items() if value is not None}
    return {name: one(value, name) for name, value in given.items()}


class Wait:
    """One request of a wait that ends at a time."""

    def __init__(self, end: float) -> None:
        self._began = time.monotonic()
        left = max(0.0, end - self._began)
        self._left, self.wait = left, min(_WAIT, left)
        self.within = None if left == float("inf") else left + _MARGIN
        """How long the request may take in all, with the search for a server."""

    def pause(self) -> float:
        """Returns how long to wait before the next request: a server that ends may have answered at once."""
        passed = time.monotonic() - self._began
        return 0.0 if passed >= min(self.wait, 0.2) else min(1.0, self._left)
