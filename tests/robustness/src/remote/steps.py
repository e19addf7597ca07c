"""The worker of the crash tests: its handlers note what they see in the file `LEDGER`.

A line is: event, task, fence, run, step. It is written by one call, so that a kill loses none that counts."""

from __future__ import annotations

import datetime
import os
import random
from typing import Any

import windlass_tasks as windlass

app = windlass.App(ttl=15)
LEDGER = os.open(os.environ["LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
STEPS = 6


def note(event: str, job: windlass.Job[Any, int], step: int) -> None:
    os.write(LEDGER, f"{event} {job.id} {job.fence} {job._run} {step}\n".encode())


def following(job: windlass.Job[Any, int], step: int) -> Any:
    """What the handler returns after a step, if it returns."""
    if step >= STEPS:
        return job.complete(step)
    if step % 3 == 0:
        return job.run_again(step)
    return job.sleep(datetime.timedelta(milliseconds=20), step) if step % 3 == 1 else None


def steps(job: windlass.Job[Any, int]) -> Any:
    step = job.data or 0
    note("start", job, step)
    while True:
        job.wait(random.uniform(0.01, 0.1))
        step += 1
        note("step", job, step)
        if (after := following(job, step)) is not None:
            return after
        job.checkpoint(step)
        note("stored", job, step)


async def steps_async(job: windlass.Job[Any, int]) -> Any:
    step = job.data or 0
    note("start", job, step)
    while True:
        await job.wait(random.uniform(0.01, 0.1))
        step += 1
        note("step", job, step)
        if (after := following(job, step)) is not None:
            return after
        await job.checkpoint(step)
        note("stored", job, step)


app.task("steps-process", slots=3)(steps)
app.task("steps-thread", slots=4, place="thread")(steps)
app.task("steps-loop", slots=4)(steps_async)

if __name__ == "__main__":
    app.run()
