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
from time import monotonic as _now
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from . import _trace
from ._errors import CODES, ApiError, Exists, SignalError, TaskFailed, Unavailable
from ._job import Codec, Json, Kinded, Plain, form, times
from ._streams import Address, SyncStream
from ._values import plain

P = TypeVar("P")
_LATER = (429, 503)
_WAIT = 20.0


class Answer:
    """The status, the headers and the body of an answer."""

    def __init__(self, stream: SyncStream, status: int, headers: dict[str, str]) -> None:
        self._stream, self.status, self.headers = stream, status, headers
        self.keeps = headers.get("connection", "").lower() != "close"

    def body(self) -> bytes:
        if self.status == 204:
            return b""
        if "content-length" in self.headers:
            return self._stream.exactly(int(self.headers["content-length"]))
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            return b"".join([chunk for chunk in self.chunks()])
        self.keeps = False
        return self._stream.rest()

    def chunks(self) -> Iterator[bytes]:
        """The parts of the body as they come."""
        if self.headers.get("transfer-encoding", "").lower() != "chunked":
            left = int(self.headers.get("content-length", "0"))
            while left:
                part = self._stream.exactly(min(left, 1 << 16))
                left -= len(part)
                yield part
            return
        while size := int((self._stream.until(b"\r\n")).split(b";")[0], 16):
            yield (self._stream.exactly(size + 2))[:-2]
        self._stream.until(b"\r\n")

    def lines(self) -> Iterator[str]:
        """The lines of the body as they come."""
        rest = b""
        for chunk in self.chunks():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                yield line.decode().rstrip("\r")
        if rest:
            yield rest.decode()


