"""procrastinate on PostgreSQL."""

import asyncio
import os

import procrastinate
import psycopg

import handlers

SETTINGS = {
    "": "async handlers, PostgreSQL with fsync and synchronous_commit (the defaults), LISTEN and NOTIFY",
    "rate": "1 and 4 workers, --concurrency 100",
    "lateness": "1 worker, --concurrency 100",
    "kills": "1 worker, --concurrency 4; jobs of a lost worker stay with it, unless a program retries them (the default)",
}
app = procrastinate.App(
    connector=procrastinate.PsycopgConnector(conninfo=os.environ["PEER_URL"]), import_paths=["procrastinate_peer"]
)
connection: psycopg.Connection | None = None


@app.task(name="noop")
async def noop(number: int) -> None:
    pass


@app.task(name="late")
async def late(number: int) -> None:
    handlers.late(number)


@app.task(name="work")
async def work(number: int) -> None:
    handlers.begin(number)
    await asyncio.sleep(handlers.WORK)
    handlers.end(number)


def prepare() -> None:
    global connection
    app.open()
    app.schema_manager.apply_schema()
    connection = psycopg.connect(os.environ["PEER_URL"], autocommit=True)


def submit(kind: str, number: int) -> None:
    app.tasks[kind].defer(number=number)


def submit_all(kind: str, count: int) -> None:
    app.tasks[kind].batch_defer(*({"number": number} for number in range(count)))


def left() -> int:
    assert connection is not None
    row = connection.execute("SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')").fetchone()
    return row[0] if row else 0


def workers(processes: int) -> list[list[str]]:
    job = os.environ["PEER_JOB"]
    at_once = "4" if job == "kills" else "100"
    command = ["-m", "procrastinate", "--app", "procrastinate_peer.app", "worker", "--concurrency", at_once]
    return [command] * (processes if job == "rate" else 1)
