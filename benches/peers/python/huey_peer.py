"""huey on SQLite."""

import os
import time

import huey

import handlers

SETTINGS = {
    "": "SQLite with fsync=True (synchronous FULL), WAL",
    "rate": "-k process, -w 1 and 4",
    "lateness": "-k process -w 4, polls with its default backoff from 0.1 s to 10 s",
    "kills": "-k process -w 4; a job is deleted when it is taken, before its handler starts",
}
app = huey.SqliteHuey("peer", filename=os.path.join(os.environ["PEER_FOLDER"], "huey.db"), fsync=True)


@app.task()
def noop(number: int) -> None:
    pass


@app.task()
def late(sent: int) -> None:
    handlers.late(sent)


@app.task()
def work(number: int) -> None:
    handlers.begin(number)
    time.sleep(handlers.WORK)
    handlers.end(number)


def submit(kind: str, number: int) -> None:
    globals()[kind](number)


def submit_all(kind: str, count: int) -> None:
    for number in range(count):
        submit(kind, number)


def left() -> int:
    return app.pending_count()


def workers(processes: int) -> list[list[str]]:
    return [["-m", "huey.bin.huey_consumer", "huey_peer.app", "-q", "-k", "process", "-w", str(processes)]]
