"""`windlass_tasks.testing`: single runs, virtual time, and crashes."""

from __future__ import annotations

import asyncio
import datetime as dt
import inspect
import json
import threading
from dataclasses import dataclass
from typing import Any

import pytest

import windlass_tasks as windlass
from windlass_tasks import testing

app = windlass.App()


@dataclass
class Cursor:
    page: int = 0


@app.task("sync")
async def sync(job: windlass.Job[int, Cursor]) -> windlass.Next[int]:
    cursor = job.data or Cursor()
    while cursor.page < job.props:
        cursor.page += 1
        job.log(f"page {cursor.page}")
        await job.checkpoint(cursor, progress=cursor.page / job.props)
    return job.complete(cursor.page)


@app.task("poll")
def poll(job: windlass.Job[int, int]) -> windlass.Next[int]:
    polled = (job.data or 0) + 1
    job.submit("found", {"n": polled})
    if polled == job.props:
        return job.complete(polled)
    return job.sleep(dt.timedelta(days=1), polled)


@app.task("approval", signals=True)
def approval(job: windlass.Job[str, Any]) -> windlass.Next[str]:
    for signal in job.signals:
        job.reply_later(signal, f"thanks for {signal.payload}")
        return job.complete(signal.name)
    return job.pause()


@app.task("flaky", fail_on=(KeyError,))
async def flaky(job: windlass.Job[str, Any]) -> int:
    if job.props == "key":
        raise KeyError("x")
    if job.attempt < 3:
        raise ValueError("not yet")
    return job.attempt


outside: list[int] = []


@app.task("forgets")
def forgets(job: windlass.Job[int, int]) -> int:
    """Has a defect: it changes something outside between two checkpoints, without the number of the page."""
    for page in range(job.data or 0, job.props):
        outside.append(page)
        job.checkpoint(page + 1)
    return len(outside)


def test_one_run() -> None:
    ran = testing.run(sync, 3, data=Cursor(1))
    assert ran.messages == [{"message": "complete", "result": 3}]
    assert ran.checkpoints == [{"page": 2}, {"page": 3}]
    assert ran.log == ["page 2", "page 3"] and ran.progress == [2 / 3, 1.0]


def test_one_run_says_how_it_ended() -> None:
    assert (testing.run(sync, 3).state, testing.run(sync, 3).result) == ("completed", 3)
    assert testing.run(approval, "x").state == "paused"
    failed = testing.run(flaky, "key")
    assert (failed.state, failed.errors) == ("failed", ["KeyError: 'x'"])

    @app.task("exits")
    def exits(job: windlass.Job[Any, Any]) -> None:
        raise SystemExit(3)

    assert testing.run(exits, None).errors == ["SystemExit: 3"]


def test_a_handler_under_test_reaches_no_server() -> None:
    @app.task("asks-for-client")
    def asks(job: windlass.Job[Any, Any]) -> Any:
        return app.client().get("x")["result"]

    assert "has no client" in testing.run(asks, None).errors[0]

    class Client:
        def get(self, id: str) -> dict[str, int]:
            return {"result": 7}

    assert testing.live(asks, None, client=Client()).result == 7

    class Own(Client):
        pass

    @app.task("asks-in-a-thread")
    def asks_in_a_thread(job: windlass.Job[Any, Any]) -> list[str]:
        found: list[str] = []

        def look() -> None:
            for made in (app.client, app.async_client):
                try:
                    found.append(type(made()).__name__)
                except RuntimeError as error:
                    found.append(str(error)[:36])

        thread = threading.Thread(target=look)
        thread.start()
        thread.join(20)
        return found

    assert testing.run(asks_in_a_thread, None).result == ["a handler under test has no client: "] * 2
    assert testing.run(asks_in_a_thread, None, client=Own()).result == ["Own", "Own"]
    with app.client() as client:
        assert isinstance(client, windlass.Client)
    with pytest.raises(TypeError, match="is not a handler"):
        testing.live("sync", None)  # type: ignore[arg-type]


def test_a_stop_is_raised_by_a_checkpoint() -> None:
    ran = testing.run(sync, 3, stop="pause", stop_at=2)
    assert ran.messages == [{"message": "pause"}]
    assert ran.data == {"page": 2}
    assert testing.run(sync, 3, stop="shutdown").messages == [{"message": "release"}]


def test_a_life_in_virtual_time() -> None:
    life = testing.live(poll, 365)
    assert (life.state, life.result, life.runs) == ("completed", 365, 365)
    assert life.clock == pytest.approx(364 * 86400)
    assert [one["props"]["n"] for one in life.submitted] == list(range(1, 366))


