"""Handlers that harm the process in which they run, for the tests of what follows."""

from __future__ import annotations

import os
import subprocess
from typing import Any

import windlass_tasks as windlass

app = windlass.App(ttl=15)


@app.task("writes", slots=1)
def writes(job: windlass.Job[list[int], Any]) -> str:
    """Writes bytes into all files that it has not opened."""
    for number in range(3, 64):
        try:
            os.write(number, bytes(job.props))
        except OSError:
            continue
    return "written"


@app.task("closes", slots=1)
def closes(job: windlass.Job[bool, Any]) -> str:
    """Closes all files that it has not opened; with the props, others get their numbers."""
    os.closerange(3, 64)
    if job.props:
        for _ in range(20):
            os.open("/dev/null", os.O_RDWR)
    return "closed"


@app.task("leaves", slots=1)
def leaves(job: windlass.Job[str, Any]) -> str:
    """Leaves a command behind that has all inheritable files, and ends its process."""
    if job.props == "fork" and os.fork() == 0:
        os.setsid()
        os.execvp("sleep", ["sleep", "60"])
    if job.props == "command":
        os.system("setsid sleep 60 &")
    if job.props:
        os._exit(3)
    return "left"


@app.task("forks", slots=1)
def forks(job: windlass.Job[Any, Any]) -> Any:
    """What a child gets that was forked and uses the job."""
    reads, writes = os.pipe()
    if os.fork() == 0:
        for use in (lambda: job.log("from the child"), lambda: job.checkpoint(1), lambda: job.wait(1)):
            try:
                use()
            except RuntimeError as error:
                os.write(writes, str(error).encode() + b"\n")
        os._exit(0)
    os.wait()
    os.close(writes)
    return os.read(reads, 10_000).decode().splitlines()


def lines(job: windlass.Job[int, Any]) -> str:
    for n in range(job.props):
        job.log(f"line {n}")
    job.log("the last line")
    return "logged"


async def lines_async(job: windlass.Job[int, Any]) -> str:
    return lines(job)


app.task("lines-process", slots=1)(lines)
app.task("lines-thread", place="thread")(lines)
app.task("lines-loop")(lines_async)


@app.task("chatters", slots=1)
def chatters(job: windlass.Job[Any, Any]) -> None:
    while True:
        job.log("x" * 4000)
        _ = job.signals


@app.task("stops-itself")
async def stops_itself(job: windlass.Job[Any, Any]) -> None:
    raise windlass.Stop


async def forgets_async(job: windlass.Job[str, Any]) -> str:
    if job.props == "checkpoint":
        job.checkpoint(1)  # pyright: ignore[reportUnusedCoroutine]
    if job.props == "wait":
        job.wait(60)
    return "done"


app.task("forgets")(forgets_async)


def environment(job: windlass.Job[str, Any]) -> list[str]:
    """What a command sees of the token, and what a client of the handler does with it."""
    command = ["/bin/sh", "-c", "echo ${WINDLASS_TOKEN-none}"]
    seen = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    return [seen, app.client().get(job.id)["id"], windlass.Client().get(job.id)["id"]]


async def environment_async(job: windlass.Job[str, Any]) -> list[str]:
    return environment(job)


app.task("environment-process", slots=1)(environment)
app.task("environment-thread", place="thread")(environment)
app.task("environment-loop")(environment_async)


if __name__ == "__main__":
    app.run()
