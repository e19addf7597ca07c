"""Lives of a task: one run after the other in virtual time, with or without an event loop of the test."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import json
import logging
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from .._app import instead, tests
from .._forms import Json, moment
from .._job import Job, Stop, _current
from .._task import Task, call_async, make_job, outcome
from .._values import plain
from ._life import START, Ended, Life, Signals
from ._port import Crash, Log, Port

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
ENDS = {"complete": "completed", "kill": "killed"}
Outcomes = Callable[[str], "str | Ended"]


class Way(Protocol):
    """How a handler is called: returns what it has returned or raised."""

    def __call__(self, task: Task[Any, Any], port: Port, job: Job[Any, Any]) -> Awaitable[tuple[Any, BaseException | None]]: ...


async def alone(task: Task[Any, Any], port: Port, job: Job[Any, Any]) -> tuple[Any, BaseException | None]:
    """Calls the handler here; an `async def` in an event loop of its own."""
    return asyncio.run(port.runs(call_async(task, job))) if task.place == "loop" else called(task, job)


async def in_loop(task: Task[Any, Any], port: Port, job: Job[Any, Any]) -> tuple[Any, BaseException | None]:
    """Awaits an `async def` handler in the event loop of the test, and calls a `def` in a thread, as it may block."""
    if task.place != "loop":
        return await asyncio.to_thread(called, task, job)
    handler = asyncio.create_task(port.runs(call_async(task, job)))  # An own one: a cancelled test is no stop of the handler.
    try:
        await asyncio.wait([handler])
    except asyncio.CancelledError:
        handler.cancel()
        raise
    if port.crashed and (left := asyncio.all_tasks() - port.others - {handler}):  # They end with their process.
        for one in left:
            one.cancel()
        await asyncio.wait(left, timeout=1.0)
    return handler.result()


def called(task: Task[Any, Any], job: Job[Any, Any]) -> tuple[Any, BaseException | None]:
    try:
        return task.handler(job), None
    except BaseException as error:
        return None, error


def at_once(life: Coroutine[Any, Any, Any]) -> Any:
    """Runs what awaits nothing but `alone`."""
    try:
        life.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("the life of a task without an event loop has waited for one")


@dataclass
class Given:
    """What a test says of the world around a task."""

    task: Task[Any, Any]
    props: Any
    way: Way
    signals: Iterable[tuple[float, str, Any]] = ()
    attempts: int = 8
    outcomes: Outcomes = lambda id: "completed"
    most_runs: int = 10_000
    client: Any = None


@dataclass
class Once:
    """One run: what comes before it, and what it has left."""

    life: Life
    signals: Signals
    waited: list[tuple[str, Ended]]
    awaited: Json | None = None
    expired: bool = False
    crash_at: int | None = None
    stop: Stop | None = None
    stop_at: int = 1
    data_version: int | None = None

    crashed: bool = False
    stuck: bool = False
    """Whether the handler waits for a signal that does not come."""
    places: int = 0
    """How many places for a crash there were."""
    order: int = 0
    """Up to which order it has had signals."""
    keep: bool = False
    """Whether these are kept."""

    async def run(self, given: Given) -> Once:
        with _client(given.client):
            await self._run(given)
        return self

    async def _run(self, given: Given) -> None:
        task, life, codec = given.task, self.life, given.task.codec
        life.runs += 1
        port = Port(life, task, self.signals, self.waited, self.crash_at, self.stop_at, self.stop)
        returned, error = await self._called(given, port)
        if port.awaits and (forgotten := port.awaits.forgotten()) and error is None:
            error = TypeError(forgotten)
        self.places, self.order, self.crashed, self.keep = port.place, port.order, port.crashed, True
        self.stuck = port.stuck and error is not None
        if self.crashed or self.stuck:  # Also when it came in a group of exceptions.
            return
        stopping = port.job.stopping if port.job else None
        message = json.loads(json.dumps(outcome(task, port.job, returned, error, stopping), allow_nan=False))
        with contextlib.suppress(Crash):
            port.crosses()
        self.places, self.crashed = port.place, port.crashed
        if self.crashed:
            return
        for reply in message.get("replies", ()):
            port.answers(reply)
        life.messages.append(message)
        life.writes += 1
        life.data = None if message.get("no_data") else message.get("data", life.data)
        life.effects += message.get("effects", [])
        life.submitted += [one for one in message.get("effects", []) if one["op"] == "submit"]
        if "result" in message:
            message["result"] = codec.decode(message["result"])
        self.places += 1  # After the write nothing is left to lose.
        self.keep = bool(message.get("keep_signals")) or message["message"] in ("release", "error")

    async def _called(self, given: Given, port: Port) -> tuple[Any, BaseException | None]:
        task, life = given.task, self.life
        claim = {
            "id": "test", "fence": life.runs, "run": life.runs, "kind": task.kind, "attempt": life.attempt, "n": 1,
            "props": json.loads(json.dumps(task.codec.encode(plain(given.props, "props")))), "data": life.data,
            "data_version": self.data_version or task.data_version, "signals": list(self.signals.queue),
            "waited": [{"task": id, "outcome": one.outcome} for id, one in self.waited],
            "awaited_signal": self.awaited, "wait_expired": self.expired,
            "now": life.now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"), "received": life.clock,
            "last_error": {"error": life.errors[-1]} if life.errors else None,
        }  # fmt: skip
        try:
            port.job = job = make_job(task, claim, port)
        except Exception as error:
            return None, error
        token = _current.set(job)
        try:
            with _logging(task, port):
                return await given.way(task, port, job)
        finally:
            _current.reset(token)


@contextlib.contextmanager
def _logging(task: Task[Any, Any], port: Port) -> Iterator[None]:
    """Makes the records of `logging` lines of the log: from INFO on, as in a worker that has set nothing."""
    level = task.app.log_level
    if level is None:
        yield
        return
    root, log = logging.getLogger(), Log(level, port)
    before = root.level
    root.addHandler(log)
    if before > logging.INFO:
        root.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.removeHandler(log)
        root.setLevel(before)


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


async def lived(given: Given, crash_at: int | None) -> tuple[Life, int]:
    """Lives until the task has ended or waits for what does not come. Returns how many places for a crash there were, too."""
    life, signals, places, failed = Life(), Signals(given.signals, given.task.codec), 0, 0
    waits = _Waits()
    while life.runs < given.most_runs:
        signals.come(life.clock)
        rest = None if crash_at is None or crash_at <= places else crash_at - places
        waited = [(id, Ended.read(given.outcomes(id))) for id in waits.tasks]
        once = Once(life, signals, waited, waits.signal, waits.expired, rest)
        await once.run(given)
        places += once.places
        if once.crashed:
            life.attempt += 1
            continue
        if once.stuck:
            life.state = "running"
            return life, places
        message = life.messages[-1]
        name = message["message"]
        is_new = any(one["order"] > once.order for one in signals.queue)
        if not once.keep:
            signals.handled(once.order)
        failed = failed + 1 if name == "error" else 0
        life.attempt = failed + 1
        if name not in ("error", "release"):  # Every attempt of a run has what the task has waited for.
            waits = _Waits()
        comes = True
        if name in ENDS:
            life.state, life.result = ENDS[name], message.get("result")
        elif name == "error":
            life.errors.append(message["error"])
            life.state = "failed" if message.get("retry") is False or failed >= given.attempts else "sleeping"
            life.clock += 60.0 if life.state == "sleeping" else 0.0
        elif name == "sleep":
            life.state = "sleeping"
            comes = waits.sleep(life, message, signals, is_new, given.outcomes)
        elif name == "pause":
            life.state = "paused"
            comes = waits.pause(life, message, signals, is_new)
        else:
            life.state = "runnable"
        if not comes or life.state in ("completed", "failed", "killed"):
            return life, places
    raise AssertionError(f"the task has not ended after {given.most_runs} runs; the last message: {life.messages[-1]}")


class _Waits:
    """What a task waits for between two runs."""

    def __init__(self) -> None:
        self.tasks = list[str]()
        self.signal: Json | None = None
        self.expired = False

    def sleep(self, life: Life, message: Json, signals: Signals, is_new: bool, outcomes: Outcomes) -> bool:
        """Moves the clock to the end of a sleep or of a wait for tasks. Returns whether it has one."""
        self.tasks = message.get("after") or message.get("after_ok") or []
        end = message.get("after_deadline") if self.tasks else message["until"]
        wakes = float("inf") if end is None else life.clock + _seconds(end, life.clock)
        if self.tasks:
            ends = {id: Ended.read(outcomes(id)).outcome for id in self.tasks}
            bad = [id for id, one in ends.items() if "after_ok" in message and one not in ("completed", "live")]
            if bad:
                life.state = "failed"
                life.errors.append(f"a task that it waits for has not completed: {bad[0]}")
            if bad or "live" not in ends.values():
                return True
        clock = life.clock if is_new else signals.next_at(life.clock, wakes)
        if clock == float("inf"):
            return False
        life.clock = clock
        self.expired = clock >= wakes and bool(self.tasks or message.get("awaits_signal"))
        self.signal = _awaited(message, self.expired)
        return True

    def pause(self, life: Life, message: Json, signals: Signals, is_new: bool) -> bool:
        """Moves the clock to the next signal. Returns whether there is one."""
        self.signal = _awaited(message, False)
        if not signals.later and not signals.queue:
            return False
        if signals.later and not is_new:
            life.clock = signals.next_at(life.clock, float("inf"))
        return True


def _awaited(message: Json, expired: bool) -> Json | None:
    signal = message.get("awaits_signal")
    return {"name": signal["name"], "expired": expired} if signal else None


def _seconds(until: str, clock: float) -> float:
    if until.startswith("in "):
        return sum(float(number) * _UNITS[unit] for number, unit in re.findall(r"([\d.]+)(ms|s|m|h|d)", until))
    at = moment(until) if until.endswith("Z") else dt.datetime.fromisoformat(until)
    return max(0.0, (at - START).total_seconds() - clock)