def test_a_sleep_until_a_time() -> None:
    @app.task("until")
    def until(job: windlass.Job[Any, int]) -> Any:
        return 1 if job.data else job.sleep(dt.datetime(2030, 1, 3, tzinfo=dt.timezone.utc), 1)

    assert testing.live(until, None).clock == 2 * 86400


@app.task("asks", signals=True)
def asks(job: windlass.Job[Any, None]) -> windlass.Next[Any]:
    for signal in job.signals:
        if signal.name == "approve":
            return job.complete(signal.payload)
    if job.awaited:
        return job.complete([job.awaited.name, job.awaited.expired])
    return job.wait_for_signal("approve", text="Go?", until=60)


def test_a_life_waits_for_a_signal_until_its_time() -> None:
    assert testing.live(asks, None, signals=[(30.0, "approve", 7)]).result == 7
    assert testing.live(asks, None).result == ["approve", True]
    assert testing.live(asks, None, signals=[(30.0, "other", 7)]).result == ["approve", False]
    message = testing.run(asks, None).messages[0]
    assert message == {"message": "sleep", "until": "in 60000ms", "awaits_signal": {"name": "approve", "text": "Go?"}}


def test_signals_come_at_their_time() -> None:
    life = testing.live(approval, "x", signals=[(7200.0, "approve", "the order")])
    assert (life.state, life.result, life.clock) == ("completed", "approve", 7200.0)
    assert life.replies == {"approve": "thanks for the order"}
    assert testing.live(approval, "x").state == "paused"


def test_errors_are_retried() -> None:
    life = testing.live(flaky, "later")
    assert (life.state, life.result, life.errors) == ("completed", 3, ["ValueError: not yet"] * 2)
    assert testing.live(flaky, "key").state == "failed"
    assert testing.live(flaky, "later", attempts=2).state == "failed"


def test_a_handler_that_never_ends_is_reported() -> None:
    @app.task("forever")
    def forever(job: windlass.Job[Any, Any]) -> Any:
        return job.run_again()

    with pytest.raises(AssertionError, match="has not ended after 50 runs"):
        testing.live(forever, None, most_runs=50)


def test_children_end_as_the_test_says() -> None:
    @app.task("fan")
    def fan(job: windlass.Job[int, bool]) -> Any:
        if not job.data:
            for n in range(job.props):
                job.submit("child", n)
            return job.wait_for(data=True)
        return [one.outcome for one in job.waited]

    assert testing.live(fan, 2).result == ["completed", "completed"]
    assert testing.live(fan, 2, outcomes=lambda id: "failed").result == ["failed", "failed"]
    assert testing.crash_everywhere(fan, 3) == 4


def test_a_crash_at_every_write_changes_nothing() -> None:
    # 3 checkpoints with a crash before and after each, and one before and after the end.
    assert testing.crash_everywhere(sync, 3) == 8
    assert testing.crash_everywhere(poll, 3) == 6
    assert testing.crash_everywhere(approval, "x", signals=[(60.0, "approve", 1)]) > 3


def test_a_crash_finds_a_handler_that_forgets() -> None:
    with pytest.raises(AssertionError, match="a crash before write 1 of 4"):
        testing.crash_everywhere(forgets, 3, before=outside.clear)


@app.task("children")
async def children(job: windlass.Job[bool, Any]) -> None:
    async def part() -> None:
        while True:
            await (job.checkpoint(1) if job.props else job.wait(1))

    tasks = [asyncio.create_task(part()) for _ in range(2)]
    try:
        await asyncio.gather(*tasks)
    finally:
        await asyncio.wait(tasks, timeout=20)


def test_a_stop_ends_all_tasks_of_a_handler() -> None:
    assert testing.run(children, False, stop="pause", stop_at=5).messages == [{"message": "pause"}]


@app.task("collects")
async def collects(job: windlass.Job[Any, int]) -> str:
    async def part(n: int) -> None:
        await job.checkpoint(n)

    await asyncio.gather(part(1), part(2), return_exceptions=True)
    await job.checkpoint(3)
    return "done"


def test_a_crash_within_tasks_of_a_handler_passes_them() -> None:
    runs: list[int] = []
    assert testing.crash_everywhere(collects, None, check=lambda life: runs.append(life.runs)) == 8
    assert runs == [1] + [2] * 7 + [1], "after the last write nothing is lost"


class Reversed:
    """A codec: it turns the JSON text around."""

    def encode(self, value: Any) -> Any:
        return {"sealed": json.dumps(value)[::-1]}

    def decode(self, value: Any) -> Any:
        return None if value is None else json.loads(value["sealed"][::-1])


sealed_app = windlass.App(codec=Reversed())


