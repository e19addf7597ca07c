"""The client whose calls block, made of `_aio.py` by `make_sync.py`: do not edit it."""

from __future__ import annotations

import datetime as dt
import json
import os
import random
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, overload
from urllib.parse import quote, urlencode

from . import _answers, _given, _token, _trace
from ._answers import GATEWAY, Foreign
from ._errors import CODES, ApiError, Exists, SignalError, TaskFailed, Unavailable, Unreadable
from ._fields import SubmitFields
from ._forms import Codec, Json, Kinded, Plain, form, times
from ._streams import TIMEOUTS, Address, SyncStream
from ._values import plain
from ._waited import shown

if TYPE_CHECKING:
    from typing_extensions import Unpack

P = TypeVar("P")
_ANY: Mapping[str, type] = {}
_LATER = (429, 503)
_WAIT = 20.0
"""The longest that one request waits for a task or an outcome, in seconds."""
_KEPT = 10.0
"""How long a connection is kept that is not in use: proxies and servers close idle ones, some without a word."""
_MARGIN = 2.0
"""How much later than the end of a wait its answer may come, in seconds."""
_IDLE = 45.0
"""The longest silence of a stream of changes, which has a comment every 15 s."""
_BATCH = 500
_BATCH_BYTES = 2 << 20
"""The most tasks, and bytes of several tasks, of one submit."""


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


