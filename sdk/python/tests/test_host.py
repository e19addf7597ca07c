"""What a run in the process of the handlers does with the messages of the worker, in each order."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal as signals
import socket
import threading
from collections.abc import Callable
from typing import Any, cast

import pytest

import windlass_tasks as windlass
from windlass_tasks import _awaits, testing
from windlass_tasks._children import Guard
from windlass_tasks._children import Run as Held
from windlass_tasks._forms import Json
from windlass_tasks._frames import HEAD, LARGEST, BadFrame, frames, length, messages
from windlass_tasks._host import Host
from windlass_tasks._places import LoopHost, LoopRun, ProcessHost
from windlass_tasks._run import Run
from windlass_tasks._troubles import TooLarge
from windlass_tasks._worker import Worker

app = windlass.App("http://localhost:1")


@app.task("asks", place="thread", signals=True)
def asks(job: windlass.Job[Any, Any]) -> None:
    """The tests call its job themselves."""


class Fake:
    """The link to the worker: `hears` is called with each message, before the call that has sent it goes on."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.pid = os.getpid()
        self.hears: Callable[[Any], None] = lambda message: None

    def send(self, message: Any) -> None:
        self.sent.append(message)
        self.hears(message)

    def report_files(self) -> None:
        """Nothing is imported."""


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


