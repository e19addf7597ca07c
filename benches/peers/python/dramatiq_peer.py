"""dramatiq on Redis."""

import os
import time

import dramatiq
import redis
from dramatiq.brokers.redis import RedisBroker

import handlers

SETTINGS = {
    "": "its default middleware",
    "rate": "1 and 4 processes of 8 threads (the default)",
    "lateness": "1 process of 8 threads",
    "kills": "1 process of 4 threads; a worker is lost after 60 s without a heartbeat (the default)",
}
dramatiq.set_broker(RedisBroker(url=os.environ["PEER_URL"]))
connection = redis.Redis.from_url(os.environ["PEER_URL"])


@dramatiq.actor
def noop(number: int) -> None:
    pass


@dramatiq.actor
def late(sent: int) -> None:
    handlers.late(sent)


@dramatiq.actor
def work(number: int) -> None:
    handlers.begin(number)
    time.sleep(handlers.WORK)
    handlers.end(number)


def submit(kind: str, number: int) -> None:
    globals()[kind].send(number)


def submit_all(kind: str, count: int) -> None:
    for number in range(count):
        submit(kind, number)


def left() -> int:
    return connection.hlen("dramatiq:default.msgs")


def workers(processes: int) -> list[list[str]]:
    is_rate = os.environ["PEER_JOB"] == "rate"
    threads, processes = (4, 1) if os.environ["PEER_JOB"] == "kills" else (8, processes if is_rate else 1)
    return [["-m", "dramatiq", "dramatiq_peer", "--processes", str(processes), "--threads", str(threads)]]
