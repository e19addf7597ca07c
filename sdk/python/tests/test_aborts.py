"""An aborted handler ends by itself wherever its job waits: the process that would be killed otherwise has other handlers, too."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest
from test_host import Link

import windlass_tasks as windlass
from windlass_tasks._children import Host, Run
from windlass_tasks._places import LoopHost, ThreadHost
from windlass_tasks._run import clock
from windlass_tasks._worker import Worker

app = windlass.App("http://localhost:1")


@app.task("thread", place="thread")
def in_a_thread(job: windlass.Job[str, Any]) -> None:
    if job.props == "checkpoint":
        job.checkpoint(1)
    job.wait(60)


@app.task("loop")
async def in_the_loop(job: windlass.Job[str, Any]) -> None:
    if job.props == "checkpoint":
        await job.checkpoint(1)
    await job.wait(60)


def aborts(kind: str, props: str, is_stopped: bool) -> list[Any]:
    """The messages to a process whose handler is aborted in a call of its job."""
    claim = {"id": "a", "kind": kind, "fence": 1, "run": 1, "n": 1, "props": props}
    start = ["start", 1, claim, json.dumps(claim)]
    stop = [["stop", 1, {"reason": "shutdown", "interrupt": False}]] if is_stopped else []
    return [start, *stop, ["abort", 1]]


# A wait ends with the stop already.
CASES = [("checkpoint", False), ("checkpoint", True), ("wait", False)]


@pytest.mark.parametrize(("props", "is_stopped"), CASES)
def test_an_aborted_thread_ends_in_a_call_of_its_job(props: str, is_stopped: bool) -> None:
    link = Link()
    host = ThreadHost(cast(socket.socket, link), app.tasks)
    start, *rest = aborts("thread", props, is_stopped)
    host.handle(start)
    time.sleep(0.05)  # It is in the call, or comes to it later.
    for message in rest:
        host.handle(message)
    until = time.monotonic() + 20
    while host.runs and time.monotonic() < until:
        time.sleep(0.005)
    assert not host.runs


@pytest.mark.parametrize(("props", "is_stopped"), CASES)
def test_an_aborted_async_handler_ends_in_a_call_of_its_job(props: str, is_stopped: bool) -> None:
    """Regression: one that was asked to stop before waited for the answer to its checkpoint, which does not come."""

    async def main() -> None:
        link = Link()
        host = LoopHost(cast(socket.socket, link), app.tasks)
        host.loop, host.out = asyncio.get_running_loop(), []
        for message in aborts("loop", props, is_stopped):
            host.handle(message)
            await asyncio.sleep(0.01)
        assert not host.runs

    asyncio.run(main())


class Gone(SimpleNamespace):
    """A process that has ended."""

    __hash__ = object.__hash__  # type: ignore[assignment]


@pytest.mark.parametrize("is_over", [False, True])
def test_a_process_that_ends_its_handlers_with_the_lease_has_aborted_them(is_over: bool) -> None:
    """Regression: a process may end itself before the worker looks: its exit code became the error of an attempt."""

    async def ended() -> list[tuple[str, str]]:
        worker = Worker(app)
        try:
            run = Run({"id": "a", "fence": 1, "run": 1, "n": 1}, app.tasks["thread"], 0)
            worker.runs["a", 1] = run
            worker.hosts.until = clock() + (0 if is_over else 60)
            gone = Gone(place="thread", process=SimpleNamespace(exitcode=70), kill_group=lambda: None)
            gone.__dict__.update(runs={run.key: run}, aborted={}, killed=False, is_ready=True, fault="")
            await worker.hosts.ended(cast(Host, gone))
            return [(item.what, item.text) for item in worker.items]
        finally:
            worker.hosts.guard.process.kill()
            worker.hosts.guard.process.wait()

    [(what, text)] = asyncio.run(ended())
    assert (what, "exit code 70" in text) == (("aborted", False) if is_over else ("return", True))
