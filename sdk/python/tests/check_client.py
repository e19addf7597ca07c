"""The client under test of `windlass worker-check`: a handler that does what the props say (docs/reference/worker-check.md).

The argument is the place of the handler: process, thread or loop."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from typing import Any

import windlass_tasks as windlass

app = windlass.App()
PLACE = sys.argv[1] if len(sys.argv) > 1 else "process"


def note(props: dict[str, Any], line: str) -> None:
    if "trace" in props:
        with open(props["trace"], "a") as file:
            file.write(line + "\n")


def simple(job: windlass.Job[dict[str, Any], Any]) -> Any:
    if job.props["do"] == "error":
        raise ValueError("the props ask for an error")
    if job.props["do"] == "run" and job.data is None:
        return job.run_again({"runs": 1})
    return job.complete(job.props)


def blocking(job: windlass.Job[dict[str, Any], Any]) -> Any:
    props = job.props
    note(props, "start")
    if props["do"] == "checkpoint":
        job.checkpoint(props)
    if props["do"] == "sleep":
        end = time.monotonic() + props["sleep_ms"] / 1000
        while time.monotonic() < end:
            note(props, "beat")
            if props.get("stubborn"):
                with contextlib.suppress(windlass.Stop):
                    time.sleep(0.05)
            else:
                job.wait(0.05)
    return simple(job)


async def waiting(job: windlass.Job[dict[str, Any], Any]) -> Any:
    props = job.props
    note(props, "start")
    if props["do"] == "checkpoint":
        await job.checkpoint(props)
    if props["do"] == "sleep":
        end = time.monotonic() + props["sleep_ms"] / 1000
        while time.monotonic() < end:
            note(props, "beat")
            if props.get("stubborn"):
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(0.05)
            else:
                await job.wait(0.05)
    return simple(job)


if PLACE == "loop":
    handler = app.task("check", slots=10, signals=True)(waiting)
elif PLACE == "thread":
    handler = app.task("check", slots=10, place="thread", signals=True)(blocking)
else:
    handler = app.task("check", slots=10, signals=True)(blocking)

if __name__ == "__main__":
    app.run()
