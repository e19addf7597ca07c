"""What a task has done, and what comes to it: the parts of a life."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from .._codec import Codec
from .._forms import Json
from .._values import plain

START = dt.datetime(2030, 1, 1, tzinfo=dt.timezone.utc)
"""When each life begins."""


@dataclass
class Life:
    """What a task has done. `state` is `completed`, `failed`, `killed`, or that in which it waits for something.

    `running` is the state of a handler that waits in `Job.wait` for a signal that does not come."""

    state: str = "runnable"
    result: Any = None
    data: Any = None
    """The data that is stored, as JSON."""
    errors: list[str] = field(default_factory=list)
    runs: int = 0
    attempt: int = 1
    clock: float = 0.0
    """How long the task has lived, in seconds of virtual time."""
    messages: list[Json] = field(default_factory=list)
    """What the runs have returned, in the JSON form."""
    checkpoints: list[Any] = field(default_factory=list)
    replies: dict[str, Any] = field(default_factory=dict)
    """The replies to signals, by the name of the signal."""
    submitted: list[Json] = field(default_factory=list)
    """The tasks that it has submitted: those in writes that were stored."""
    effects: list[Json] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    """The lines of its log: those of `Job.log`, and those of `logging`."""
    progress: list[float] = field(default_factory=list)
    writes: int = 0
    """How many writes there were: with a crash before and after each, there are twice as many places for one."""

    @property
    def now(self) -> dt.datetime:
        """The virtual time. A life begins at 2030-01-01 in UTC."""
        return START + dt.timedelta(seconds=self.clock)


@dataclass(frozen=True)
class Ended:
    """How a task has ended that the tested one waits for: `completed` (the default), `failed`, `killed`, `unknown` or `live`."""

    outcome: str = "completed"
    result: Any = None
    """What `value` of its result is."""
    error: str | None = None

    @classmethod
    def read(cls, given: str | Ended) -> Ended:
        """Returns an outcome that may be given by its name."""
        return cls(given) if isinstance(given, str) else given

    def page(self, task: str, codec: Codec) -> Json:
        """Returns the task as a server sends it with the results."""
        found: Json = {"task": task, "outcome": self.outcome}
        if self.outcome != "unknown":
            found["state"] = "runnable" if self.outcome == "live" else self.outcome
        if self.result is not None:
            found["result"] = codec.encode(plain(self.result, f"the result of {task}"))
        return {**found, "error": self.error}


class Signals:
    """The signals of a life: those that wait for its runs, and those that come later. Each has its order, as in a store."""

    def __init__(self, given: Iterable[tuple[float, str, Any]], codec: Codec) -> None:
        self.names: dict[int, str] = {}
        self.later: list[tuple[float, Json]] = []
        self.queue: list[Json] = []
        for order, (at, name, payload) in enumerate(sorted(given, key=lambda one: one[0]), 1):
            self.names[order] = name
            command = {"message": "signal", "name": name, "payload": codec.encode(plain(payload))}
            self.later.append((at, {"order": order, "command": command}))

    def come(self, clock: float) -> list[Json]:
        """Moves those that are due to the queue, and returns them."""
        due = [one for at, one in self.later if at <= clock]
        del self.later[: len(due)]
        self.queue += due
        return due

    def next_at(self, clock: float, end: float) -> float:
        """Returns when the next signal comes, but no later than `end`."""
        return min([end, *(max(at, clock) for at, _ in self.later[:1])])

    def answered(self, order: int) -> None:
        self.queue = [one for one in self.queue if one["order"] != order]

    def handled(self, order: int) -> None:
        """Forgets the signals that a run has had when it has returned."""
        self.queue = [one for one in self.queue if one["order"] > order]
