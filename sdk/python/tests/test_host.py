"""What a run in the process of the handlers does with the messages of the worker, in each order."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, cast

import pytest

import windlass_tasks as windlass
from windlass_tasks._host import Host, LoopRun, Run
from windlass_tasks._job import Json

app = windlass.App("http://localhost:1")


@app.task("asks", place="thread", signals=True)
def asks(job: windlass.Job[Any, Any]) -> None:
    """The tests call its job themselves."""


class Fake:
    """The link to the worker: `hears` is called with each message, before the call that has sent it goes on."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.hears: Callable[[Any], None] = lambda message: None

    def send(self, message: Any) -> None:
        self.sent.append(message)
        self.hears(message)


class Waits(AssertionError):
    """The handler waits although there is a signal that it has not seen."""


class NeverWaits(threading.Condition):
    def wait(self, timeout: float | None = None) -> bool:
        raise Waits


class NeverSet(asyncio.Event):
    async def wait(self) -> Any:
        raise Waits


def signal(order: int) -> Json:
    return {"order": order, "command": {"message": "signal", "name": f"s{order}", "payload": order}}


def make(cls: type[Run]) -> tuple[Fake, Run]:
    host = Fake()
    claim = {"id": "a", "kind": "asks", "fence": 1, "run": 1, "n": 1, "signals": [signal(1)]}
    run = cls(cast(Host, host), 1, asks, claim)
    return host, run


def answered(run: Run, second_at: str) -> Callable[[Any], None]:
    """Answers each `ask`; the second signal comes `before` or `after` the answer to the first one's reply."""

    def hears(message: Any) -> None:
        if message[0] == "ask":
            if message[2] == 1 and second_at == "before":
                run.signalled(signal(2))
            run.answered(message[2], None)
            if message[2] == 1 and second_at == "after":
                run.signalled(signal(2))

    return hears


@pytest.mark.parametrize("second_at", ["before", "after"])
def test_a_signal_during_a_reply_ends_the_next_wait(second_at: str) -> None:
    host, run = make(Run)
    host.hears = answered(run, second_at)
    job = run.made()
    seen: list[str] = []
    run.changed = NeverWaits()
    while len(seen) < 2:
        for one in job.signals:
            seen.append(one.name)
            job.reply(one)
        if len(seen) < 2:
            job.wait(60)
    assert seen == ["s1", "s2"]
    with pytest.raises(Waits):  # What the handler has seen ends no wait.
        job.wait(60)


@pytest.mark.parametrize("second_at", ["before", "after"])
def test_a_signal_during_a_reply_ends_the_next_wait_in_the_event_loop(second_at: str) -> None:
    async def main() -> None:
        host, made = make(LoopRun)
        run = cast(LoopRun, made)
        run.pending, run.event = {}, NeverSet()
        later = answered(run, second_at)

        def hears(message: Any) -> None:
            asyncio.get_running_loop().call_soon(later, message)

        host.hears = hears
        job = run.made()
        seen: list[str] = []
        while len(seen) < 2:
            for one in job.signals:
                seen.append(one.name)
                await job.reply(one)
            if len(seen) < 2:
                await job.wait(60)
        assert seen == ["s1", "s2"]
        with pytest.raises(Waits):
            await job.wait(60)

    asyncio.run(main())


def test_a_wait_that_a_signal_has_ended_ends_the_next_one_no_more() -> None:
    _, run = make(Run)
    job = run.made()
    run.changed = NeverWaits()
    run.signalled(signal(2))
    job.wait(60)
    with pytest.raises(Waits):
        job.wait(60)
    assert [one.name for one in job.signals] == ["s1", "s2"]