@sealed_app.task("sealed", signals=True)
def sealed(job: windlass.Job[Any, Any]) -> Any:
    for signal in job.signals:
        if signal.name == "now":
            job.reply(signal, [signal.payload])
        else:
            job.reply_later(signal, [signal.payload])
    return job.complete(job.data)


def test_data_and_replies_pass_through_the_codec() -> None:
    ran = testing.run(sealed, None, data={"a": 1}, signals=[("now", 1), ("later", 2)])
    assert (ran.result, ran.replies, ran.errors) == ({"a": 1}, {"now": [1], "later": [2]}, [])


@pytest.mark.parametrize("call", [testing.run, testing.live, testing.crash_everywhere])
def test_an_async_handler_is_refused_within_an_event_loop(call: Any) -> None:
    async def within() -> None:
        with pytest.raises(RuntimeError, match=r"testing\.run_async"):
            call(sync, 2)
        assert call(poll, 1)

    asyncio.run(within())


def test_it_works_beside_a_running_loop() -> None:
    async def inside() -> Any:
        return await asyncio.to_thread(testing.live, sync, 2)

    assert asyncio.run(inside()).result == 2


def test_props_that_do_not_fit_fail_the_task_without_further_attempts() -> None:
    props: Any = "many"
    life = testing.live(poll, props)
    assert (life.state, life.runs, life.errors) == ("failed", 1, ["props: expected int, got 'many'"])


@app.task("float")
def of_float(job: windlass.Job[float, None]) -> None: ...


@app.task("timedelta")
def of_timedelta(job: windlass.Job[dt.timedelta, None]) -> None: ...


@app.task("set")
def of_set(job: windlass.Job[set[Any], None]) -> None: ...


@pytest.mark.parametrize(("task", "props"), [(of_float, 10**400), (of_timedelta, 1e15), (of_set, [[1]])])
def test_props_that_a_conversion_refuses_fail_the_task_without_further_attempts(task: Any, props: Any) -> None:
    life = testing.live(task, props)
    assert (life.state, life.runs) == ("failed", 1)
    assert life.errors[0].startswith("props: expected ")


@app.task("reads-old", data_version=2)
def reads_old(job: windlass.Job[None, Cursor]) -> int:
    return job.data.page if job.data else -1


def test_without_migrate_the_new_type_reads_older_data_if_it_can() -> None:
    assert testing.run(reads_old, None, data={"page": 7, "old": 1}, data_version=1).result == 7
    failed = testing.run(reads_old, None, data={"page": "7"}, data_version=1)
    assert failed.messages[0].get("retry") is None, "a worker with a fixed program could not take the task"
    assert "data.page: expected int" in failed.errors[0] and "has version 1" in failed.errors[0]


@app.task("stops-itself")
def stops_itself(job: windlass.Job[bool, Any]) -> None:
    if job.props:
        job.wait(1)
    raise windlass.Stop


def test_a_stop_that_a_handler_raises_by_itself_is_a_failed_attempt() -> None:
    failed = testing.run(stops_itself, False)
    assert failed.state == "sleeping" and "return job.release()" in failed.errors[0]
    assert testing.live(stops_itself, False, attempts=3).state == "failed"
    assert testing.run(stops_itself, True, stop="shutdown").messages == [{"message": "release"}]


@app.task("forgets-await", signals=True)
async def forgets_await(job: windlass.Job[str, int]) -> windlass.Next[str]:
    if job.props == "checkpoint":
        job.checkpoint(1)
    elif job.props == "wait":
        job.wait(1)
    elif job.props == "reply":
        job.reply(job.signals[0])
    elif job.props == "gathered":
        await asyncio.gather(job.checkpoint(1), job.wait(1))
        await asyncio.create_task(job.wait(1))  # type: ignore[arg-type]
    return job.complete("done")


@pytest.mark.parametrize("call", ["checkpoint", "wait", "reply"])
def test_a_call_that_is_not_awaited_is_a_failed_attempt_that_names_the_line(call: str) -> None:
    failed = testing.run(forgets_await, call, signals=[("a", 1)])
    lines, first = inspect.getsourcelines(forgets_await.handler)
    line = first + next(n for n, text in enumerate(lines) if f"job.{call}(" in text)
    assert failed.state == "sleeping"
    wanted = f"TypeError: the handler has not awaited its call of {call} ({__file__}, line {line}): write `await job.{call}(...)`"
    assert failed.errors == [wanted]
    assert testing.live(forgets_await, call, signals=[(0.0, "a", 1)], attempts=2).state == "failed"


def test_calls_that_are_awaited_in_any_way_are_no_failure() -> None:
    assert testing.run(forgets_await, "gathered").result == "done"
