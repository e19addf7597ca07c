"""rq on Redis."""

import os
import time

import redis
import rq

import handlers

SETTINGS = {
    "rate": "1 and 4 workers; `SimpleWorker`, and `Worker` (the default), which forks for each job",
    "lateness": "4 workers",
    "kills": "4 workers; a job of a lost worker is moved to the failed ones by a cleanup every 10 min (the defaults)",
}
connection = redis.Redis.from_url(os.environ["PEER_URL"])
queue = rq.Queue(connection=connection)


def noop(number: int) -> None:
    pass


def late(sent: int) -> None:
    handlers.late(sent)


def work(number: int) -> None:
    handlers.begin(number)
    time.sleep(handlers.WORK)
    handlers.end(number)


def submit(kind: str, number: int) -> None:
    queue.enqueue(f"rq_peer.{kind}", number)


def submit_all(kind: str, count: int) -> None:
    queue.enqueue_many([rq.Queue.prepare_data(f"rq_peer.{kind}", (number,)) for number in range(count)])


def left() -> int:
    return connection.llen("rq:queue:default") + connection.zcard("rq:wip:default")


def workers(processes: int) -> list[list[str]]:
    kind = "rq.worker.Worker" if os.environ["PEER_MODE"] == "fork" else "rq.worker.SimpleWorker"
    command = ["-m", "rq.cli", "worker", "-q", "--url", os.environ["PEER_URL"], "-w", kind]
    return [command] * processes