class Link:
    """A connection to one server, which is opened when it is needed and kept."""

    def __init__(self, address: Address, token: str | None) -> None:
        self.address, self._token, self._stream = address, token, None

    _stream: SyncStream | None

    def send(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str], timeout: float | None) -> Answer:
        """Sends a request, and reads the head of the answer."""
        lines = [f"{method} {self.address.base}{path} HTTP/1.1", f"Host: {self.address.name}"]
        if self._token:
            lines.append(f"Authorization: Bearer {self._token}")
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        head = "\r\n".join([*lines, "", ""]).encode()
        if self._stream is None:
            self._stream = SyncStream.open(self.address, timeout)
        self._stream.timeout = timeout
        try:
            self._stream.write(head + (body or b""))
        except ConnectionError:
            if len(body or b"") < 65536:
                raise  # Otherwise the server may have refused the size, and answered.
        first, *rest = (self._stream.until(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        pairs = [line.split(":", 1) for line in rest if ":" in line]
        found = {name.strip().lower(): value.strip() for name, value in pairs}
        version, status = first.split(" ")[:2]
        if not version.startswith("HTTP/1."):
            raise ConnectionError(f"{self.address.url} does not speak HTTP/1.1")
        return Answer(self._stream, int(status), found)

    def call(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str], timeout: float | None
    ) -> tuple[Answer, bytes]:
        """Sends a request, and reads the whole answer. After an error the connection is closed."""
        try:
            answer = self.send(method, path, body, headers, timeout)
            read = answer.body()
        except BaseException:
            self.close()
            raise
        if not answer.keeps:
            self.close()
        return answer, read

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None


class Client:
    """Submits tasks, sends commands, reads: everything that the HTTP API of a windlass server has.

    `url` is the address of a server, or of several with spaces between them; `WINDLASS_URL`, and
    `http://localhost:7474` without that. `token` is `WINDLASS_TOKEN` by default; the Unix socket needs none.
    A request is sent again for `timeout` seconds, to the next server if there are several, when none has answered or one
    is busy: this is safe, because a request that changes tasks has a key. A client may be shared: each request has a
    connection of its own.

    Methods return the JSON of the answer, as docs/json.md of windlass describes it, and raise `ApiError`."""

    def __init__(
        self, url: str | None = None, token: str | None = None, *, timeout: float = 30.0, codec: Codec | None = None
    ) -> None:
        urls = url or os.environ.get("WINDLASS_URL") or "http://localhost:7474"
        self._token = os.environ.get("WINDLASS_TOKEN") if token is None else token
        self._servers = [Address.read(one) for one in urls.split()]
        self._free: dict[str, list[Link]] = {}
        self._timeout, self._codec = timeout, codec or Plain()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections that are not in use."""
        for links in self._free.values():
            while links:
                links.pop().close()

    def _link(self) -> Link:
        """Returns a connection that nobody else uses."""
        free = self._free.setdefault(self._servers[0].url, [])
        try:
            return free.pop()
        except IndexError:
            return Link(self._servers[0], self._token)

    def _next_server(self, failed: Address) -> None:
        if self._servers[0] == failed:  # Another request may have changed the server before.
            self._servers.append(self._servers.pop(0))

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        key: bool = False,
        again: bool = False,
        wait: float = 0.0,
        **query: Any,
    ) -> Any:
        """Sends any request, and returns the JSON of the answer.

        `query` leaves out what is `None`. `key` adds an `Idempotency-Key`, with which a request may be sent again; `again` is
        for a request that may be without it. `wait` is for how long the server may hold
        the answer back. Raises `ApiError` for an answer that is an error, `Unavailable` when no server answers in time."""
        given = {name.rstrip("_"): value for name, value in query.items() if value is not None}
        if wait:
            given["wait"] = f"{round(wait * 1000)}ms"
        for name, value in given.items():
            if isinstance(value, bool):
                given[name] = "true" if value else "false"
        target = f"/v1{path}" + (f"?{urlencode(given, doseq=True)}" if given else "")
        headers = _trace.current()
        if body is not None:
            headers["Content-Type"] = "application/json"
        if isinstance(body, list) and method == "PATCH":
            headers["Content-Type"] = "application/json-patch+json"
        if key:
            headers["Idempotency-Key"] = str(uuid.uuid4())
        data = None if body is None else json.dumps(body, allow_nan=False).encode()
        return self._send(method, target, data, headers, wait, method in ("GET", "DELETE") or key or again)

    def _object(self, method: str, path: str, body: Any = None, **more: Any) -> Json:
        return dict(self.request(method, path, body, **more))

    def _send(self, method: str, target: str, data: bytes | None, headers: dict[str, str], wait: float, again: bool) -> Any:
        for text in (method, target, self._token or "", *headers.values()):
            if not text.isprintable() or " " in target:
                raise ValueError(f"a request has a character that HTTP does not allow: {text[:80]!r}")
        pause, spent, problem = 0.05, 0.0, ""
        while True:
            link = self._link()
            fresh = link._stream is None
            try:
                answer, read = link.call(method, target, data, headers, self._timeout + wait)
            except (OSError, ValueError, TimeoutError) as error:
                problem = f"{link.address.url}: {str(error) or type(error).__name__}"
                # An old connection may have been closed between two requests: a new one is tried at once.
                delay = 0.0 if not fresh and again else pause
                refused = isinstance(error, ConnectionRefusedError)
                if not again and not refused:
                    raise Unavailable(f"{problem}; whether the request was carried out is not known") from error
            else:
                self._free[link.address.url].append(link)
                if answer.status not in _LATER:
                    if wait and answer.status < 300 and "retry-after" in answer.headers:
                        # The server had no place for the wait: the caller asks again after a moment.
                        time.sleep(min(wait, 1.0))
                    return self._read(answer, read, target)
                problem = f"{link.address.url} answered {answer.status}"
                delay = float(answer.headers.get("retry-after", "0") or 0) or pause
                if answer.status == 503 and len(self._servers) > 1:
                    delay = min(delay, pause)
            self._next_server(link.address)
            spent += max(delay, 0.01)
            if spent > self._timeout:
                raise Unavailable(f"no server has carried out the request in {self._timeout:g} s: {problem}")
            time.sleep(delay * random.uniform(0.9, 1.1))
            pause = min(pause * 2, 2.0)

    def _read(self, answer: Answer, read: bytes, target: str) -> Any:
        is_json = "json" in answer.headers.get("content-type", "")
        if answer.status < 300:
            return json.loads(read) if is_json else None
        problem = json.loads(read) if is_json and read else {"detail": read.decode(errors="replace")[:500]}
        kind = CODES.get(problem.get("code", ""), ApiError)
        raise kind(answer.status, problem, target)

    # Tasks

    def submit(self, task: Kinded[P] | str, props: P | None = None, **fields: Any) -> Json:
        """Submits a task, and returns `{"id": …, "submitted": "new"}`.

        `fields` are those of a task: `id`, `start_at` (a `datetime`, or a `timedelta` from now), `labels`, `priority`,
        `retry`, `limits`, `after`, `unique`, `end_by`, `if_exists` (`same` makes a second submit harmless) and so on."""
        return self._object("POST", "/tasks", form(task, props, self._codec, fields), key=True)

    def submit_many(self, tasks: Iterable[Json]) -> list[Json]:
        """Submits tasks that `Task.new` makes, and returns an answer for each: one that is refused has a `code`."""
        answers: list[Json] = []
        batch: list[Json] = []
        for task in tasks:
            batch.append(task)
            if len(batch) == 500:
                answers += self.request("POST", "/tasks", batch, key=True)
                batch = []
        return answers + (self.request("POST", "/tasks", batch, key=True) if batch else [])

    def get(self, id: str) -> Json:
        """Returns a task. Raises `NotFound`."""
        return self._decoded(self._object("GET", f"/tasks/{_part(id)}"))

    def result(self, id: str, timeout: float | dt.timedelta | None = None) -> Any:
        """Waits until a task has ended, and returns its result. Raises `TaskFailed` and `TimeoutError`."""
        left = float("inf") if timeout is None else _seconds(timeout)
        if left != left:
            raise ValueError("timeout: nan is not a time")
        end = _now() + left
        while True:
            wait = max(0.0, min(_WAIT, left))
            task = self._decoded(self._object("GET", f"/tasks/{_part(id)}", wait=wait, for_="ended"))
            if task["state"] == "completed":
                return task.get("result")
            if task["state"] in ("failed", "killed"):
                raise TaskFailed(id, task)
            left = end - _now()
            if left <= 0:
                raise TimeoutError(f"task {id} is {task['state']} after the timeout")

    def _decoded(self, task: Json) -> Json:
        for field in ("props", "data", "result"):
            if task.get(field) is not None:
                task[field] = self._codec.decode(task[field])
        return task

    def list(self, **filters: Any) -> Iterator[Json]:
        """Yields tasks, page by page. `filters` are those of `windlass list`: `state`, `kind`, `label`, `prefix`, ….

        `limit` is the size of a page."""
        cursor = None
        while True:
            page = self.request("GET", "/tasks", **{**filters, "cursor": cursor})
            for task in page["tasks"]:
                yield self._decoded(task)
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
        self.request("DELETE", f"/tasks/{_part(id)}", force=force or None)

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
        """Applies operations (docs/json.md, `operation.json`) in one step: all, or none. With `dry_run`, checks them."""
        body = {"lines": list(lines), "dry_run": dry_run, **({"id": id} if id else {})}
        return self._object("POST", "/transactions", body, key=id is None and not dry_run, again=True)

    # Commands

    def command(self, id: str, command: str, *, wait: float | dt.timedelta | None = None, **fields: Any) -> Json:
        """Sends a command: `run`, `sleep` (with `until`), `pause`, `release`, `checkpoint`, `complete`, `kill`.

        With `wait` the answer has its `outcome`, if there was one in that time."""
        body = {"id": str(uuid.uuid4()), "command": command, **times(fields, "command")}
        return self._await_outcome(f"/tasks/{_part(id)}/commands", body, wait, {})

    def _await_outcome(self, path: str, body: Any, wait: float | dt.timedelta | None, query: Json) -> Json:
        left = 0.0 if wait is None else _seconds(wait)
        sent = self._object("POST", path, body, again=True, **query)
        end = _now() + left
        while sent.get("outcome") is None and left > 0:
            part = min(_WAIT, left)
            sent = self._object("GET", f"/commands/{_part(sent['id'])}", wait=part)
            left = end - _now()
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

        Raises `SignalError` when the handler has not replied, and `TimeoutError`: the signal stays in the queue then."""
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
        return self._codec.decode(outcome.get("reply"))

    def commands(self, id: str) -> Json:
        """Returns the commands of a task, with their outcomes."""
        return self._object("GET", f"/tasks/{_part(id)}/commands")

    def changes(self, after: int | str | None = None) -> Iterator[Json]:
        """Yields the changes of the namespace as they come, without an end, over every failure of a server.

        `after` is the `seq` of a change; 0 for the oldest that is kept, and now without it. When changes in between are no
        longer kept, `{"what": "reset", "seq": …}` comes: list the tasks then."""
        link, pause = None, 0.05
        while True:
            headers = {"Accept": "text/event-stream"}
            path = "/v1/changes" if after is None else f"/v1/changes?after={after}"
            try:
                link = Link(self._servers[0], self._token)
                answer = link.send("GET", path, None, headers, 45.0)
                if answer.status in _LATER:
                    raise ConnectionError("the server is busy")
                if answer.status != 200:
                    self._read(answer, answer.body(), path)
                name = ""
                for line in answer.lines():
                    field, _, value = line.partition(": ")
                    if field == "id":
                        after, pause = value, 0.05
                    elif field == "event":
                        name = value
                    elif field == "data" and name == "reset":
                        yield {"what": "reset", "seq": after}
                    elif field == "data" and name == "change":
                        yield json.loads(value)
            except (OSError, ValueError, TimeoutError):
                pass
            finally:
                if link is not None:
                    link.close()
            if link is not None:
                self._next_server(link.address)
            time.sleep(pause)
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
        """`pause`, `resume`, `trigger`, `backfill` or `skip`, with the fields of that request (docs/server.md)."""
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
            answer = link.send("GET", "/v1/backup", None, {}, 600.0)
            if answer.status != 200:
                self._read(answer, answer.body(), "/v1/backup")
            size = 0
            with open(path, "xb") as file:  # noqa: ASYNC230 (a local file)
                try:
                    for chunk in answer.chunks():
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


def _seconds(time: float | dt.timedelta) -> float:
    return time.total_seconds() if isinstance(time, dt.timedelta) else time