class Client:
    """Submits tasks, sends commands, reads: everything that the HTTP API of a windlass server has.

    `url` is the address of a server, or of several with spaces between them; `WINDLASS_URL`, and
    `http://localhost:7474` without that. `token` is `WINDLASS_TOKEN` by default; the Unix socket needs none.
    A request is sent again for `timeout` seconds in all, to the next server if there are several, when none has answered, one
    is busy, or a proxy has no answer of one: this is safe, because a request that changes tasks has a key. Another request is
    sent again only if no server has got it. A client may be shared by threads, event loops, and the children of a fork: each
    request has a connection of its own, and each process and event loop opens its own.

    Methods return the JSON of the answer, as docs/reference/json.md describes it, and raise `ApiError`. `Unavailable` says
    that no server has answered, and `Unreadable` that Python does not read a value of the answer."""

    def __init__(
        self, url: str | None = None, token: str | None = None, *, timeout: float = 30.0, codec: Codec | None = None
    ) -> None:
        urls = url or os.environ.get("WINDLASS_URL") or "http://localhost:7474"
        self._token = _token.of_environment() if token is None else token
        self._servers = [Address.read(one) for one in urls.split()]
        self._free: dict[tuple[Any, ...], list[Link]] = {}
        self._timeout, self._codec = _given.seconds("timeout", timeout, forever=True), codec or Plain()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections of this process and event loop that are not in use."""
        links = self._links()
        while links:
            links.pop().close()

    def _links(self) -> list[Link]:
        """Returns the connections that are not in use, of this process and event loop: no other may use them."""
        home = SyncStream.home()
        links = self._free.get(home)
        if links is None:
            for other in [one for one in list(self._free) if SyncStream.is_over(one)]:
                for link in self._free.pop(other, ()):
                    link.forget()
            links = self._free.setdefault(home, [])
        return links

    def _link(self, links: list[Link], to: Address, is_new: bool) -> Link:
        """Returns a connection that nobody else uses, and closes those that are old, or of another server."""
        while links:
            try:
                link = links.pop()
            except IndexError:
                break  # Another thread has taken it.
            if not is_new and link.address == to and time.monotonic() - link.used < _KEPT:
                return link
            link.close()
        return Link(to, self._token)

    def _next_server(self, failed: Address) -> None:
        first, *others = self._servers
        if others and first == failed:  # Another request may have changed the server before.
            self._servers = [*others, first]

    def request(
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

        `query` leaves out what is `None`. `key` adds an `Idempotency-Key`, with which a request may be sent again; `again` is
        for a request that may be without it. `wait` is for how long the server may hold
        the answer back, and `within` for how long the call may take in all; without it, `timeout` of the client and `wait`. Raises
        `ApiError` for an answer that is an error, `Unavailable` when no server answers in time, and `Unreadable`."""
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
        data = None if body is None else json.dumps(body, allow_nan=False).encode()
        return self._send(method, target, data, headers, wait, within, method in ("GET", "DELETE") or key or again)

    def _object(self, method: str, path: str, body: Any = None, needs: Mapping[str, type] = _ANY, **more: Any) -> Json:
        """Sends a request whose answer is an object that has these fields."""
        try:
            return _answers.shaped(self.request(method, path, body, **more), needs)
        except Foreign as error:
            raise Unavailable(f"{self._servers[0].url}: {error}") from error

    def _send(
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
                answer, read = link.call(method, target, data, headers, max(0.01, min(wait + share, end - sent)))
            except (OSError, ValueError, TimeoutError) as error:
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
                if answer.status in _LATER:
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
            time.sleep(delay * random.uniform(0.9, 1.1))
            pause = min(pause * 2, 2.0)

    def _read(self, answer: Answer, read: bytes, target: str) -> Any:
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

    # Tasks

    @overload
    def submit(self, task: Kinded[P], props: P, **fields: Unpack[SubmitFields]) -> Json: ...
    @overload
    def submit(self, task: Kinded[None], **fields: Unpack[SubmitFields]) -> Json: ...
    @overload
    def submit(self, task: str, props: Any = None, **fields: Unpack[SubmitFields]) -> Json: ...

    def submit(self, task: Kinded[Any] | str, props: Any = None, **fields: Any) -> Json:
        """Submits a task, and returns `{"id": …, "submitted": "new"}`.

        `task` is a handler, a `Kind`, or the name of a kind. With the first two, type checkers see props of another type, and
        `ValueMismatch`, which names the field, is raised before a request is sent.
        `fields` are those of a task: `id`, `start_at` (a `datetime`, or a `timedelta` from now), `labels`, `priority`,
        `retry`, `limits`, `after`, `unique`, `end_by`, `if_exists` (`same` makes a second submit harmless) and so on."""
        return self._object("POST", "/tasks", form(task, props, self._codec, fields), key=True)

    def submit_many(self, tasks: Iterable[Json]) -> list[Json]:
        """Submits tasks that `Task.new` makes, and returns an answer for each: one that is refused has a `code`.

        They are sent in several requests when they are many, or large."""
        answers: list[Json] = []
        batch: list[Json] = []
        size = 0
        for task in tasks:
            length = len(json.dumps(task, allow_nan=False))
            if batch and (len(batch) == _BATCH or size + length > _BATCH_BYTES):
                answers += self._submit_batch(batch)
                batch, size = [], 0
            batch.append(task)
            size += length
        return answers + (self._submit_batch(batch) if batch else [])

    def _submit_batch(self, batch: list[Json]) -> list[Json]:
        """Submits tasks in one request, or in two when the server takes no request of that size."""
        try:
            answers = self.request("POST", "/tasks", batch, key=True)
        except ApiError as error:
            if error.status != 413 or len(batch) == 1:
                raise
            half = len(batch) // 2
            return self._submit_batch(batch[:half]) + self._submit_batch(batch[half:])
        if not isinstance(answers, list) or len(answers) != len(batch):
            raise Unavailable(
                f"{self._servers[0].url} has not answered with a list of {len(batch)}; check the URL, and proxies in between"
            )
        return answers

    def get(self, id: str) -> Json:
        """Returns a task. Raises `NotFound`."""
        return self._decoded(self._object("GET", f"/tasks/{_part(id)}"))

    def result(self, id: str, timeout: float | dt.timedelta | None = None) -> Any:
        """Waits until a task has ended, and returns its result. Raises `TaskFailed`, `TimeoutError` and `Masked`."""
        left = float("inf") if timeout is None else _given.seconds("timeout", timeout, forever=True)
        path, end = f"/tasks/{_part(id)}", time.monotonic() + left
        while True:
            waits = _Wait(end)
            needs = {"state": str}
            try:
                task = self._object("GET", path, needs=needs, wait=waits.wait, within=waits.within, for_="ended")
            except Unreadable as error:
                task = _answers.shaped(_answers.salvaged(error.answer.decode(), 1), needs)
                if task["state"] == "completed" and isinstance(task.get("result"), _answers.Missing):
                    raise
            if task["state"] == "completed":
                result = task.get("result")
                return None if result is None else self._codec.decode(shown(id, "a result", result))
            if task["state"] in ("failed", "killed"):
                raise TaskFailed(id, self._decoded_of_many(task))
            if time.monotonic() >= end:
                raise TimeoutError(f"task {id} is {task['state']} after the timeout")
            time.sleep(waits.pause())

    def _decoded(self, task: Json) -> Json:
        for field in ("props", "data", "result"):
            if task.get(field) is not None:
                task[field] = self._codec.decode(task[field])
        return task

    def _decoded_of_many(self, task: Json) -> Json:
        """As `_decoded`; what cannot be read or decoded is left out, so that it holds up no other task."""
        task, missing = _answers.without_missing(task)
        for field in ("props", "data", "result"):
            try:
                if task.get(field) is not None:
                    task[field] = self._codec.decode(task[field])
            except Exception as error:
                del task[field]
                missing[field] = f"{type(error).__name__}: {error}"
        return {**task, "unreadable": missing} if missing else task

    def list(self, **filters: Any) -> Iterator[Json]:
        """Yields tasks, page by page. `filters` are those of `windlass list`: `state`, `kind`, `label`, `prefix`, ….

        `limit` is the size of a page. A task with a value that Python does not read, or the codec does not decode, has instead of
        that field an entry in `unreadable`, with the reason: the other tasks of the page come all the same."""
        cursor = None
        while True:
            try:
                page = self._object("GET", "/tasks", needs={"tasks": list}, **{**filters, "cursor": cursor})
            except Unreadable as error:
                page = _answers.shaped(_answers.salvaged(error.answer.decode(), 3), {"tasks": list})
            for task in page["tasks"]:
                if isinstance(task, dict):
                    yield self._decoded_of_many(task)
            cursor = page.get("next")
            if cursor is None:
                return

    def reschedule(self, id: str, **fields: Any) -> Json:
        """Changes a task that no worker has: `due`, `priority`, `limits`, `kind`, `props`, `data`."""
        return self._object("POST", f"/tasks/{_part(id)}/reschedule", self._encoded(fields), key=True)

    def retry(self, id: str, **fields: Any) -> Json:
        """Starts an ended task again; with other `props` or `data` if they are given."""
        return self._object("POST", f"/tasks/{_part(id)}/retry", self._encoded(fields), key=True)

    def _encoded(self, fields: Json) -> Json:
        for name in ("props", "data"):
            if name in fields:
                fields[name] = self._codec.encode(plain(fields[name], name))
        return times(fields, "task")

    def patch(self, id: str, operations: Sequence[Json]) -> Json:
        """Changes props and data of a task that no worker has, by a JSON Patch of `/props` and `/data`."""
        return self._object("PATCH", f"/tasks/{_part(id)}", list(operations))

    def delete(self, id: str, *, force: bool = False) -> None:
        """Deletes a task; one that a worker has only with `force`."""
        self.request("DELETE", f"/tasks/{_part(id)}", key=True, force=force or None)

    def why(self, id: str | None = None) -> Json:
        """Returns why a task is not run; without an id, what holds tasks back, by reason."""
        return self._object("GET", "/why" if id is None else f"/tasks/{_part(id)}/why")

    def graph(self, id: str, *, waiters: bool = False, limit: int | None = None) -> Json:
        """Returns the tasks that a task waits for; with `waiters`, those that wait for it."""
        return self._object("GET", f"/tasks/{_part(id)}/graph", waiters=waiters or None, limit=limit)

    def history(self, id: str, limit: int | None = None) -> Json:
        """Returns the changes of a task, oldest first."""
        return self._object("GET", f"/tasks/{_part(id)}/history", limit=limit)

    def log(self, id: str, after: str | None = None) -> Json:
        """Returns the lines that the handler of a task has logged."""
        return self._object("GET", f"/tasks/{_part(id)}/log", after=after)

    def transaction(self, lines: Sequence[Json], *, id: str | None = None, dry_run: bool = False) -> Json:
        """Applies operations (docs/reference/json.md, `operation.json`) in one step: all, or none. With `dry_run`, checks them."""
        body = {"lines": list(lines), "dry_run": dry_run, **({"id": id} if id else {})}
        return self._object("POST", "/transactions", body, key=id is None and not dry_run, again=True)

    # Commands

    def command(self, id: str, command: str, *, wait: float | dt.timedelta | None = None, **fields: Any) -> Json:
        """Sends a command: `run`, `sleep` (with `until`), `pause`, `release`, `checkpoint`, `complete`, `kill`.

        With `wait` the answer has its `outcome`, if there was one in that time."""
        body = {"id": str(uuid.uuid4()), "command": command, **times(fields, "command")}
        return self._await_outcome(f"/tasks/{_part(id)}/commands", body, wait, {})

    def _await_outcome(self, path: str, body: Any, wait: float | dt.timedelta | None, query: Json) -> Json:
        left, needs = 0.0 if wait is None else _given.seconds("wait", wait, forever=True), {"id": str}
        sent = self._object("POST", path, body, needs, again=True, **query)
        end = time.monotonic() + left
        while sent.get("outcome") is None and time.monotonic() < end:
            waits = _Wait(end)
            sent = self._object("GET", f"/commands/{_part(sent['id'])}", needs=needs, wait=waits.wait, within=waits.within)
            if sent.get("outcome") is None:
                time.sleep(waits.pause())
        return sent

    def pause(self, id: str, *, wait: float | dt.timedelta | None = None) -> Json:
        """Pauses a task. With `wait`, until its handler has stopped and the pause is stored."""
        return self.command(id, "pause", wait=wait)

    def resume(self, id: str, *, wait: float | dt.timedelta | None = None) -> Json:
        """Resumes a paused task, or wakes a sleeping one."""
        return self.command(id, "run", wait=wait)

    def kill(self, id: str, *, wait: float | dt.timedelta | None = None) -> Json:
        """Ends a task as killed."""
        return self.command(id, "kill", wait=wait)

    def signal(self, id: str, name: str, payload: Any = None, *, wait: float | dt.timedelta | None = 30.0) -> Any:
        """Sends a signal, waits for the reply of the handler, and returns it. With `wait=None` it does not wait.

        Raises `SignalError` when the handler has not replied, `Masked` for a masked reply, and `TimeoutError`: the signal stays
        in the queue then."""
        body = self._codec.encode(plain(payload, "payload"))
        query = {"id": str(uuid.uuid4())}
        sent = self._await_outcome(f"/tasks/{_part(id)}/signals/{_part(name)}", body, wait, query)
        outcome = sent.get("outcome")
        if wait is None:
            return None
        if outcome is None:
            raise TimeoutError(f"task {id} has not replied to the signal {name}: {sent['id']} waits in its queue")
        if outcome.get("outcome") != "answered":
            raise SignalError(id, name, outcome)
        return self._codec.decode(shown(id, f"a reply to {name}", outcome.get("reply")))

    def commands(self, id: str) -> Json:
        """Returns the commands of a task, with their outcomes."""
        return self._object("GET", f"/tasks/{_part(id)}/commands")

    def changes(self, after: int | str | None = None) -> Iterator[Json]:
        """Yields the changes of the namespace as they come, without an end, over every failure of a server.

        `after` is the `seq` of a change; 0 for the oldest that is kept, and now without it. When changes in between are no
        longer kept, `{"what": "reset", "seq": …}` comes: list the tasks then."""
        pause = 0.05
        while True:
            headers = {"Accept": "text/event-stream"}
            path = "/v1/changes" if after is None else f"/v1/changes?after={after}"
            link, home, delay = Link(self._servers[0], self._token), SyncStream.home(), pause
            try:
                answer = link.send("GET", path, None, headers, _IDLE)
                if answer.status != 200:
                    read, delay = answer.body(), _answers.pause(answer.headers, pause)
                    if answer.status in (*_LATER, *GATEWAY) or (answer.status >= 500 and _answers.problem(read) is None):
                        raise ConnectionError(f"the server is busy: {answer.status}")
                    self._read(answer, read, path)
                name, seq = "", after
                for line in answer.lines(_IDLE):
                    field, _, value = line.partition(": ")
                    if field == "id":
                        seq = value
                    elif field == "event":
                        name = value
                    elif field == "data" and name in ("reset", "change"):
                        change = {"what": "reset", "seq": seq} if name == "reset" else _answers.value(value.encode())
                        after, pause = seq, 0.05  # What is cut off comes again.
                        yield change
                        if SyncStream.is_over(home):
                            break  # This is the child of a fork: it opens a connection of its own.
            except Unreadable:
                raise
            except (OSError, ValueError, TimeoutError):
                pass
            finally:
                if SyncStream.is_over(home):
                    link.forget()
                else:
                    link.close()
            self._next_server(link.address)
            time.sleep(delay)
            pause = min(pause * 2, 2.0)

    # Schedules

    def schedules(self, limit: int | None = None, cursor: str | None = None) -> Json:
        """Returns a page of the schedules."""
        return self._object("GET", "/schedules", limit=limit, cursor=cursor)

    def schedule(self, id: str) -> Json:
        """Returns a schedule with its next times."""
        return self._object("GET", f"/schedules/{_part(id)}")

    def create_schedule(self, id: str, spec: Json, *, paused: bool = False, if_exists: str = "refuse") -> Json:
        """Creates a schedule, such as `{"run": report.new(Report()), "cron": ["30 2 * * *"], "zone": "Europe/Oslo"}`.

        With `if_exists="update"` a schedule of that id gets the spec instead; otherwise `Exists` is raised."""
        body = {"id": id, "spec": times(spec, "spec"), "paused": paused}
        try:
            return self._object("POST", "/schedules", body)
        except Exists:
            if if_exists != "update":
                raise
        return self._object("PATCH", f"/schedules/{_part(id)}", body["spec"])

    def update_schedule(self, id: str, **fields: Any) -> Json:
        """Changes the given fields of the spec; `None` removes one."""
        return self._object("PATCH", f"/schedules/{_part(id)}", times(fields, "spec"))

    def delete_schedule(self, id: str, *, kill_runs: bool = False) -> None:
        """Deletes a schedule; its runs continue without `kill_runs`."""
        self.request("DELETE", f"/schedules/{_part(id)}", kill_runs=kill_runs or None)

    def schedule_times(self, id: str, limit: int | None = None) -> Json:
        """Returns the next times of a schedule."""
        return self._object("GET", f"/schedules/{_part(id)}/times", limit=limit)

    def preview_schedule(self, **fields: Any) -> Json:
        """Returns the times that a new or changed schedule would have."""
        return self._object("POST", "/schedule-times", times(fields, "schedule"))

    def change_schedule(self, id: str, action: str, **fields: Any) -> Json:
        """`pause`, `resume`, `trigger`, `backfill` or `skip`, with the fields of that request (docs/operate/server.md)."""
        return self._object("POST", f"/schedules/{_part(id)}/{_part(action)}", times(fields, "schedule"))

    # The namespace

    def counts(self) -> Json:
        """Returns how many tasks there are by kind and state."""
        return self._object("GET", "/counts")

    def activity(self) -> Json:
        """Returns how many tasks start, complete and fail a second, how late they start, and which kinds fail: of all kinds."""
        return self._object("GET", "/activity")

    def failures(self, kind: str | None = None, limit: int | None = None) -> Json:
        """Returns the failed tasks in groups by the fingerprint of their last error, those with the most tasks first."""
        return self._object("GET", "/failures", kind=kind, limit=limit)

    def scale(self, kind: str) -> Json:
        """Returns how many tasks of a kind could run at once, for an autoscaler."""
        return self._object("GET", "/scale", kind=kind)

    def bulk(
        self, action: str, filter: Mapping[str, Any], *, all: bool = False, tasks: int | None = None, key: str | None = None
    ) -> Json:
        """Counts the tasks of an action (`pause`, `resume`, `release`, `complete`, `kill`, `retry`, `delete`). With the count and
        the key that this returns, starts a task that does it, and returns its id. An empty filter needs `all`."""
        body = {"filter": dict(filter), "action": action, "all": all or None, "tasks": tasks, "key": key}
        return self._object("POST", "/bulk", {name: one for name, one in body.items() if one is not None})

    def see(self, what: str, **query: Any) -> Json:
        """Returns `stats`, `limits`, `nodes`, `audit`, `doctor`, `servers`, `time`, `masks`, `tokens` or `openapi.json`."""
        return self._object("GET", f"/{what}", **query)

    def node_command(self, node: str, command: str, **fields: Any) -> Json:
        """Sends `freeze`, `unfreeze`, `balance`, `drain` or `stop-task` (with `task`) to a node or worker."""
        return self._object("POST", f"/nodes/{_part(node)}/commands", {"command": command, **fields})

    def node_answer(self, order: int) -> Json:
        """Returns a node's answer to a command."""
        return self._object("GET", f"/node-commands/{order}")

    def purge(self, **fields: Any) -> Json:
        """Deletes ended tasks: `states`, `older_than` (`30d`), `limit`."""
        return self._object("POST", "/purge", times(fields, "purge"))

    def backup(self, path: str | Path) -> int:
        """Writes a backup of a store on SQLite to a new file, and returns its size. Raises `FileExistsError`."""
        link = Link(self._servers[0], self._token)
        try:
            answer = link.send("GET", "/v1/backup", None, {}, 600.0, self._timeout)
            kind = answer.headers.get("content-type", "")
            if answer.status != 200:
                self._read(answer, answer.body(), "/v1/backup")
            if not answer.is_bounded or kind.startswith("text/"):
                raise Unavailable(
                    f"{link.address.url}: a proxy in between hides whether the backup is whole, or answers itself ({kind})"
                )
            size = 0
            with open(path, "xb") as file:  # noqa: ASYNC230 (a local file)
                try:
                    for chunk in answer.chunks(600.0):
                        size += file.write(chunk)
                except BaseException:
                    os.unlink(path)  # The file is new, and a part of a backup is of no use.
                    raise
            return size
        finally:
            link.close()

    def set_mask(self, kind: str, pointers: Sequence[str], **fields: Any) -> None:
        """Hides values of the tasks of a kind from every caller of the API."""
        self.request("POST", "/masks", {"kind": kind, "pointers": list(pointers), **fields})

    def remove_mask(self, kind: str) -> None:
        """Removes the mask of a kind."""
        self.request("DELETE", f"/masks/{_part(kind)}")

    def new_token(self, name: str, role: str, **fields: Any) -> Json:
        """Makes a token, and returns its secret, which nothing shows again."""
        return self._object("POST", "/tokens", {"name": name, "role": role, **fields})

    def rotate_token(self, name: str, overlap: str | None = None) -> Json:
        """Gives a token another secret; the one before is valid for `overlap` (`1d`) more."""
        return self._object("POST", f"/tokens/{_part(name)}/rotate", overlap=overlap)

    def revoke_token(self, name: str) -> None:
        """Revokes a token."""
        self.request("DELETE", f"/tokens/{_part(name)}")


def _part(text: str) -> str:
    if not isinstance(text, str) or not text:
        raise ValueError(f"an id or a name is a text of one character or more, not {text!r}")
    return quote(text, safe="")


def _query(fields: Mapping[str, Any]) -> Json:
    """Returns the parameters of a request: `for_` is `for`, what is `None` is left out."""
    given = {name.rstrip("_"): one for name, one in fields.items() if one is not None}
    return {name: ("true" if one else "false") if isinstance(one, bool) else one for name, one in given.items()}


class _Wait:
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
