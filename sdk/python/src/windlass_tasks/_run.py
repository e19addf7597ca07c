"""A run in the process of its handler: the port of its job."""

from __future__ import annotations

import itertools
import json
import logging
import os
import threading
import time
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from . import _trace
from ._forms import Json
from ._frames import LARGEST_TEXT
from ._job import Done, Job, Next, Refused, Stop, _current
from ._task import Task, is_stop, make_job, outcome

if TYPE_CHECKING:
    from ._host import Host

logger = logging.getLogger("windlass_tasks")
_LINE = 4096
"""The most bytes of a line of the log."""


def clock() -> float:
    """A clock that also runs while the machine sleeps, where there is one."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def sound(text: str) -> str:
    """Returns a text that every JSON reader takes: without half characters, as in names of files that are not UTF-8."""
    return str(text)[:16_384].encode("utf-8", "replace").decode()


def readable(text: str, instead: Json) -> Json:
    """Returns what the worker's process has sent as a text; `instead`, with the reason, if this process cannot read it."""
    try:
        return dict(json.loads(text))
    except (ValueError, RecursionError) as error:
        return {**instead, "unreadable": f"{type(error).__name__}: {error}"}


class Run:
    """A run in this process: the port of its job."""

    def __init__(self, host: Host, key: int, task: Task[Any, Any], claim: Json) -> None:
        self.host, self.key, self.task, self.claim = host, key, task, claim
        self.job: Job[Any, Any] | None = None
        self.stop: Stop | None = None
        self.order = max((signal["order"] for signal in claim.get("signals") or []), default=0)
        self.changed = threading.Condition()
        self.answers: dict[int, Any] = {}
        self.fresh = False
        """Whether a signal has come that neither `signals` nor the end of a `wait` has shown to the handler."""
        self.tickets = itertools.count(1)
        self.is_over = False
        self.is_aborted = False
        """Whether nothing of the run counts any more, so that no report is answered."""
        self.unreadable: Exception | None = None
        """Why a signal that has come cannot be read: it fails the run."""

    # The port

    def check(self) -> None:
        if self.is_over:
            raise RuntimeError(f"the run of task {self.claim['id']} has ended: its job can do nothing more")
        self.check_process()

    def check_process(self) -> None:
        if os.getpid() != self.host.pid:
            raise RuntimeError(f"the job of task {self.claim['id']} belongs to the process that has forked: use it there")

    def tell(self, what: str, value: Any) -> None:
        self.check()
        if what == "log":
            value = sound(value)[: _LINE + 1]  # The server marks a line that has more bytes than it keeps.
        elif "text" in value:
            value["text"] = sound(value["text"])
        self.host.send(["tell", self.key, what, json.dumps(value)])

    def took(self, order: int) -> None:
        self.check_process()
        self.fresh = False
        if order > self.order:
            self.order = order
            self.host.send(["took", self.key, order])

    def ask(self, what: str, value: Any) -> Awaitable[None]:
        ticket = self._ask(what, value)
        with self.changed:
            self.changed.wait_for(lambda: ticket in self.answers or self.is_aborted)
            error = self.answers.pop(ticket, None)
        self._answered(error)
        return Done()

    def wait(self, seconds: float | None) -> Awaitable[None]:
        self.check()
        with self.changed:
            self.changed.wait_for(lambda: self.stop or self.fresh, None if seconds is None else min(seconds, threading.TIMEOUT_MAX))
        self._waited()
        return Done()

    def clock(self) -> float:
        return clock()

    def read(self, start: int) -> Json:
        ticket = self._read(start)
        with self.changed:
            self.changed.wait_for(lambda: self.stop or ticket in self.answers)
            answer = self.answers.pop(ticket, None)
        self._look()
        return page(answer)

    async def read_later(self, start: int) -> Json:
        return self.read(start)

    def _read(self, start: int) -> int:
        self.check()
        ticket = next(self.tickets)
        self.host.send(["read", self.key, ticket, start])
        return ticket

    def _ask(self, what: str, value: Any) -> int:
        self.check()
        text = json.dumps(value, allow_nan=False)
        if len(text) > LARGEST_TEXT:
            raise Refused(_too_large(text))
        ticket = next(self.tickets)
        self.host.send(["ask", self.key, ticket, what, text, self.order])
        return ticket

    def _answered(self, error: str | None) -> None:
        if error is not None:
            raise Refused(error)
        self._look()

    def _waited(self) -> None:
        self.fresh = False
        self._look()

    def _look(self) -> None:
        if self.stop is not None:
            raise self.stop
        if self.unreadable is not None:
            raise self.unreadable

    # What comes

    def stopped(self, stop: Json) -> None:
        self.stop = Stop(stop["reason"], stop.get("command"))
        self.order = max(self.order, stop.get("order") or 0)
        if self.job is not None:
            self.job.stopping = self.stop
        self.wake()

    def signalled(self, sent: Json) -> None:
        if self.job is None:
            self.claim.setdefault("signals", []).append(sent)
        else:
            try:
                self.job._receive(sent)
            except Exception as error:
                self.unreadable = error
        self.fresh = True
        self.wake()

    def answered(self, ticket: int, answer: Any) -> None:
        self.answers[ticket] = answer
        self.wake()

    def wake(self) -> None:
        with self.changed:
            self.changed.notify_all()

    # Its life

    def made(self) -> Job[Any, Any]:
        self.job = make_job(self.task, self.claim, self)
        self.job.stopping = self.stop
        _current.set(self.job)
        if self.stop is not None:
            raise self.stop
        return self.job

    def handled(self, job: Job[Any, Any]) -> Any:
        with _trace.run(job) as span:
            returned = self.task.handler(job)
            self._mark(span, returned)
            return returned

    def _mark(self, span: _trace.Span, returned: Any) -> None:
        if isinstance(returned, Next) and returned.message["message"] == "error":
            span.failed(returned.message["error"])

    def call(self) -> None:
        """Runs a `def` handler, and sends what follows."""
        returned, error = None, None
        try:
            returned = self.host.user(self)
        except BaseException as raised:
            error = raised
        if os.getpid() != self.host.pid:  # The handler has forked: the child says nothing of the task.
            os._exit(0 if error is None else 1)
        self.ended(returned, error)

    def ended(self, returned: Any, error: BaseException | None) -> None:
        if error is not None and not is_stop(error):
            logger.warning("task %s: the handler has failed", self.claim["id"], exc_info=error)
        self.host.runs.pop(self.key, None)
        self.is_over = True
        self.host.report_files()
        try:
            message = outcome(self.task, self.job, returned, error, self.stop)
            if "error" in message:
                message["error"] = sound(message["error"])
            text = json.dumps(message, allow_nan=False)
            if len(text) > LARGEST_TEXT:
                raise ValueError(_too_large(text))
        except Exception as wrong:  # A codec, or the text of an exception.
            raised = "" if error is None else f" after a {type(error).__name__}"
            text = f"what the handler has returned cannot be stored{raised}: {type(wrong).__name__}: {wrong}"
            text = json.dumps({"message": "error", "error": sound(text)})
        self.host.send(["return", self.key, text, self.order])


def page(answer: Json | None) -> Json:
    """Returns a page of results that the worker's process has read."""
    answer = answer or {"error": "the run is stopped"}
    if "error" in answer:
        raise RuntimeError(answer["error"])
    return dict(json.loads(answer["page"]))


def _too_large(text: str) -> str:
    return f"it has {len(text):,} bytes; a task has room for one MiB"
