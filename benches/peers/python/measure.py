"""Measures one system once: `measure.py PEER JOB MODE WORKERS COUNT`, with PEER_FOLDER as an empty folder.

Starts the server and the workers, prints the figures as a line of JSON, and ends all processes that it has started."""

import importlib
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import handlers
import servers

LIMIT = 120.0
"""Seconds that the jobs of a killed worker are waited for."""
RATE, SECONDS = 50, 10
"""Submits a second of `lateness`, and for how long."""
KILLED_AFTER = 300
"""Started handlers after which a worker is killed, as soon as a handler is at work."""
FOLDER = Path(os.environ["PEER_FOLDER"])
SERVERS = {
    "windlass": "windlass",
    "celery": "redis",
    "rq": "redis",
    "dramatiq": "redis",
    "huey": "sqlite",
    "procrastinate": "postgresql",
}
Processes = list[subprocess.Popen[bytes]]


def main() -> None:
    name, job, mode, workers, count = sys.argv[1:]
    os.environ["PEER_JOB"], os.environ["PEER_MODE"] = job, mode
    at_work: Processes = []
    server = servers.start(SERVERS[name], FOLDER)
    try:
        peer = importlib.import_module(f"{name}_peer")
        if hasattr(peer, "prepare"):
            peer.prepare()
        figures = {"rate": rate, "lateness": lateness, "kills": kills, "pauses": pauses}[job]
        print(json.dumps(figures(peer, at_work, int(workers), int(count))))
    finally:
        for worker in at_work:
            kill(worker)
        servers.stop(server)


def start(peer: Any, processes: int, at_work: Processes) -> None:
    for command in peer.workers(processes):
        log = open(FOLDER / "worker.log", "a")
        at_work.append(subprocess.Popen([sys.executable, *command], stdout=log, stderr=log))


def kill(worker: subprocess.Popen[bytes]) -> None:
    """Kills a worker and all processes below it, whatever their groups are."""
    family = [worker.pid]
    for process in family:
        try:
            os.kill(process, signal.SIGSTOP)  # It starts no more processes while they are listed.
            for thread in os.listdir(f"/proc/{process}/task"):
                family += map(int, Path(f"/proc/{process}/task/{thread}/children").read_text().split())
        except OSError:
            continue  # It has ended.
    for process in family:
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            pass
    worker.wait()


def until(what: str, holds: Callable[[], bool], limit: float, pause: float = 0.02) -> None:
    over = time.monotonic() + limit
    while not holds():
        if time.monotonic() > over:
            raise TimeoutError(f"{what}: not within {limit:g} s")
        time.sleep(pause)


def rate(peer: Any, at_work: Processes, workers: int, count: int) -> dict[str, Any]:
    """No-ops a second, for the second half of those that were submitted before the workers started."""
    begun = time.monotonic()
    peer.submit_all("noop", count)
    submitted = time.monotonic() - begun
    start(peer, workers, at_work)
    left = count
    begun = 0.0
    until_ended = time.monotonic() + LIMIT
    first = 0
    while left:
        left = peer.left()
        if not begun and left <= count / 2:
            begun, first = time.monotonic(), left
        if time.monotonic() > until_ended:
            raise TimeoutError(f"{left} of {count} no-ops are left after {LIMIT:g} s")
        time.sleep(0.02)
    return {"rate": first / (time.monotonic() - begun), "submitted": count / submitted}


def lateness(peer: Any, at_work: Processes, workers: int, count: int) -> dict[str, Any]:
    """The time from the call of submit to the start of the handler, at a steady low rate."""
    start(peer, workers, at_work)
    peer.submit("late", time.monotonic_ns())
    until("the first job", lambda: len(handlers.lines("late")) == 1, 60)
    time.sleep(2)
    begun = time.monotonic()
    for number in range(RATE * SECONDS):
        time.sleep(max(0.0, begun + number / RATE - time.monotonic()))
        peer.submit("late", time.monotonic_ns())
    until("the last job", lambda: len(handlers.lines("late")) == RATE * SECONDS + 1, 60)
    return percentiles([float(one) for one in handlers.lines("late")[1:]])


def percentiles(values: list[float]) -> dict[str, Any]:
    values = sorted(values)
    return {"p50": values[len(values) // 2], "p99": values[math.ceil(len(values) * 0.99) - 1], "most": values[-1]}


def kills(peer: Any, at_work: Processes, workers: int, count: int) -> dict[str, Any]:
    """Kills the workers, starts new ones at once, and waits until each job has ended."""
    peer.submit_all("work", count)
    start(peer, workers, at_work)

    def is_at_work() -> bool:
        begun = len(handlers.lines("begun"))
        return begun >= KILLED_AFTER and begun > len(handlers.lines("ended"))

    until("the first jobs", is_at_work, 120, 0.002)
    killed = time.monotonic()
    while at_work:
        kill(at_work.pop())
    start(peer, workers, at_work)
    try:
        until("all jobs", lambda: len(set(handlers.lines("ended"))) == count, killed + LIMIT - time.monotonic())
        seconds = time.monotonic() - killed
    except TimeoutError:
        seconds = float("inf")
    starts = Counter(handlers.lines("begun"))
    return {
        "seconds": seconds,
        "doubled": sum(number - 1 for number in starts.values()),
        "unfinished": count - len(set(handlers.lines("ended"))),
    }


def pauses(peer: Any, at_work: Processes, workers: int, count: int) -> dict[str, Any]:
    """The time from the call of pause until the handler has ended."""
    start(peer, workers, at_work)
    times = []
    for number in range(count + 1):
        task = peer.submit("loop", number)
        until("a start", lambda: len(handlers.lines("begun")) == number + 1, 30, 0.005)
        time.sleep(0.05)
        called = time.monotonic_ns()
        peer.client.pause(task)
        until("a stop", lambda: len(handlers.lines("stopped")) == number + 1, 30, 0.005)
        times.append((int(handlers.lines("stopped")[-1]) - called) / 1e6)
    return percentiles(times[1:])


if __name__ == "__main__":
    main()
