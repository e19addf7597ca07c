"""A worker whose processes are made ready by functions, and end after some runs. The argument is `max_tasks`."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from typing import Any

import windlass_tasks as windlass

app = windlass.App(ttl=15, processes=2, max_tasks=int(sys.argv[1]) if len(sys.argv) > 1 else None)
logger = logging.getLogger("hooks")
made: list[Any] = []


@app.on_process_start
def opens() -> None:
    made.append(f"pool of {os.getpid()}")
    assert threading.current_thread() is threading.main_thread()


@app.on_process_start
async def opens_too() -> None:
    await asyncio.sleep(0)
    made.append(asyncio.get_running_loop())


def seen() -> list[Any]:
    """What the functions have made, and the process."""
    loops = [one for one in made[1:] if one is asyncio.get_running_loop()]
    return [made[0], len(loops), os.getpid()]


def about(job: windlass.Job[float, Any]) -> list[Any]:
    job.wait(job.props)
    return [made[0], len(made) - 1, os.getpid()]


async def about_async(job: windlass.Job[float, Any]) -> list[Any]:
    await job.wait(job.props)
    return seen()


app.task("about-process", slots=4)(about)
app.task("about-thread", place="thread")(about)
app.task("about-loop")(about_async)


def logs(job: windlass.Job[Any, Any]) -> str:
    logger.info("page %d of %s", 3, job.id)
    logging.getLogger("windlass_tasks").warning("that of the worker")
    try:
        raise ValueError("no such page")
    except ValueError:
        logger.exception("failed")
    if job.kind == "logs-process":
        thread = threading.Thread(target=logger.info, args=("from a thread",))
        thread.start()
        thread.join()
    threading.Timer(0.1, logger.info, ["after the end"]).start()
    return "logged"


async def logs_async(job: windlass.Job[Any, Any]) -> str:
    await asyncio.to_thread(logger.info, "from a thread")
    return logs(job)


app.task("logs-process", slots=1)(logs)
app.task("logs-thread", place="thread")(logs)
app.task("logs-loop")(logs_async)


if __name__ == "__main__":
    app.run()
