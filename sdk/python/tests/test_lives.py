"""`windlass_tasks.testing`: time, waits, results of other tasks, the log, and tests with an event loop."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import logging
from typing import Any

import pytest

import windlass_tasks as windlass
from windlass_tasks import testing
from windlass_tasks.testing import Ended

app = windlass.App()
logger = logging.getLogger("handlers.pages")
START = dt.datetime(2030, 1, 1, tzinfo=dt.timezone.utc)
HOUR = dt.timedelta(hours=1)


# Waits for a signal


@app.task("waits", signals=True)
def waits(job: windlass.Job[float | None, Any]) -> Any:
    job.log("begins")
    try:
        job.wait(job.props)
    finally:
        job.checkpoint("too late")
    return [signal.payload for signal in job.signals]


@app.task("waits-too", signals=True)
async def waits_too(job: windlass.Job[float | None, Any]) -> Any:
    job.log("begins")
    try:
        await job.wait(job.props)
    finally:
        await job.checkpoint("too late")
    return [signal.payload for signal in job.signals]


@pytest.mark.parametrize("task", [waits, waits_too])
def test_a_wait_for_a_signal_that_does_not_come_does_not_end(task: Any) -> None:
    for life in (testing.run(task, None), testing.live(task, None)):
        assert (life.state, life.messages, life.checkpoints, life.log, life.runs) == ("running", [], [], ["begins"], 1)
    life = testing.live(task, None, signals=[(3600.0, "a", 7)])
    assert (life.state, life.result, life.clock) == ("completed", [7], 3600.0)
    assert testing.live(task, 60).result == []
    stopped = testing.run(task, None, stop="pause", stop_at=5)
    assert stopped.messages == [{"message": "pause"}]
    assert testing.crash_everywhere(task, None) == 0


@app.task("watches", signals=True)
async def watches(job: windlass.Job[str, Any]) -> Any:
    """One task waits for signals while another one works."""
    got: list[Any] = []

    async def watch() -> None:
        while True:
            await job.wait()
            got.extend(signal.payload for signal in job.signals)

    watching = asyncio.create_task(watch())
    await asyncio.sleep(0)
    if job.props == "waits":
        await job.wait(60)
        await asyncio.sleep(0.01)
    await asyncio.to_thread(lambda: None)
    await job.checkpoint(1)
    watching.cancel()
    await asyncio.wait([watching])
    return got


def test_a_task_of_a_handler_may_wait_while_another_one_works() -> None:
    assert testing.live(watches, "works").result == []
    assert testing.live(watches, "waits", signals=[(30.0, "a", 7)]).result == [7]


# Time


@app.task("clock")
def clock(job: windlass.Job[Any, list[str]]) -> Any:
    seen = [*(job.data or []), job.now().isoformat()]
    job.wait(1.5)
    seen.append(job.now().isoformat())
    return job.complete(seen) if job.data else job.sleep(dt.timedelta(days=365), seen)


def test_the_time_of_a_handler_is_that_of_its_life() -> None:
    days = ["2030-01-01T00:00:00+00:00", "2030-01-01T00:00:01.500000+00:00"]
    days += ["2031-01-01T00:00:01.500000+00:00", "2031-01-01T00:00:03+00:00"]
    life = testing.live(clock, None)
    assert (life.result, life.now) == (days, START + dt.timedelta(days=365, seconds=3))
    assert testing.run(clock, None, clock=60).messages[0]["data"][0] == "2030-01-01T00:01:00+00:00"


@app.task("alarm")
def alarm(job: windlass.Job[dt.datetime, Any]) -> Any:
    return job.complete(job.now()) if job.now() >= job.props else job.sleep(job.props)


def test_a_handler_that_sleeps_until_a_time_sees_that_time() -> None:
    at = START + dt.timedelta(hours=30)
    life = testing.live(alarm, at)
    assert (life.result, life.runs) == (at.isoformat(), 2)


@app.task("order", signals=True)
def order(job: windlass.Job[Any, Any]) -> Any:
    for signal in job.signals:
        if signal.name == "approve":
            return job.complete(signal.payload)
    if job.wait_expired:
        return job.fail("nobody has approved the order")
    return job.wait_for_signal("approve", within=dt.timedelta(days=3))


def test_an_approval_ends_by_itself() -> None:
    assert testing.live(order, None, signals=[(3600.0, "approve", "ann")]).result == "ann"
    life = testing.live(order, None)
    assert (life.state, life.errors, life.clock) == ("failed", ["nobody has approved the order"], 3 * 86400.0)
    message = testing.run(order, None).messages[0]
    assert (message["message"], message["until"]) == ("sleep", "in 259200000ms")
    assert testing.run(order, None, wait_expired=True).state == "failed"
    other = testing.live(order, None, signals=[(60.0, "other", 1)])
    assert (other.state, other.runs, other.clock) == ("failed", 3, 60.0 + 3 * 86400.0)


def test_a_wait_ends_after_a_length_of_time_or_at_a_time() -> None:
    @app.task("both", signals=True)
    def both(job: windlass.Job[str, Any]) -> Any:
        if job.props == "signal":
            return job.wait_for_signal("a", within=HOUR, until=START)
        return job.wait_for("a", within=60, until=START)

    for props in ("signal", "tasks"):
        assert "within and until" in testing.run(both, props).errors[0]


@app.task("patient")
def patient(job: windlass.Job[bool, bool]) -> Any:
    if not job.data:
        job.submit("child", 1, id="child")
        return job.wait_for(within=HOUR if job.props else None, data=True)
    return [job.wait_expired, job.waited[0].outcome]


def test_a_wait_for_tasks_ends_with_them_or_by_its_time() -> None:
    assert testing.live(patient, True).result == [False, "completed"]
    life = testing.live(patient, True, outcomes=lambda id: "live")
    assert (life.result, life.clock) == ([True, "live"], 3600.0)
    assert testing.run(patient, True).messages[0]["after_deadline"] == "in 3600000ms"
    waiting = testing.live(patient, False, outcomes=lambda id: "live")
    assert (waiting.state, waiting.runs) == ("sleeping", 1)


# Results


@dataclasses.dataclass
class Size:
    bytes: int


def told(one: windlass.Result[Size]) -> Any:
    try:
        return one.value.bytes
    except (windlass.NoResult, windlass.ValueMismatch) as error:
        return str(error)


@app.task("adds")
def adds(job: windlass.Job[Any, Any]) -> Any:
    return [told(one) for one in job.waited.results(Size)]


@app.task("adds-too")
async def adds_too(job: windlass.Job[Any, Any]) -> Any:
    return [told(one) async for one in job.waited.results(Size)]


@pytest.mark.parametrize("task", [adds, adds_too])
def test_results_of_other_tasks_have_their_type(task: Any) -> None:
    waited: list[tuple[str, str | Ended]] = [
        ("good", Ended(result=Size(7))),
        ("bad", Ended("failed", error="no such host")),
        ("dead", "killed"),
        ("late", "live"),
        ("gone", "unknown"),
        ("empty", "completed"),
        ("other", Ended(result={"bytes": "x"})),
    ]
    ran = testing.run(task, None, waited=waited)
    assert ran.result == [
        7,
        "the task bad has failed: no such host",
        "the task dead was killed",
        "the task late has not ended: it is runnable",
        "the task gone does not exist, or the token of the worker may not see it",
        "the result of empty: expected an object, got None",
        "the result of other.bytes: expected int, got 'x'",
    ]
    assert testing.run(task, None).result == []
    many = [(f"t{n}", Ended(result=Size(n))) for n in range(250)]
    assert testing.run(task, None, waited=many).result == list(range(250))


def test_results_are_read_page_by_page() -> None:
    @app.task("first")
    def first(job: windlass.Job[Any, Any]) -> Any:
        reads: list[int] = []
        read = job._port.read
        job.waited._reads.read = lambda start: reads.append(start) or read(start)  # type: ignore[method-assign, func-returns-value]
        results = iter(job.waited.results(int))
        before = list(reads)
        for _ in range(101):
            next(results)
        return [before, reads, len(job.waited), job.waited[249].outcome]

    many = [(f"t{n}", Ended(result=n)) for n in range(250)]
    assert testing.run(first, None, waited=many).result == [[], [0, 100], 250, "completed"]


def test_results_of_children_come_in_a_life() -> None:
    @app.task("fan")
    def fan(job: windlass.Job[int, bool]) -> Any:
        if not job.data:
            for n in range(job.props):
                job.submit("child", n, id=f"child-{n}")
            return job.wait_for(data=True)
        return job.complete(sum(one.value for one in job.waited.results(int)))

    assert testing.live(fan, 3, outcomes=lambda id: Ended(result=int(id[-1]))).result == 3
    failed = testing.live(fan, 3, outcomes=lambda id: Ended("failed", error="no"), attempts=2)
    assert (failed.state, failed.errors) == ("failed", ["NoResult: the task child-0 has failed: no"] * 2)


def test_an_async_handler_does_not_block_its_loop_with_results() -> None:
    @app.task("blocks-by-results")
    async def blocks(job: windlass.Job[Any, Any]) -> Any:
        return [one.value for one in job.waited.results(int)]

    assert "async for" in testing.run(blocks, None, waited=[("a", Ended(result=1))]).errors[0]
    with pytest.raises(TypeError, match=r"results\[\]: the type"):

        @app.task("wrong-type")
        def wrong(job: windlass.Job[Any, Any]) -> None:
            job.waited.results(list[object.__new__])  # type: ignore[valid-type]

        raise TypeError(testing.run(wrong, None).errors[0].removeprefix("TypeError: "))


# The log


# With an event loop


class Pool:
    """It belongs to the event loop in which it was made."""

    def __init__(self) -> None:
        self.loop, self.rows = asyncio.get_running_loop(), list[int]()

    async def add(self, row: int) -> None:
        assert asyncio.get_running_loop() is self.loop
        await asyncio.sleep(0)
        self.rows.append(row)


class Made:
    pool: Pool


@app.task("stores", signals=True)
async def stores(job: windlass.Job[int, int]) -> Any:
    for row in range(job.data or 0, job.props):
        await Made.pool.add(row)
        await job.checkpoint(row + 1)
        logger.info("row %d", row)
    return job.complete(job.props)


@app.task("stores-badly")
async def stores_badly(job: windlass.Job[int, int]) -> Any:
    """Has a defect: a task of the handler goes on without it."""
    asyncio.create_task(Made.pool.add(-1))  # noqa: RUF006
    await job.checkpoint(1)
    await asyncio.sleep(0.01)
    return len(Made.pool.rows)


def test_helpers_for_tests_with_an_event_loop() -> None:
    async def test() -> None:
        pool = Made.pool = Pool()
        ran = await testing.run_async(stores, 2)
        assert (ran.result, ran.checkpoints, pool.rows) == (2, [1, 2], [0, 1])
        assert ran.log == ["INFO handlers.pages: row 0", "INFO handlers.pages: row 1"]
        assert (await testing.run_async(stores, 3, data=2, stop="pause")).messages == [{"message": "pause"}]
        life = await testing.live_async(order, None)  # A def, in a thread.
        assert (life.state, life.clock) == ("failed", 3 * 86400.0)
        assert (await testing.live_async(waits_too, None)).state == "running"
        seen: list[int] = []

        async def before() -> None:
            pool.rows.clear()

        async def check(life: testing.Life) -> None:
            assert sorted(set(pool.rows)) == [0, 1, 2]
            seen.append(life.runs)

        assert await testing.crash_everywhere_async(stores, 3, before=before, check=check) == 8
        assert seen[0] == 1 and set(seen[1:-1]) == {2}
        assert await testing.crash_everywhere_async(order, None, check=lambda life: None) == 4
        with pytest.raises(AssertionError, match="a crash before write 1 of 2"):
            await testing.crash_everywhere_async(stores_badly, 1, before=pool.rows.clear)

    asyncio.run(test())


def test_two_lives_at_once_have_their_own_logs_and_clients() -> None:
    @app.task("asks-client")
    async def asks(job: windlass.Job[str, Any]) -> Any:
        for _ in range(3):
            logger.info(job.props)
            await job.wait(1)
        return app.async_client()

    async def test() -> None:
        clients = ("one", "two")
        lives = await asyncio.gather(*(testing.live_async(asks, one, client=one) for one in clients))
        for one, life in zip(clients, lives, strict=True):
            assert (life.result, life.log) == (one, [f"INFO handlers.pages: {one}"] * 3)

    asyncio.run(test())


def test_a_test_that_is_cancelled_ends_its_handler() -> None:
    ended = []

    @app.task("sleeps-for-ever")
    async def sleeps(job: windlass.Job[Any, Any]) -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append(True)

    async def test() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(testing.live_async(sleeps, None), 0.05)
        await asyncio.sleep(0)
        assert ended == [True]

    asyncio.run(test())
