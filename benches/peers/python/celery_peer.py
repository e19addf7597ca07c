"""Celery on Redis."""

import os
import time

import celery
import redis

import handlers

SETTINGS = {
    "": "acks_late, results ignored, prefork, prefetch multiplier 4 (the default)",
    "rate": "--concurrency 1 and 4",
    "lateness": "--concurrency 4",
    "kills": "--concurrency 4; a job of a lost worker returns after the visibility timeout of 1 h (the default)",
}
app = celery.Celery("peer", broker=os.environ["PEER_URL"])
app.conf.update(task_acks_late=True, task_ignore_result=True, broker_connection_retry_on_startup=True)
connection = redis.Redis.from_url(os.environ["PEER_URL"])


@app.task
def noop(number: int) -> None:
    pass


@app.task
def late(sent: int) -> None:
    handlers.late(sent)


@app.task
def work(number: int) -> None:
    handlers.begin(number)
    time.sleep(handlers.WORK)
    handlers.end(number)


def submit(kind: str, number: int) -> None:
    app.tasks[f"celery_peer.{kind}"].delay(number)


def submit_all(kind: str, count: int) -> None:
    for number in range(count):
        submit(kind, number)


def left() -> int:
    return connection.llen("celery") + connection.hlen("unacked")


def workers(processes: int) -> list[list[str]]:
    return [["-m", "celery", "-A", "celery_peer", "worker", "-l", "WARNING", "--concurrency", str(processes)]]
