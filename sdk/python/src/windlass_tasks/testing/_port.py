"""The store of one life, as its job sees it."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable
from typing import Any

from .._awaits import NAMES, Awaits, inside
from .._forms import Json
from .._job import Done, Job, Stop, _current
from .._log import TaskLog
from .._task import Task
from ._life import Ended, Life, Signals

_PAGE = 100
"""The most results of a page, as on a server."""
_IDLE = 1.0
"""How long a wait for nothing gives the other tasks of its handler to make something of it, in seconds."""


class Crash(BaseException):
    """The process is lost: it passes every handler."""


class Stuck(BaseException):
    """The handler waits for what does not come: it passes every handler, too."""


class Port:
    """The port of one run."""

    def __init__(
        self,
        life: Life,
        task: Task[Any, Any],
        signals: Signals,
        waited: list[tuple[str, Ended]],
        crash_at: int | None,
        stop_at: int,
        stop: Stop | None,
    ) -> None:
        self.life, self.codec, self.signals, self.waited = life, task.codec, signals, waited
        self.crash_at, self.stop_at, self.stop = crash_at, stop_at, stop
        self.job: Job[Any, Any] | None = None
        self.place, self.calls, self.crashed, self.stuck = 0, 0, False, False
        self.order = max((one["order"] for one in signals.queue), default=0)
        self.awaits = Awaits() if task.place == "loop" else None
        self.loop: asyncio.AbstractEventLoop | None = None
        self.others: set[asyncio.Task[Any]] = set()
        """The tasks of the event loop that are not of the handler."""
        self.came = 0
        """How many signals have come while the handler ran."""

    async def runs(self, handler: Awaitable[Any]) -> tuple[Any, BaseException | None]:
        """Runs an `async def` handler in this event loop. Returns what it has returned or raised."""
        self.loop = asyncio.get_running_loop()
        current = asyncio.current_task()
        self.others = asyncio.all_tasks() - ({current} if current else set())
        try:
            return await handler, None
        except BaseException as error:
            return None, error

    def check(self, what: str) -> None:
        if self.awaits is not None:
            inside(self.loop, what)

    def done(self, name: str) -> Awaitable[None]:
        """Ends a call: of an `async def` handler when it is awaited."""
        if self.awaits is not None:
            return self.awaits.made(name, self.later())
        self.looks()
        return Done()

    async def later(self) -> None:
        await asyncio.sleep(0)  # The other tasks of the handler go on.
        self.looks()

    def crosses(self) -> None:
        """Is called before and after each write."""
        self.ends()
        self.place += 1
        self.crashed = self.place == self.crash_at
        self.ends()

    def ends(self) -> None:
        if self.crashed:  # Also in what the handler does while the crash passes it.
            raise Crash
        if self.stuck:
            raise Stuck

    def looks(self) -> None:
        self.calls += 1
        if self.stop is not None and self.calls >= self.stop_at:
            assert self.job is not None
            self.job.stopping = self.stop
            raise self.stop

    def ask(self, what: str, value: Any) -> Awaitable[None]:
        self.check(what)
        self.crosses()
        data = value if what == "checkpoint" else value.get("data")
        if data is not None:
            self.life.data = json.loads(json.dumps(data, allow_nan=False))
        if what == "checkpoint":
            self.life.checkpoints.append(self.life.data)
        else:
            self.answers(value)
        self.life.writes += 1
        self.crosses()
        return self.done(NAMES.get(what, what))

    def answers(self, answer: Json) -> None:
        """Keeps a reply that is stored. Its signal comes no more."""
        self.life.replies[self.signals.names[answer["signal"]]] = self.codec.decode(answer["reply"])
        self.signals.answered(answer["signal"])

    def tell(self, what: str, value: Any) -> None:
        if what == "log":
            self.life.log.append(value)
        else:
            self.life.progress.append(value["fraction"])

    def wait(self, seconds: float | None) -> Awaitable[None]:
        self.check("wait")
        self.ends()
        clock = self.life.clock
        if seconds is None and not self.signals.later:
            return self.waits_for_nothing()
        self.life.clock = self.signals.next_at(clock, float("inf") if seconds is None else clock + seconds)
        for signal in self.signals.come(self.life.clock):
            assert self.job is not None
            self.came += 1
            self.job._receive(signal)
        return self.done("wait")

    def waits_for_nothing(self) -> Awaitable[None]:
        """Ends a wait for a signal when none comes any more: by the stop of the test, or with the run."""
        if self.stop is not None:
            self.calls = max(self.calls, self.stop_at)
            return self.done("wait")
        if self.awaits is not None:
            return self.awaits.made("wait", self.idle())
        self.stuck = True
        raise Stuck

    async def idle(self) -> None:
        """Waits for what the other tasks of the handler do: a wait of one of them moves the time on."""
        came, end = self.came, time.monotonic() + _IDLE
        while self.came == came:
            self.ends()
            if time.monotonic() > end or asyncio.all_tasks() - self.others == {asyncio.current_task()}:
                self.stuck = True
                raise Stuck
            await asyncio.sleep(0.001)
        self.looks()

    def took(self, order: int) -> None:
        self.order = max(self.order, order)

    def clock(self) -> float:
        return self.life.clock

    def read(self, start: int) -> Json:
        if self.awaits is not None:
            raise RuntimeError("a loop over job.waited.results(...) in an async def handler is an `async for`")
        return self.page(start)

    async def read_later(self, start: int) -> Json:
        if self.awaits is not None:
            inside(self.loop, "waited")
            await asyncio.sleep(0)
        return self.page(start)

    def page(self, start: int) -> Json:
        """Returns the page that begins at a place, as a server sends it."""
        self.ends()
        end = start + _PAGE
        tasks = [ended.page(id, self.codec) for id, ended in self.waited[start:end]]
        return {"tasks": json.loads(json.dumps(tasks, allow_nan=False)), "next": end if end < len(self.waited) else None}


class Log(TaskLog):
    """The records of `logging` of one run. Those of another one, which runs at the same time, are not of its task."""

    def __init__(self, level: int, port: Port) -> None:
        super().__init__(level, lambda: port.job)
        self._port = port

    def emit(self, record: logging.LogRecord) -> None:
        if _current.get(None) in (None, self._port.job):
            super().emit(record)
