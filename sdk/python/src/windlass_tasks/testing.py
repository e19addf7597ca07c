"""Tests of handlers without a server: one run, a whole life in virtual time, and a crash at every write.

```
ran = testing.run(sync, Sync("example.org"))                 # one run
life = testing.live(sync, Sync("example.org"))               # until it has ended; sleeps take no time
testing.crash_everywhere(sync, Sync("example.org"))          # the same result with a crash before and after each write
```"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ._app import instead, tests
from ._awaits import NAMES, Awaits, inside
from ._job import Codec, Done, Job, Json, Stop, _current
from ._task import Task, make_job, outcome
from ._values import plain

P = TypeVar("P")
D = TypeVar("D")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_ENDS = {"complete": "completed", "kill": "killed"}


class _Crash(BaseException):
    """The process is lost: it passes every handler."""


@dataclass
class Life:
    """What a task has done. `state` is `completed`, `failed`, `killed`, or that in which it waits for something."""

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
    progress: list[float] = field(default_factory=list)
    writes: int = 0
    """How many writes there were: with a crash before and after each, there are twice as many places for one."""


class _Signals:
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


class _Port:
    """The store of one life, as its job sees it."""

    def __init__(
        self, life: Life, task: Task[Any, Any], signals: _Signals, crash_at: int | None, stop_at: int, stop: Stop | None
    ) -> None:
        self.life, self.codec, self.signals = life, task.codec, signals
        self.crash_at, self.stop_at, self.stop = crash_at, stop_at, stop
        self.job: Job[Any, Any] | None = None
        self.place, self.calls, self.crashed = 0, 0, False
        self.order = max((one["order"] for one in signals.queue), default=0)
        self.awaits = Awaits() if task.place == "loop" else None
        self.loop: asyncio.AbstractEventLoop | None = None

    async def runs(self, handler: Awaitable[Any]) -> Any:
        """Runs an `async def` handler in the event loop of this run."""
        self.loop = asyncio.get_running_loop()
        return await handler

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
        if not self.crashed:
            self.place += 1
            self.crashed = self.place == self.crash_at
        if self.crashed:  # Also in what the handler does while the crash passes it.
            raise _Crash

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
        clock = self.life.clock
        end = clock + (seconds or 0.0)
        self.life.clock = self.signals.next_at(clock, float("inf") if seconds is None else end)
        if self.life.clock == float("inf"):  # Nothing more comes.
            self.life.clock = end
        for signal in self.signals.come(self.life.clock):
            assert self.job is not None
            self.job._receive(signal)
        return self.done("wait")

    def took(self, order: int) -> None:
        self.order = max(self.order, order)


def run(
    task: Task[P, D],
    props: P,
    *,
    data: Any = None,
    data_version: int | None = None,
    attempt: int = 1,
    signals: Iterable[tuple[str, Any]] = (),
    waited: Iterable[tuple[str, str]] = (),
    stop: str | None = None,
    stop_at: int = 1,
    client: Any = None,
) -> Life:
    """Runs a handler once. `messages[0]` is what it has returned.

    `data` is that of the run before, of `data_version`; `signals` are names with payloads; `waited` are ids with outcomes.
    `stop` is the reason of a stop, or a command such as `pause`, that the `stop_at`-th checkpoint, reply or wait raises, and
    each later one.
    `client` is what `App.client` returns in the handler; without it the handler has none, so that no test reaches a server."""
    _check(task)
    life = Life(data=None if data is None else task.codec.encode(plain(data, "data")), attempt=attempt)
    given = _Signals([(0.0, *one) for one in signals], task.codec)
    given.come(0.0)
    with _client(client):
        _once(task, props, life, None, given, list(waited), _stop(stop), stop_at, data_version)
    message = life.messages[-1]
    failed = "failed" if message.get("retry") is False else "sleeping"
    states = {**_ENDS, "sleep": "sleeping", "pause": "paused", "error": failed}
    life.state, life.result = states.get(message["message"], "runnable"), message.get("result")
    if message["message"] == "error":
        life.errors.append(message["error"])
    return life


def live(
    task: Task[P, D],
    props: P,
    *,
    signals: Iterable[tuple[float, str, Any]] = (),
    attempts: int = 8,
    outcomes: Callable[[str], str] = lambda id: "completed",
    most_runs: int = 10_000,
    client: Any = None,
) -> Life:
    """Runs a task until it ends, or waits for what does not come. A sleep moves the clock of the life only.

    `signals` are names with payloads at a time of the life, in seconds. `attempts` is how many runs in a row may fail;
    between them the clock moves by a minute. `outcomes` says how the tasks have ended that the task waits for."""
    return _live(task, props, signals, attempts, outcomes, most_runs, None, client)[0]


def crash_everywhere(
    task: Task[P, D],
    props: P,
    *,
    signals: Iterable[tuple[float, str, Any]] = (),
    attempts: int = 8,
    outcomes: Callable[[str], str] = lambda id: "completed",
    check: Callable[[Life], None] | None = None,
    before: Callable[[], None] | None = None,
    client: Any = None,
) -> int:
    """Lives the life of a task again and again, each time with a crash before or after another of its writes.

    Each life has to end in the same state, with the same result and the same submitted tasks as the one without a crash;
    `check` looks at more, such as at what the handler has changed outside, and `before` resets that. Returns how many places for a
    crash there were. Raises `AssertionError`, which names the write."""
    given = list(signals)

    def once(crash_at: int | None) -> tuple[Life, int]:
        if before is not None:
            before()
        life, places = _live(task, props, given, attempts, outcomes, 10_000, crash_at, client)
        if check is not None:
            check(life)
        return life, places

    whole, places = once(None)
    wanted = (whole.state, whole.result, _ids(whole))
    for place in range(1, places + 1):
        where = f"a crash {'before' if place % 2 else 'after'} write {(place + 1) // 2} of {places // 2}"
        try:
            life, _ = once(place)
        except AssertionError as error:
            raise AssertionError(f"{where}: {error}") from error
        got = (life.state, life.result, _ids(life))
        if got != wanted:
            raise AssertionError(f"{where}: the task ended as {got}, and without a crash as {wanted}; errors: {life.errors}")
    return places


def _ids(life: Life) -> list[tuple[str, str]]:
    # Ids that are made of the number of the run differ after a crash.
    return [(one["kind"], json.dumps(one.get("props"), sort_keys=True)) for one in life.submitted]


def _stop(name: str | None) -> Stop | None:
    if name is None or name in ("shutdown", "drain", "balance", "stop-task", "deadline", "lost"):
        return None if name is None else Stop(name)
    return Stop("command", {"message": name})


def _live(
    task: Task[Any, Any],
    props: Any,
    signals: Iterable[tuple[float, str, Any]],
    attempts: int,
    outcomes: Callable[[str], str],
    most_runs: int,
    crash_at: int | None,
    client: Any,
) -> tuple[Life, int]:
    _check(task)
    with _client(client):
        return _lived(task, props, _Signals(signals, task.codec), attempts, outcomes, most_runs, crash_at)


@contextlib.contextmanager
def _client(client: Any) -> Iterator[None]:
    """Makes `client` that of the handler, and of the threads that it starts."""

    def made() -> Any:
        if client is None:
            raise RuntimeError("a handler under test has no client: pass client=... to windlass_tasks.testing")
        return client

    token = instead.set(made)
    tests.append(made)
    try:
        yield
    finally:
        tests.remove(made)
        instead.reset(token)


def _check(task: Any) -> None:
    if not isinstance(task, Task):
        raise TypeError(f"{task!r} is not a handler: pass the function that @app.task has decorated")
    if task.place != "loop":
        return
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(
        "an async def handler under test has an event loop of its own, and there is one here: "
        "write `await asyncio.to_thread(testing.run, ...)`"
    )


def _lived(
    task: Task[Any, Any],
    props: Any,
    signals: _Signals,
    attempts: int,
    outcomes: Callable[[str], str],
    most_runs: int,
    crash_at: int | None,
) -> tuple[Life, int]:
    life, port_places, failed = Life(), 0, 0
    waits = list[str]()
    awaited: Json | None = None
    while life.runs < most_runs:
        signals.come(life.clock)
        rest = None if crash_at is None else crash_at - port_places
        waited = [(id, outcomes(id)) for id in waits]
        rest = rest if rest and rest > 0 else None
        crashed, places, order, keep = _once(task, props, life, rest, signals, waited, None, 1, None, awaited)
        port_places += places
        if crashed:
            life.attempt += 1
            continue
        waits, awaited = [], None
        message = life.messages[-1]
        name = message["message"]
        is_new = any(one["order"] > order for one in signals.queue)
        if not keep:
            signals.handled(order)
        failed = failed + 1 if name == "error" else 0
        life.attempt = failed + 1
        if name in _ENDS:
            life.state, life.result = _ENDS[name], message.get("result")
        elif name == "error":
            life.errors.append(message["error"])
            life.clock += 60.0
            life.state = "failed" if message.get("retry") is False or failed >= attempts else "sleeping"
        elif name == "sleep":
            life.state = "sleeping"
            waits = message.get("after") or message.get("after_ok") or []
            bad = [id for id in waits if "after_ok" in message and outcomes(id) != "completed"]
            if bad:
                life.state = "failed"
                life.errors.append(f"a task that it waits for has not completed: {bad[0]}")
            elif not waits:
                wakes = life.clock + _seconds(message["until"], life.clock)
                life.clock = life.clock if is_new else signals.next_at(life.clock, wakes)
                awaited = _awaited(message, life.clock >= wakes)
        elif name == "pause":
            life.state = "paused"
            awaited = _awaited(message, False)
            if not signals.later and not signals.queue:
                return life, port_places
            if signals.later and not is_new:
                life.clock = signals.next_at(life.clock, float("inf"))
        else:
            life.state = "runnable"
        if life.state in ("completed", "failed", "killed"):
            return life, port_places
    raise AssertionError(f"the task has not ended after {most_runs} runs; the last message: {life.messages[-1]}")


def _awaited(message: Json, expired: bool) -> Json | None:
    signal = message.get("awaits_signal")
    return {"name": signal["name"], "expired": expired} if signal else None


_START = dt.datetime(2030, 1, 1, tzinfo=dt.timezone.utc)


def _seconds(until: str, clock: float) -> float:
    if until.startswith("in "):
        return sum(float(number) * _UNITS[unit] for number, unit in re.findall(r"([\d.]+)(ms|s|m|h|d)", until))
    moment = dt.datetime.fromisoformat(until.replace("Z", "+00:00"))
    return max(0.0, (moment - _START).total_seconds() - clock)


def _once(
    task: Task[Any, Any],
    props: Any,
    life: Life,
    crash_at: int | None,
    signals: _Signals,
    waited: list[tuple[str, str]],
    stop: Stop | None,
    stop_at: int,
    data_version: int | None,
    awaited: Json | None = None,
) -> tuple[bool, int, int, bool]:
    """Runs once. Returns whether it has crashed, how many places for a crash there were, up to which order it has had signals,
    and whether these are kept."""
    codec, life.runs = task.codec, life.runs + 1
    port = _Port(life, task, signals, crash_at, stop_at, stop)
    claim = {
        "id": "test", "fence": life.runs, "run": life.runs, "kind": task.kind, "attempt": life.attempt,
        "props": json.loads(json.dumps(codec.encode(plain(props, "props")))), "data": life.data, "n": 1,
        "data_version": data_version or task.data_version, "signals": list(signals.queue),
        "waited": [{"task": id, "outcome": one} for id, one in waited],
        "awaited_signal": awaited,
        "last_error": {"error": life.errors[-1]} if life.errors else None,
    }  # fmt: skip
    returned, error = None, None
    try:
        port.job = job = make_job(task, claim, port)
        token = _current.set(job)
        try:
            returned = task.handler(job)
            if asyncio.iscoroutine(returned):
                returned = asyncio.run(port.runs(returned))
            if port.awaits and (forgotten := port.awaits.forgotten()):
                raise TypeError(forgotten)
        finally:
            _current.reset(token)
    except BaseException as raised:
        error = raised
    if port.awaits:
        port.awaits.forgotten()
    if port.crashed:  # Also when it came in a group of exceptions.
        return True, port.place, port.order, True
    stopping = port.job.stopping if port.job else None
    message = json.loads(json.dumps(outcome(task, port.job, returned, error, stopping), allow_nan=False))
    try:
        port.crosses()
    except _Crash:
        return True, port.place, port.order, True
    for reply in message.get("replies", ()):
        port.answers(reply)
    life.messages.append(message)
    life.writes += 1
    life.data = None if message.get("no_data") else message.get("data", life.data)
    life.effects += message.get("effects", [])
    life.submitted += [one for one in message.get("effects", []) if one["op"] == "submit"]
    if "result" in message:
        message["result"] = codec.decode(message["result"])
    port.place += 1  # After the write nothing is left to lose.
    return False, port.place, port.order, bool(message.get("keep_signals")) or message["message"] in ("release", "error")
