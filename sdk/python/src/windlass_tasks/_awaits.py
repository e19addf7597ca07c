"""The calls of a job that an `async def` handler has to await."""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import Awaitable, Coroutine
from typing import Any

_MOST = 10_000
NAMES = {"answer": "reply"}
"""The names of calls whose reports have other ones."""


def inside(loop: asyncio.AbstractEventLoop | None, what: str) -> None:
    """Refuses a call of a job outside of the event loop of its handler, before anything of it happens."""
    try:
        if asyncio.get_running_loop() is loop:
            return
    except RuntimeError:  # A thread without a loop.
        pass
    name = NAMES.get(what, what)
    raise RuntimeError(
        f"job.{name} was called outside of the event loop of its handler: write `await job.{name}(...)` in the handler; "
        f"in a thread use asyncio.run_coroutine_threadsafe with a function that awaits it"
    )


class Awaits:
    """The calls of a run that were made and not awaited so far, with the lines that have made them.

    A call that a task of asyncio has taken is awaited, also if the task was cancelled before its first step."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._open: dict[int, tuple[Coroutine[Any, Any, None], Coroutine[Any, Any, None], str]] = {}
        self._most = _MOST

    def made(self, name: str, call: Coroutine[Any, Any, None]) -> Awaitable[None]:
        """Returns what the handler has to await."""
        if len(self._open) >= self._most:
            if forgotten := self.forgotten():
                call.close()
                raise TypeError(forgotten)
            self._most = max(_MOST, 2 * len(self._open))
        number = next(self._numbers)
        awaited = self._awaited(number, call)
        self._open[number] = (awaited, call, f"{name}{_line()}")
        return awaited

    async def _awaited(self, number: int, call: Coroutine[Any, Any, None]) -> None:
        self._open.pop(number, None)
        await call

    def forgotten(self) -> str | None:
        """Ends the calls that were not awaited. Returns an error that names the first one, if there is one."""
        taken = _taken() if self._open else set()
        calls, self._open, first = self._open, {}, None
        for number, (awaited, call, where) in calls.items():
            if id(awaited) in taken:
                self._open[number] = (awaited, call, where)
                continue
            if getattr(awaited, "cr_frame", None) is not None:  # One that was ended before its first step has no frame.
                first = first or where
            awaited.close()
            call.close()
        if first is None:
            return None
        name = first.split(" ", 1)[0]
        return f"the handler has not awaited its call of {first}: write `await job.{name}(...)`"


def _taken() -> set[int]:
    """Returns the coroutines that the tasks of this event loop run."""
    try:
        return {id(task.get_coro()) for task in asyncio.all_tasks()}
    except RuntimeError:  # The loop has ended.
        return set()


def _line() -> str:
    """Returns where the code outside of this package is that has made the call."""
    frame = sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__package__")).partition(".")[0] == __package__:
        frame = frame.f_back
    return f" ({frame.f_code.co_filename}, line {frame.f_lineno})"
