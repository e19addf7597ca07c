"""The handlers of the tests: each kind for each place. `FOLDER` is a folder for notes."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import datetime as dt
import multiprocessing
import os
import pathlib
import subprocess
import sys
import time
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from shapes import Approval, Cursor, Pages

import windlass_tasks as windlass

FOLDER = pathlib.Path(os.environ.get("FOLDER", "."))
app = windlass.App(ttl=float(os.environ.get("TTL", "15")))
user: contextvars.ContextVar[str] = contextvars.ContextVar("user", default="nobody")
user.set("of the import")


def note(name: str, text: str) -> None:
    with open(FOLDER / name, "a") as file:
        file.write(text + "\n")


async def pages_async(job: windlass.Job[Pages, Cursor]) -> windlass.Next[int]:
    cursor = job.data or Cursor()
    while cursor.page < job.props.count:
        cursor.page += 1
        note(job.id, f"{cursor.page}")
        await job.checkpoint(cursor, progress=cursor.page / job.props.count)
        await asyncio.sleep(job.props.pause)
    return job.complete(cursor.page)


def pages(job: windlass.Job[Pages, Cursor]) -> windlass.Next[int]:
    cursor = job.data or Cursor()
    while cursor.page < job.props.count:
        cursor.page += 1
        note(job.id, f"{cursor.page}")
        job.checkpoint(cursor, progress=cursor.page / job.props.count)
        job.wait(job.props.pause)
    return job.complete(cursor.page)


async def sleeps_async(job: windlass.Job[float, Any]) -> str:
    note(job.id, "start")
    try:
        await asyncio.sleep(job.props)
    finally:
        note(job.id, "end")
    return "slept"


def sleeps(job: windlass.Job[float, Any]) -> str:
    note(job.id, "start")
    try:
        time.sleep(job.props)
    finally:
        note(job.id, "end")
    return "slept"


def sleeps_in_thread(job: windlass.Job[float, Any]) -> str:
    note(job.id, "start")
    try:
        job.wait(job.props)
    finally:
        note(job.id, "end")
    return "slept"


async def stubborn_async(job: windlass.Job[Any, Any]) -> None:
    note(job.id, "start")
    while True:
        try:
            await asyncio.sleep(0.05)
            note(job.id, "beat")
        except asyncio.CancelledError:
            note(job.id, "ignored")


def stubborn(job: windlass.Job[Any, Any]) -> None:
    note(job.id, "start")
    while True:
        try:
            time.sleep(0.05)
            note(job.id, "beat")
        except windlass.Stop:
            note(job.id, "ignored")


async def asks_async(job: windlass.Job[Any, list[str]]) -> windlass.Next[list[str]]:
    names = list(job.data or [])
    while True:
        for one in job.signals:
            names.append(one.name)
            await job.reply(one, {"hello": one.payload}, data=names)
        if "end" in names:
            return job.complete(names)
        await job.wait(60)


def asks(job: windlass.Job[Any, list[str]]) -> windlass.Next[list[str]]:
    names = list(job.data or [])
    while True:
        for one in job.signals:
            names.append(one.name)
            job.reply(one, {"hello": one.payload}, data=names)
        if "end" in names:
            return job.complete(names)
        job.wait(60)


async def sees_async(job: windlass.Job[Any, Any]) -> Any:
    return [user.get(), windlass.current_job().id]


def sees(job: windlass.Job[Any, Any]) -> Any:
    return [user.get(), windlass.current_job().id]


GRACE = dt.timedelta(seconds=1)


def place_in_trace(job: windlass.Job[Any, Any]) -> Any:
    """Where the handler is in its trace, and the task that it submits from there."""
    span = trace.get_current_span()
    links = [link.context for link in getattr(span, "links", ())]
    job.submit("sees-loop", None, id=f"{job.id}-child", start_at=dt.timedelta(hours=1))
    here = span.get_span_context()
    return {"here": [here.trace_id, here.span_id], "links": [[link.trace_id, link.span_id] for link in links], "meta": job.meta}


async def place_in_trace_async(job: windlass.Job[Any, Any]) -> Any:
    return place_in_trace(job)


trace.set_tracer_provider(TracerProvider())
app.task("traced-loop")(place_in_trace_async)
app.task("traced-process")(place_in_trace)
app.task("traced-thread", place="thread")(place_in_trace)
app.task("pages-loop")(pages_async)
app.task("pages-process", slots=4)(pages)
app.task("pages-thread", place="thread")(pages)
app.task("sleeps-loop")(sleeps_async)
app.task("sleeps-process", slots=4)(sleeps)
app.task("sleeps-thread", place="thread")(sleeps_in_thread)
app.task("stubborn-loop", grace=GRACE)(stubborn_async)
app.task("stubborn-process", slots=2, grace=GRACE)(stubborn)
app.task("stubborn-thread", place="thread", grace=GRACE)(stubborn)
app.task("asks-loop", signals=True)(asks_async)
app.task("asks-process", slots=2, signals=True)(asks)
app.task("asks-thread", place="thread", signals=True)(asks)


@app.task("approval", signals=True)
def approval(job: windlass.Job[float | None, Any]) -> windlass.Next[Any]:
    for one in job.signals:
        if one.name == "approve":
            job.reply_later(one, "noted")
            return job.complete(one.payload)
    if job.awaited and job.awaited.expired:
        return job.complete("expired")
    return job.wait_for_signal("approve", text="Go on?", schema=Approval, until=job.props or None)


app.task("sees-loop")(sees_async)
app.task("sees-process")(sees)
app.task("sees-thread", place="thread")(sees)


@app.task("fails", fail_on=(KeyError,))
async def fails(job: windlass.Job[str, Any]) -> None:
    if job.props == "key":
        raise KeyError("no such key")
    if job.props == "fail":
        raise windlass.Fail("nothing helps")
    if job.props == "json":
        return {1, 2, object()}  # type: ignore[return-value]
    if job.attempt < 3:
        raise ValueError("not yet")


@app.task("dies")
def dies(job: windlass.Job[int, Any]) -> None:
    if job.attempt > 1:
        return
    if job.props < 0:
        os.kill(os.getpid(), -job.props)
    os._exit(job.props)


@app.task("parent")
async def parent(job: windlass.Job[int, list[str]]) -> Any:
    if job.data is None:
        children = [job.submit("sees-loop", None, labels={"of": job.id}) for _ in range(job.props)]
        job.submit("sees-loop", None, id=f"{job.id}-later", start_at=dt.timedelta(hours=1))
        return job.wait_for(*children, data=children)
    return job.complete([one.outcome for one in job.waited])


def told(one: windlass.Result[int]) -> Any:
    try:
        return one.value
    except (windlass.NoResult, windlass.ValueMismatch) as error:
        return str(error)


def collects(job: windlass.Job[int, bool]) -> Any:
    """Returns the results of its children, or why there is none."""
    if not job.data:
        for n in range(job.props):
            kind, props = ("fails", "fail") if n == 2 else ("pages-thread", {"count": n})
            job.submit(kind, props, id=f"{job.id}.{n}")
        return job.wait_for(data=True)
    note(job.id, "reads")
    return [told(one) for one in job.waited.results(int)]


async def collects_async(job: windlass.Job[int, bool]) -> Any:
    if not job.data:
        return collects(job)
    note(job.id, "reads")
    return [told(one) async for one in job.waited.results(int)]


app.task("collects-loop")(collects_async)
app.task("collects-process", slots=2)(collects)
app.task("collects-thread", place="thread")(collects)


@app.task("waits-within", signals=True)
async def waits_within(job: windlass.Job[str, list[str]]) -> Any:
    """Waits for a signal or for a task that does not end, with a bound."""
    seen = [*(job.data or []), job.now().isoformat()]
    if len(seen) > 1:
        return [job.wait_expired, seen]
    bound = dt.timedelta(milliseconds=300)
    if job.props == "signal":
        return job.wait_for_signal("approve", within=bound, data=seen)
    job.submit("sees-loop", None, id=f"{job.id}-later", start_at=dt.timedelta(hours=1))
    return job.wait_for(within=bound if job.props == "task" else None, until=bound if job.props == "until" else None, data=seen)


@app.task("naps")
async def naps(job: windlass.Job[float, int]) -> Any:
    count = (job.data or 0) + 1
    return count if count == 3 else job.sleep(dt.timedelta(seconds=job.props), count)


@app.task("versions", data_version=2, migrate=lambda data, version: {"page": data})
async def versions(job: windlass.Job[Any, Cursor]) -> int:
    return job.data.page if job.data else -1


@app.task("stalls", stall_after=dt.timedelta(seconds=1), slots=2)
def stalls(job: windlass.Job[bool, Any]) -> str:
    for _ in range(30):
        time.sleep(0.1)
        if job.props:
            job.progress(0.5)
    return "not stalled"


@app.task("blocks")
async def blocks(job: windlass.Job[float, Any]) -> None:
    time.sleep(job.props)


@app.task("logs", slots=1)
def logs(job: windlass.Job[Any, Any]) -> None:
    for line in ("one", "two"):
        job.log(line)
    job.checkpoint(1)
    job.log("three")


class BadText(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


def returns(job: windlass.Job[str, Any]) -> Any:
    """Ends in a way that nothing can store."""
    if job.props == "recursive":
        endless: list[Any] = []
        endless.append(endless)
        return endless
    if job.props == "bad text":
        raise BadText
    if job.props == "surrogate":
        raise ValueError("caf\udce9")
    if job.props == "large":
        return "x" * 20_000_000
    if job.props == "forgotten":
        job.sleep(60)
    if job.props == "forked" and os.fork() == 0:
        raise ValueError("the child")
    time.sleep(0.2)
    return None


async def returns_async(job: windlass.Job[str, Any]) -> Any:
    return returns(job)


app.task("returns-loop")(returns_async)
app.task("returns-process", slots=2)(returns)
app.task("returns-thread", place="thread")(returns)
earlier: list[windlass.Job[Any, Any]] = []


@app.task("odd", slots=1)
def odd(job: windlass.Job[str, Any]) -> Any:
    if job.props == "log":
        job.log("caf\udce9")
        job.progress(0.5, "caf\udce9")
        job.log("x" * 10_000_000)
        return "logged"
    if job.props == "large":
        try:
            job.checkpoint("x" * 20_000_000)
        except windlass.Refused as why:
            return str(why)
    if job.props == "threads":
        with concurrent.futures.ThreadPoolExecutor(10) as pool:
            return len(list(pool.map(job.checkpoint, range(50))))
    if job.props == "keep":
        earlier.append(job)
        return "kept"
    if job.props == "later":
        errors = []
        for call in (lambda: earlier[0].checkpoint(1), lambda: earlier[0].log("x"), lambda: earlier[0].wait(1)):
            try:
                call()
            except RuntimeError as error:
                errors.append(str(error))
        return errors
    if job.props == "fork":
        child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
        child.start()
        child.terminate()
        child.join(10)
        return child.exitcode
    if job.props == "wait for nothing" and job.data is None:
        return job.wait_for(data=1)
    return job.sleep(0.05, 1) if job.props == "seconds" and job.data is None else "done"


@app.task("spins")
async def spins(job: windlass.Job[float, int]) -> int:
    """Makes checkpoints as fast as it can."""
    end, count = time.monotonic() + job.props, 0
    while time.monotonic() < end:
        count += 1
        await job.checkpoint(count)
    return count


def commands(job: windlass.Job[Any, Any]) -> None:
    """Starts a command that writes every 0.1 s, for ever."""
    loop = f"while true; do echo beat >> {FOLDER / job.id}; sleep 0.1; done"
    subprocess.run(["/bin/sh", "-c", loop], check=False)


app.task("commands-process", slots=2, interrupt=False, grace=GRACE)(commands)
app.task("commands-thread", place="thread", grace=GRACE)(commands)


@app.task("terminates")
def terminates(job: windlass.Job[Any, Any]) -> int:
    command = subprocess.Popen(["sleep", "60"])
    command.terminate()
    return command.wait(10)


if __name__ == "__main__":
    # Each process of handlers costs a third of a second: a test names the places that it needs.
    for kind, task in list(app.tasks.items()):
        if task.place not in os.environ.get("PLACES", "loop process thread"):
            del app.tasks[kind]
    app.run(reload="reload" in sys.argv)
