"""The calls of a job that an `async def` handler has to await."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Awaitable, Coroutine
from typing import Any

_MOST = 10_000
NAMES = {"answer": "reply"}
"""The names of calls whose reports have other ones."""


class Awaits:
    """The calls of a run that were made and not awaited so far, with the lines that have made them."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._open: dict[int, tuple[tuple[Coroutine[Any, Any, None], ...], str]] = {}

    def made(self, name: str, call: Coroutine[Any, Any, None]) -> Awaitable[None]:
        """Returns what the handler has to await."""
        number = next(self._numbers)
        awaited = self._awaited(number, call)
        self._open[number] = ((awaited, call), f"{name}{_line()}")
        if len(self._open) > _MOST:
            raise TypeError(self.forgotten())
        return awaited

    async def _awaited(self, number: int, call: Coroutine[Any, Any, None]) -> None:
        self._open.pop(number, None)
        await call

    def forgotten(self) -> str | None:
        """Ends the calls that were not awaited. Returns an error that names the first one, if there is one."""
        calls, self._open = list(self._open.values()), {}
        for coroutines, _ in calls:
            for one in coroutines:
                one.close()
        if not calls:
            return None
        name = calls[0][1].split(" ", 1)[0]
        return f"the handler has not awaited its call of {calls[0][1]}: write `await job.{name}(...)`"


def _line() -> str:
    """Returns where the code outside of this package is that has made the call."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__package__") == __package__:
        frame = frame.f_back
    return f" ({frame.f_code.co_filename}, line {frame.f_lineno})"
