"""What the handlers of each system do, and the files in which they record it."""

import functools
import os
import time

WORK = 0.05
"""Seconds that a job of `kills` takes."""


@functools.cache
def _file(name: str) -> int:
    return os.open(os.path.join(os.environ["PEER_FOLDER"], name), os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def record(name: str, text: str) -> None:
    """Appends a line by one call, so that a kill loses no line."""
    os.write(_file(name), f"{text}\n".encode())


def lines(name: str) -> list[str]:
    path = os.path.join(os.environ["PEER_FOLDER"], name)
    return open(path).read().split() if os.path.exists(path) else []


def late(sent: int) -> None:
    """Records how long ago the submit was called, in ms."""
    record("late", f"{(time.monotonic_ns() - sent) / 1e6:.3f}")


def begin(number: int) -> None:
    record("begun", str(number))


def end(number: int) -> None:
    record("ended", str(number))
