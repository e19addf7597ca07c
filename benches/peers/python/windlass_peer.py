"""windlass on SQLite. The mode is where handlers run: `async` (an event loop), `def` (a process each) or `thread`."""

import asyncio
import os
import time

import windlass_tasks as windlass

import handlers

SETTINGS = {
    "": "one server on SQLite with synchronous FULL",
    "rate": "1 and 4 workers; async def with 500 slots a worker, def in threads with 100, def in processes with 4 slots in all",
    "lateness": "1 worker; async def with 500 slots, def in threads with 100, in processes with 4",
    "kills": "1 worker with 4 slots, TTL 15 s (the default is 45 s)",
    "pauses": "1 worker; the handlers sleep 10 ms in a loop",
}
JOB, MODE = os.environ["PEER_JOB"], os.environ["PEER_MODE"]
IS_ASYNC = MODE == "async"
SLOTS = int(os.environ.get("PEER_SLOTS", "4"))
app = windlass.App(ttl=15 if JOB == "kills" else 45)


async def noop_async(job: windlass.Job[int, None]) -> None:
    pass


def noop_def(job: windlass.Job[int, None]) -> None:
    pass


async def late_async(job: windlass.Job[int, None]) -> None:
    handlers.late(job.props)


def late_def(job: windlass.Job[int, None]) -> None:
    handlers.late(job.props)


async def work_async(job: windlass.Job[int, None]) -> None:
    handlers.begin(job.props)
    await asyncio.sleep(handlers.WORK)
    handlers.end(job.props)


def work_def(job: windlass.Job[int, None]) -> None:
    handlers.begin(job.props)
    time.sleep(handlers.WORK)
    handlers.end(job.props)


async def loop_async(job: windlass.Job[int, None]) -> None:
    try:
        handlers.begin(job.props)
        while True:
            await asyncio.sleep(0.01)
    finally:
        handlers.record("stopped", str(time.monotonic_ns()))


def loop_def(job: windlass.Job[int, None]) -> None:
    try:
        handlers.begin(job.props)
        while True:
            time.sleep(0.01)
    finally:
        handlers.record("stopped", str(time.monotonic_ns()))


KINDS = {"rate": "noop", "lateness": "late", "kills": "work", "pauses": "loop"}
KIND = KINDS[JOB]
handler = globals()[f"{KIND}_{'async' if IS_ASYNC else 'def'}"]
task = app.task(KIND, slots=SLOTS, place="thread" if MODE == "thread" else None)(handler)
client = windlass.Client()


def submit(kind: str, number: int) -> str:
    return client.submit(kind, number)["id"]


def submit_all(kind: str, count: int) -> None:
    client.submit_many(task.new(number) for number in range(count))


def left() -> int:
    live = (row for row in client.counts()["counts"] if row["state"] not in ("completed", "failed", "killed"))
    return sum(row["tasks"] for row in live)


def workers(processes: int) -> list[list[str]]:
    many = {"async": 500, "thread": 100, "def": 4 // (processes if JOB == "rate" else 1)}
    os.environ["PEER_SLOTS"] = str(many[MODE] if JOB in ("rate", "lateness") else 4)
    return [["windlass_peer.py"]] * (processes if JOB == "rate" else 1)


if __name__ == "__main__":
    app.run()
