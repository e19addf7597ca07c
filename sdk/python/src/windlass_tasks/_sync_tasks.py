"""The client whose calls block, made of `_aio_tasks.py` by `make_sync.py`: do not edit it."""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from . import _answers, _given
from ._sync_calls import Calls, Wait, part
from ._codec import opened, sealed
from ._errors import ApiError, TaskFailed, Unavailable, Unreadable
from ._fields import SubmitFields
from ._forms import Json, Kinded, form, times
from ._waited import shown

if TYPE_CHECKING:
    from typing_extensions import Unpack

P = TypeVar("P")
_BATCH = 500
_BATCH_BYTES = 2 << 20
"""The most tasks, and bytes of several tasks, of one submit."""


class Tasks(Calls):
    """Submits, reads and changes tasks."""

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
        return self._object("POST", "/tasks", form(task, props, fields), key=True)

    def submit_many(self, tasks: Iterable[Json]) -> list[Json]:
        """Submits tasks that `Task.new` or `Kind.new` makes, or in their JSON form. Returns an answer for each: one that is
        refused has a `code`.

        They are sent in several requests when they are many, or large."""
        answers: list[Json] = []
        batch: list[Json] = []
        size = 0
        for task in tasks:
            task = sealed(task, self._codec)
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
        return self._decoded(self._object("GET", f"/tasks/{part(id)}"))

    def result(self, id: str, timeout: float | dt.timedelta | None = None) -> Any:
        """Waits until a task has ended, and returns its result. Raises `TaskFailed`, `TimeoutError` and `Masked`."""
        left = float("inf") if timeout is None else _given.seconds("timeout", timeout, forever=True)
        path, end = f"/tasks/{part(id)}", time.monotonic() + left
        while True:
            waits = Wait(end)
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
        for field in self._values_of(task):
            task[field] = self._codec.decode(task[field])
        return task

    def _values_of(self, task: Json) -> list[str]:
        """Returns the fields with a value to decode. The server has made all of a schedule but the props of its runs."""
        if task.get("kind") != "schedule":
            return [field for field in ("props", "data", "result") if task.get(field) is not None]
        data = task.get("data")
        opened(task.get("props"), self._codec)
        opened(data.get("spec") if isinstance(data, dict) else None, self._codec)
        return []

    def _decoded_of_many(self, task: Json) -> Json:
        """As `_decoded`; what cannot be read or decoded is left out, so that it holds up no other task."""
        task, missing = _answers.without_missing(task)
        for field in self._values_of(task):
            try:
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
        return self._object("POST", f"/tasks/{part(id)}/reschedule", times(fields, "task"), key=True)

    def retry(self, id: str, **fields: Any) -> Json:
        """Starts an ended task again; with other `props` or `data` if they are given."""
        return self._object("POST", f"/tasks/{part(id)}/retry", times(fields, "task"), key=True)

    def patch(self, id: str, operations: Sequence[Json]) -> Json:
        """Changes props and data of a task that no worker has, by a JSON Patch of `/props` and `/data`.

        With a codec they can only be replaced as a whole: `ValueError` is raised for a path below them."""
        return self._object("PATCH", f"/tasks/{part(id)}", list(operations))

    def delete(self, id: str, *, force: bool = False) -> None:
        """Deletes a task; one that a worker has only with `force`."""
        self.request("DELETE", f"/tasks/{part(id)}", key=True, force=force or None)

    def why(self, id: str | None = None) -> Json:
        """Returns why a task is not run; without an id, what holds tasks back, by reason."""
        return self._object("GET", "/why" if id is None else f"/tasks/{part(id)}/why")

    def graph(self, id: str, *, waiters: bool = False, limit: int | None = None) -> Json:
        """Returns the tasks that a task waits for; with `waiters`, those that wait for it."""
        return self._object("GET", f"/tasks/{part(id)}/graph", waiters=waiters or None, limit=limit)

    def history(self, id: str, limit: int | None = None) -> Json:
        """Returns the changes of a task, oldest first."""
        return self._object("GET", f"/tasks/{part(id)}/history", limit=limit)

    def log(self, id: str, after: str | None = None) -> Json:
        """Returns the lines that the handler of a task has logged."""
        return self._object("GET", f"/tasks/{part(id)}/log", after=after)

    def transaction(self, lines: Sequence[Json], *, id: str | None = None, dry_run: bool = False) -> Json:
        """Applies operations (docs/reference/json.md, `operation.json`) in one step: all, or none. With `dry_run`, checks them.

        With a codec `require` takes `data` only if the codec encodes a value the same way each time; otherwise `ValueError` is
        raised."""
        body = {"lines": list(lines), "dry_run": dry_run, **({"id": id} if id else {})}
        return self._object("POST", "/transactions", body, key=id is None and not dry_run, again=True)
