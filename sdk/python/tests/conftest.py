"""A server with a store of its own, and workers: processes that the tests start and end."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from windlass_tasks import Client

HERE = pathlib.Path(__file__).parent
SOURCE = str(HERE.parent / "src")
BOUND = 30.0
"""How long anything may take before a test says what it has waited for, in seconds."""


def until(what: str, look: Callable[[], Any], bound: float = BOUND) -> Any:
    """Waits until `look` returns something, and returns that."""
    end = time.monotonic() + bound
    while time.monotonic() < end:
        found = look()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"waited {bound:g} s for: {what}")


def program() -> str:
    """The program `windlass` under test."""
    found = os.environ.get("WINDLASS_BIN")
    if not found:
        raise AssertionError("WINDLASS_BIN is not set: it names the program windlass; `cargo xtask python` sets it")
    return found


def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


class Server:
    """A store on SQLite, and servers of it."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder, self.store = folder, f"sqlite:{folder}/jobs.db"
        self.ports, self.processes = [port(), port()], dict[int, subprocess.Popen[bytes]]()
        self.workers: list[subprocess.Popen[bytes]] = []
        self.start(0)
        self.token = self.new_token("tests", "admin")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.ports[0]}"

    @property
    def urls(self) -> str:
        return " ".join(f"http://127.0.0.1:{port}" for port in self.ports)

    def windlass(self, *arguments: str) -> str:
        command = [program(), "--store", self.store, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=BOUND, check=False)
        assert done.returncode == 0, f"{command} failed: {done.stderr}"
        return done.stdout

    def start(self, which: int) -> None:
        port = self.ports[which]
        own = ["--listen", f"127.0.0.1:{port}", "--socket", str(self.folder / f"s{which}" / "w.sock")]
        own += ["--advertise", f"http://127.0.0.1:{port}"]
        command = [program(), "--store", self.store, "serve", *own]
        with open(self.folder / f"server-{which}.log", "ab") as log:
            self.processes[which] = subprocess.Popen(command, stderr=log, stdout=log)

        def answers() -> bool:
            with socket.socket() as link:
                return link.connect_ex(("127.0.0.1", port)) == 0

        until(f"server {which} listens", answers)

    def kill(self, which: int) -> None:
        self.processes[which].kill()
        self.processes.pop(which).wait()

    def new_token(self, name: str, role: str, *more: str) -> str:
        found = re.search(r"wlt_\w+", self.windlass("token", "new", name, "--role", role, *more))
        assert found
        return found.group()

    def client(self, **more: Any) -> Client:
        return Client(self.url, self.token, **more)

    def work(self, file: str = "handlers.py", *arguments: str, urls: str | None = None, **env: str) -> subprocess.Popen[bytes]:
        """Starts a worker: a program of this folder, or a path."""
        env = {
            **os.environ, "PYTHONPATH": SOURCE, "WINDLASS_URL": urls or self.url, "WINDLASS_TOKEN": self.token,
            "FOLDER": str(self.folder), **env,
        }  # fmt: skip
        command = [sys.executable, str(HERE / file), *arguments]
        with open(self.folder / f"worker-{len(self.workers)}.log", "ab") as log:
            worker = subprocess.Popen(command, env=env, stdout=log, stderr=log, start_new_session=True)
        self.workers.append(worker)
        return worker

    def log(self, which: int = -1) -> str:
        which = which if which >= 0 else len(self.workers) - 1
        return (self.folder / f"worker-{which}.log").read_text()

    def ready(self, which: int = -1) -> None:
        until("the worker has registered", lambda: "registered" in self.log(which) or self.fails(which))

    def fails(self, which: int) -> bool:
        worker = self.workers[which]
        assert worker.poll() is None, f"the worker has ended with {worker.returncode}: {self.log(which)}"
        return False

    def close(self) -> None:
        for worker in self.workers:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(worker.pid, signal.SIGKILL)
            worker.wait()
        for which in list(self.processes):
            self.kill(which)


@pytest.fixture
def server(tmp_path: pathlib.Path) -> Iterator[Server]:
    """A server on a new store, without a worker."""
    made = Server(tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with a worker of `handlers.py`, for tests that end neither."""
    made = Server(tmp_path_factory.mktemp("shared"))
    made.work()
    made.ready()
    yield made
    made.close()
