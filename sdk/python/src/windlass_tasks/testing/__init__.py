"""Tests of handlers without a server: one run, a whole life in virtual time, and a crash at every write.

```
ran = testing.run(sync, Sync("example.org"))                 # one run
life = testing.live(sync, Sync("example.org"))               # until it has ended; sleeps take no time
testing.crash_everywhere(sync, Sync("example.org"))          # the same result with a crash before and after each write
```

Each has a twin for tests with an event loop: `await testing.run_async(...)`."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from .._job import Stop
from .._task import Task
from .._values import plain
from ._life import Ended, Life, Signals
from ._lives import ENDS, Given, Once, Outcomes, Way, alone, at_once, in_loop, lived

__all__ = ["Ended", "Life", "crash_everywhere", "crash_everywhere_async", "live", "live_async", "run", "run_async"]

P = TypeVar("P")
D = TypeVar("D")


def run(
    task: Task[P, D],
    props: P,
    *,
    data: Any = None,
    data_version: int | None = None,
    attempt: int = 1,
    signals: Iterable[tuple[str, Any]] = (),
    waited: Iterable[tuple[str, str | Ended]] = (),
    wait_expired: bool = False,
    stop: str | None = None,
    stop_at: int = 1,
    clock: float = 0.0,
    client: Any = None,
) -> Life:
    """Runs a handler once. `messages[0]` is what it has returned; it is missing if the handler waits for a signal for ever.

    `data` is that of the run before, of `data_version`; `signals` are names with payloads; `waited` are ids with outcomes,
    or with an `Ended`, which has a result, too; `wait_expired` says that the wait for them has ended by its time.
    `stop` is the reason of a stop, or a command such as `pause`, that the `stop_at`-th checkpoint, reply or wait raises, and
    each later one. `clock` moves `Job.now` on, in seconds.
    `client` is what `App.client` returns in the handler; without it the handler has none, so that no test reaches a server."""
    given = Given(_checked(task), props, alone, client=client)
    once = _once(given, data, attempt, signals, waited, wait_expired, clock)
    once.data_version, once.stop, once.stop_at = data_version, _stop(stop), stop_at
    return _ran(at_once(once.run(given)))


async def run_async(
    task: Task[P, D],
    props: P,
    *,
    data: Any = None,
    data_version: int | None = None,
    attempt: int = 1,
    signals: Iterable[tuple[str, Any]] = (),
    waited: Iterable[tuple[str, str | Ended]] = (),
    wait_expired: bool = False,
    stop: str | None = None,
    stop_at: int = 1,
    clock: float = 0.0,
    client: Any = None,
) -> Life:
    """As `run`, in the event loop of the test: what belongs to that loop, such as a pool of connections, works in the handler.

    A `def` handler is called in a thread meanwhile."""
    given = Given(_checked(task, in_loop), props, in_loop, client=client)
    once = _once(given, data, attempt, signals, waited, wait_expired, clock)
    once.data_version, once.stop, once.stop_at = data_version, _stop(stop), stop_at
    return _ran(await once.run(given))


def live(
    task: Task[P, D],
    props: P,
    *,
    signals: Iterable[tuple[float, str, Any]] = (),
    attempts: int = 8,
    outcomes: Outcomes = lambda id: "completed",
    most_runs: int = 10_000,
    client: Any = None,
) -> Life:
    """Runs a task until it ends, or waits for what does not come. A sleep moves the clock of the life only.

    `signals` are names with payloads at a time of the life, in seconds. `attempts` is how many runs in a row may fail;
    between them the clock moves by a minute. `outcomes` says how the tasks have ended that the task waits for: by an outcome,
    or by an `Ended`, which has a result, too. Those that are `live` do not end."""
    life: Life = at_once(lived(Given(_checked(task), props, alone, signals, attempts, outcomes, most_runs, client), None))[0]
    return life


async def live_async(
    task: Task[P, D],
    props: P,
    *,
    signals: Iterable[tuple[float, str, Any]] = (),
    attempts: int = 8,
    outcomes: Outcomes = lambda id: "completed",
    most_runs: int = 10_000,
    client: Any = None,
) -> Life:
    """As `live`, in the event loop of the test. A `def` handler is called in a thread meanwhile."""
    return (await lived(Given(_checked(task, in_loop), props, in_loop, signals, attempts, outcomes, most_runs, client), None))[0]


def crash_everywhere(
    task: Task[P, D],
    props: P,
    *,
    signals: Iterable[tuple[float, str, Any]] = (),
    attempts: int = 8,
    outcomes: Outcomes = lambda id: "completed",
    check: Callable[[Life], None] | None = None,
    before: Callable[[], None] | None = None,
    client: Any = None,
) -> int:
    """Repeats the life of a task, each time with a crash before or after another of its writes.

    Each life has to end in the same state, with the same result and the same submitted tasks as the one without a crash;
    `check` may compare more, such as what the handler has changed outside; `before` resets that before each life. Returns how
    many places for a crash there were. Raises `AssertionError`, which names the write."""
    given = Given(_checked(task), props, alone, list(signals), attempts, outcomes, client=client)
    places: int = at_once(_crashes(given, check, before))
    return places


async def crash_everywhere_async(
    task: Task[P, D],
    props: P,
    *,
    signals: Iterable[tuple[float, str, Any]] = (),
    attempts: int = 8,
    outcomes: Outcomes = lambda id: "completed",
    check: Callable[[Life], Awaitable[None] | None] | None = None,
    before: Callable[[], Awaitable[None] | None] | None = None,
    client: Any = None,
) -> int:
    """As `crash_everywhere`, in the event loop of the test. `check` and `before` may be `async def`.

    The asyncio tasks that the handler has started are cancelled by a crash."""
    given = Given(_checked(task, in_loop), props, in_loop, list(signals), attempts, outcomes, client=client)
    return await _crashes(given, check, before)


async def _crashes(given: Given, check: Callable[[Life], Any] | None, before: Callable[[], Any] | None) -> int:
    async def once(crash_at: int | None) -> tuple[Life, int]:
        if before is not None and inspect.isawaitable(made := before()):
            await made
        life, places = await lived(given, crash_at)
        if check is not None and inspect.isawaitable(made := check(life)):
            await made
        return life, places

    whole, places = await once(None)
    wanted = (whole.state, whole.result, _ids(whole))
    for place in range(1, places + 1):
        where = f"a crash {'before' if place % 2 else 'after'} write {(place + 1) // 2} of {places // 2}"
        try:
            life, _ = await once(place)
        except AssertionError as error:
            raise AssertionError(f"{where}: {error}") from error
        got = (life.state, life.result, _ids(life))
        if got != wanted:
            raise AssertionError(f"{where}: the task ended as {got}, and without a crash as {wanted}; errors: {life.errors}")
    return places


def _once(
    given: Given,
    data: Any,
    attempt: int,
    signals: Iterable[tuple[str, Any]],
    waited: Iterable[tuple[str, str | Ended]],
    expired: bool,
    clock: float,
) -> Once:
    codec = given.task.codec
    life = Life(data=None if data is None else codec.encode(plain(data, "data")), attempt=attempt, clock=clock)
    queue = Signals([(0.0, *one) for one in signals], codec)
    queue.come(0.0)
    return Once(life, queue, [(id, Ended.read(one)) for id, one in waited], expired=expired)


def _ran(once: Once) -> Life:
    life = once.life
    if once.stuck:
        life.state = "running"
        return life
    message = life.messages[-1]
    failed = "failed" if message.get("retry") is False else "sleeping"
    states = {**ENDS, "sleep": "sleeping", "pause": "paused", "error": failed}
    life.state, life.result = states.get(message["message"], "runnable"), message.get("result")
    if message["message"] == "error":
        life.errors.append(message["error"])
    return life


def _ids(life: Life) -> list[tuple[str, str]]:
    # Ids that are made of the number of the run differ after a crash.
    return [(one["kind"], json.dumps(one.get("props"), sort_keys=True)) for one in life.submitted]


def _stop(name: str | None) -> Stop | None:
    if name is None or name in ("shutdown", "drain", "balance", "stop-task", "deadline", "lost"):
        return None if name is None else Stop(name)
    return Stop("command", {"message": name})


def _checked(task: Any, way: Way = alone) -> Any:
    if not isinstance(task, Task):
        raise TypeError(f"{task!r} is not a handler: pass the function that @app.task has decorated")
    if way is in_loop or task.place != "loop":
        return task
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return task
    raise RuntimeError(
        "an async def handler under test has an event loop of its own, and there is one here: "
        "write `await testing.run_async(...)`, `live_async` or `crash_everywhere_async`"
    )