class Link:
    """A connection whose writes are interrupted half-way by `interrupt`, as by a signal."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.interrupt: Callable[[], None] = lambda: None

    def sendall(self, data: bytes) -> None:
        self.written += data[: len(data) // 2]
        self.interrupt()
        self.written += data[len(data) // 2 :]

    def messages(self) -> list[Any]:
        read, left = [], bytes(self.written)
        while left:
            size = length(left, LARGEST)
            read += messages(left[HEAD : HEAD + size])
            left = left[HEAD + size :]
        return read


def host_of(cls: type[Any]) -> tuple[Link, Any]:
    link = Link()
    return link, cls(cast(socket.socket, link), app.tasks)


def logs_and_looks(job: windlass.Job[Any, Any]) -> None:
    for _ in range(3):
        job.log("a line")
    assert [one.name for one in job.signals]


def looks(job: windlass.Job[Any, Any]) -> None:
    assert [one.name for one in job.signals]
    job.progress(0.5)


@pytest.mark.parametrize("handler", [logs_and_looks, looks])
def test_a_stop_within_a_call_of_the_job_cuts_no_frame_and_comes_after_it(
    handler: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    task: Any = windlass.App("http://localhost:1").task("a", signals=True)(handler)
    link, host = host_of(ProcessHost)
    claim = {"id": "a", "kind": "a", "fence": 1, "run": 1, "n": 1, "signals": []}
    run = Run(host, 1, task, claim)
    run.signalled(signal(1))
    run.order = 0

    def interrupt() -> None:
        link.interrupt = lambda: None
        run.stopped({"reason": "command", "command": {"message": "pause"}})
        signals.raise_signal(signals.SIGUSR1)

    link.interrupt = interrupt
    before = signals.signal(signals.SIGUSR1, host._raise)
    try:
        run.call()
    finally:
        signals.signal(signals.SIGUSR1, before)
    sent = link.messages()
    assert [message[0] for message in sent] == [sent[0][0], "return"], "the stop has come late"
    assert sent[0][0] in ("tell", "took")
    assert sent[1][2] == '{"message": "pause"}'


def test_an_async_task_that_is_cancelled_before_its_first_step_is_released() -> None:
    async def main() -> None:
        link, host = host_of(LoopHost)
        host.tasks = {"short": short}
        host.loop, host.out = asyncio.get_running_loop(), []
        claim = {"id": "a", "kind": "short", "fence": 1, "run": 1, "n": 1}
        host.handle(["start", 1, claim, json.dumps(claim)])
        host.handle(["stop", 1, {"reason": "shutdown", "interrupt": True}])
        host.handle(["start", 2, claim, json.dumps(claim)])
        for _ in range(5):
            await asyncio.sleep(0)
        ends = {key: text for name, key, text, _ in link.messages() if name == "return"}
        assert ends == {1: '{"message": "release"}', 2: '{"message": "complete", "result": 7}'}
        assert not host.runs

    asyncio.run(main())


@app.task("short")
async def short(job: windlass.Job[Any, Any]) -> int:
    return 7


@app.task("taken")
async def taken(job: windlass.Job[str, Any]) -> int:
    wait: Any = job.wait  # Its type says less than what it returns: a coroutine.
    if job.props == "wait_for":
        for _ in range(3):
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(wait(60), 0)
    elif job.props == "cancelled":
        task = asyncio.create_task(wait(60))
        task.cancel()
        await asyncio.wait([task])
    elif job.props == "not begun":
        asyncio.create_task(wait(0)).add_done_callback(lambda task: task.result())
    else:
        await asyncio.to_thread(getattr(job, job.props), 1)
    return 7


def returned(props: str) -> tuple[list[str], Json]:
    """Runs the handler `taken` in an event loop. Returns the names of what it has sent, and what followed."""

    async def main() -> list[Any]:
        link, host = host_of(LoopHost)
        host.tasks = {"taken": taken}
        host.loop, host.out = asyncio.get_running_loop(), []
        claim = {"id": "a", "kind": "taken", "fence": 1, "run": 1, "n": 1, "props": props}
        host.handle(["start", 1, claim, json.dumps(claim)])
        await asyncio.wait([host.runs[1].handle], timeout=20)
        await asyncio.sleep(0)
        return link.messages()

    sent = asyncio.run(main())
    return [message[0] for message in sent], json.loads(sent[-1][2])


@pytest.mark.parametrize("how", ["wait_for", "cancelled", "not begun"])
def test_a_call_that_a_task_has_taken_is_awaited(how: str) -> None:
    assert returned(how) == (["return"], {"message": "complete", "result": 7})
    assert testing.run(taken, how).result == 7


@pytest.mark.parametrize("call", ["checkpoint", "wait"])
def test_a_call_from_a_thread_is_refused_before_it_stores_anything(call: str) -> None:
    sent, message = returned(call)
    assert sent == ["return"]
    ran = testing.run(taken, call)
    assert (ran.data, ran.clock) == (None, 0.0)
    for text in (message["error"], ran.errors[0]):
        assert f"RuntimeError: job.{call} was called outside of the event loop" in text


def test_many_calls_that_tasks_have_ended_are_kept_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_awaits, "_MOST", 2)
    assert returned("wait_for")[1]["message"] == "complete"


def test_a_guard_that_was_killed_starts_again() -> None:
    guard = Guard()
    guard.process.kill()
    guard.process.wait(20)
    guard.watch(set())
    assert guard.process.poll() is None
    assert guard.process.stdin is not None
    guard.process.stdin.close()
    assert guard.process.wait(20) == 0


def test_what_is_no_frame_is_noticed_at_once() -> None:
    whole = frames([["a", 1], ["b", "é"]])
    assert messages(whole[HEAD : HEAD + length(whole, LARGEST)]) == [["a", 1], ["b", "é"]]
    long = frames([["x" * 500_000]] * 5)
    assert length(long, LARGEST) < len(long) - 2 * HEAD, "many messages are several frames"
    with pytest.raises(BadFrame):
        length(whole, 3)
    for foreign in (b"garbage\n", b"\0\0\0\x10\0\0\0\0", b"\0" * 8, b"\n" + whole[:7]):
        with pytest.raises(BadFrame):
            length(foreign, LARGEST)
    for body in (b"", b"{}", b"[1", b"\xff"):
        with pytest.raises(BadFrame):
            messages(body)


def test_of_the_progress_of_a_run_the_newest_waits_for_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker(app)
    runs = [Held({"id": id, "fence": 1, "run": 1, "n": 1}, asks, 0) for id in ("a", "b")]
    worker.runs = {(run.claim["id"], 1): run for run in runs}

    def tell(count: int, of: str) -> str:
        for n in range(count):
            for run in runs:
                worker.add(run, "progress", f'{{"text":"{of} {n}"}}')
        return f'{{"text":"{of} {count - 1}"}}'

    sent: list[str] = []

    async def post(what: str, path: str, body: str, timeout: float, needs: Any) -> Json:
        items = json.loads(body)["items"]
        sent[:] = [json.dumps(item.get("progress", "return"), separators=(",", ":")) for item in items]
        if len(items) == 2:
            tell(1000, "meanwhile")
            raise TooLarge
        return {"results": [{"result": "applied"}] * len(items)}

    monkeypatch.setattr(worker, "post", post)
    try:
        newest = tell(1000, "before")
        for _ in range(3):  # What comes while a report is on its way takes the place of what was in it.
            assert [item.text for item in worker.items] == [newest] * 2
            with pytest.raises(TooLarge):
                asyncio.run(worker.report())
            assert sent == [newest] * 2
            newest = '{"text":"meanwhile 999"}'
        worker.add(runs[0], "return", '{"message":"release"}')
        asyncio.run(worker.report())
        assert sent == [newest, newest, '"return"']
        assert not worker.items and not worker.progress and list(worker.runs) == [("b", 1)]
    finally:
        worker.hosts.guard.process.kill()
        worker.hosts.guard.process.wait()
