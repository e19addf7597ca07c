"""`windlass_tasks.testing`: signals, replies, and waits for them."""

from __future__ import annotations

from typing import Any

import pytest

import windlass_tasks as windlass
from windlass_tasks import testing

app = windlass.App()


@app.task("counts", signals=True)
def counts(job: windlass.Job[str, list[int]]) -> windlass.Next[list[int]]:
    """Replies to each signal, and leaves the run after every second one."""
    got = list(job.data or [])
    for signal in job.signals:
        got.append(signal.payload)
        job.reply(signal, len(got), data=got)
        if len(got) % 2 == 0 and job.props == "release":
            return job.release()
        if len(got) % 2 == 0 and job.props == "error":
            raise ValueError("once")
        if job.props == "later":
            job.reply_later(signal)
            return job.error("again", data=got)
    return job.complete(got) if len(got) >= 3 else job.pause()


@pytest.mark.parametrize("props", ["release", "error", "later", "nothing"])
def test_a_signal_that_has_its_reply_does_not_come_again(props: str) -> None:
    given = [(0.0, "a", 0), (0.0, "b", 1), (5.0, "c", 2)]
    life = testing.live(counts, props, signals=given, most_runs=20)
    assert (life.result, life.replies["c"]) == ([0, 1, 2], None if props == "later" else 3)
    testing.crash_everywhere(counts, props, signals=given)


@app.task("replies-first", signals=True)
def replies_first(job: windlass.Job[Any, Any]) -> windlass.Next[str]:
    """Has a defect: after a crash nothing says that the signal has come."""
    for signal in job.signals:
        job.reply(signal)
        return job.complete(signal.name)
    return job.pause()


def test_a_crash_finds_a_reply_that_leaves_no_data() -> None:
    with pytest.raises(AssertionError, match="a crash after write 2 of 3"):
        testing.crash_everywhere(replies_first, None, signals=[(60.0, "approve", 1)])


@app.task("waits-here", signals=True)
def waits_here(job: windlass.Job[float | None, Any]) -> Any:
    for _ in range(5):
        job.wait(job.props)
        if job.signals:
            return job.signals[0].payload
    return "nothing"


@app.task("waits-here-too", signals=True)
async def waits_here_too(job: windlass.Job[float | None, Any]) -> Any:
    for _ in range(5):
        await job.wait(job.props)
        if job.signals:
            return job.signals[0].payload
    return "nothing"


@pytest.mark.parametrize("task", [waits_here, waits_here_too])
@pytest.mark.parametrize(("seconds", "at"), [(60.0, 10.0), (60.0, 130.0), (None, 500.0)])
def test_a_wait_gets_the_signal_that_is_due(task: Any, seconds: float | None, at: float) -> None:
    life = testing.live(task, seconds, signals=[(at, "a", "hello")])
    assert (life.result, life.clock, life.runs) == ("hello", at, 1)
    assert testing.live(task, seconds, signals=[(1000.0, "a", "late")]).result == ("late" if seconds is None else "nothing")


@app.task("unseen", signals=True)
def unseen(job: windlass.Job[bool, bool]) -> windlass.Next[Any]:
    if job.data:
        return job.complete([one.payload for one in job.signals])
    job.wait(60)
    return job.sleep(3600, True) if job.props else job.pause(True)


@pytest.mark.parametrize("props", [True, False])
def test_a_signal_that_a_run_has_not_seen_wakes_the_task_at_once(props: bool) -> None:
    life = testing.live(unseen, props, signals=[(10.0, "a", 1), (500.0, "b", 2)])
    assert (life.result, life.clock) == ([1], 10.0)


@app.task("goes-on")
def goes_on(job: windlass.Job[Any, int]) -> None:
    try:
        for n in range(10):
            job.checkpoint(n)
    finally:
        job.checkpoint(10)
        job.log("after the stop")


def test_each_call_after_a_stop_raises_it() -> None:
    ran = testing.run(goes_on, None, stop="pause", stop_at=3)
    assert (ran.checkpoints, ran.log, ran.messages) == ([0, 1, 2, 10], [], [{"message": "pause"}])
