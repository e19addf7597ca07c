"""Stops of handlers in groups of exceptions."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import pytest
from test_host import host_of, make

import windlass_tasks as windlass
from windlass_tasks._places import LoopHost
from windlass_tasks._run import Run

app = windlass.App("http://localhost:1")


class Group(BaseException):
    """A group of exceptions, as Python has them since 3.11."""

    def __init__(self, *exceptions: BaseException) -> None:
        super().__init__("some")
        self.exceptions = exceptions


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (Group(windlass.Stop("shutdown"), Group(asyncio.CancelledError(), windlass.Stop("shutdown"))), "release"),
        (Group(windlass.Stop("shutdown"), ValueError("x")), "error"),
        (Group(), "error"),
    ],
    ids=["stops", "another", "empty"],
)
def test_a_group_of_stops_alone_is_a_stop(error: BaseException, name: str, caplog: pytest.LogCaptureFixture) -> None:
    host, run = make(Run)
    cast(Any, host).runs = {}
    run.stopped({"reason": "shutdown"})
    run.ended(None, error)
    assert json.loads(host.sent[-1][2])["message"] == name
    assert ("the handler has failed" in caplog.text) == (name == "error")


@app.task("grouped")
async def grouped(job: windlass.Job[Any, Any]) -> None:
    async def part() -> None:
        while True:
            await job.wait(60)

    async with cast(Any, asyncio).TaskGroup() as group:
        group.create_task(part())
        group.create_task(asyncio.sleep(60))


@pytest.mark.skipif(not hasattr(asyncio, "TaskGroup"), reason="Python 3.10 has no task groups")
def test_a_stop_of_a_task_group_is_the_message_of_its_command() -> None:
    async def main() -> None:
        link, host = host_of(LoopHost)
        host.tasks = {"grouped": grouped}
        host.loop, host.out = asyncio.get_running_loop(), []
        claim = {"id": "a", "kind": "grouped", "fence": 1, "run": 1, "n": 1}
        host.handle(["start", 1, claim, json.dumps(claim)])
        handle = host.runs[1].handle
        for _ in range(5):
            await asyncio.sleep(0)
        host.handle(["stop", 1, {"reason": "command", "command": {"message": "pause"}, "interrupt": True}])
        await asyncio.wait([handle], timeout=20)
        await asyncio.sleep(0)
        assert [message[2] for message in link.messages() if message[0] == "return"] == ['{"message": "pause"}']

    asyncio.run(main())
