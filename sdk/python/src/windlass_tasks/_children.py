"""A process of handlers as the worker's process sees it, and the runs that it has there."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import itertools
import json
import logging
import multiprocessing
import os
import signal
import socket
import subprocess
from typing import Any

from . import _process
from ._forms import Json
from ._frames import frames
from ._run import clock
from ._task import Place, Task

logger = logging.getLogger("windlass_tasks")
_context = multiprocessing.get_context("spawn")
_SLOW = 10.0
"""How long a function of `on_process_start` may take before the log names it, in seconds."""
_keys = itertools.count(1)


class Run:
    """A run of a claim in this worker: what is held."""

    def __init__(self, claim: Json, task: Task[Any, Any], lines: int) -> None:
        self.claim, self.task, self.key = claim, task, next(_keys)
        self.phase, self.is_lost, self.stop_at = "running", False, 0.0
        self.is_stopped = False
        """Whether a server has asked for its end."""
        self.n, self.lines, self.items = claim["n"], lines, 0
        self.log, self.log_bytes = collections.deque[Any](), 0
        """The lines of the log that wait for a server, oldest first."""
        self.seen = self.took = max((one["order"] for one in claim.get("signals") or ()), default=0)
        self.sign = clock()
        self.host: Host | None = None
        self.name_text = f'"id":{json.dumps(claim["id"])},"fence":{claim["fence"]},"run":{claim["run"]}'

    def held(self) -> Json:
        """The run as an exchange has it."""
        claim = self.claim
        return {"id": claim["id"], "fence": claim["fence"], "run": claim["run"], "phase": self.phase, "took": self.took}

    def signalled(self, sent: Json) -> None:
        """Passes a signal on, once."""
        if sent["order"] > self.seen:
            self.seen = sent["order"]
            if self.host is not None:
                self.host.send([["signal", self.key, json.dumps(sent, ensure_ascii=False)]])
            else:
                self.claim.setdefault("signals", []).append(sent)


class Host:
    """A process in which handlers run."""

    def __init__(self, place: Place, where: dict[str, tuple[str, str]], known: frozenset[str]) -> None:
        self.place: Place = place
        self.had, self.is_full = 0, False
        """How many runs have ended there, and whether it takes no more."""
        self.hook = ""
        """The function of the app that its start is in, of `on_process_start`."""
        self.hook_at, self.warn_at = 0.0, 0.0
        """When that was called, and when the log names it."""
        self.runs, self.is_ready, self.is_used = dict[int, Run](), False, False
        self.aborted: dict[int, str | None] = {}
        """Runs that the worker has aborted, with the error that is reported for them."""
        self.killed, self.is_over = False, False
        self.fault = ""
        """Why its process was ended although nothing has stopped its runs."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self.link = ours
        self.process = _context.Process(target=_process.main, args=(theirs, where, place, known), name=f"windlass-{place}")
        try:
            self.process.start()
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        self.out: list[Any] = []
        self.writer: asyncio.StreamWriter | None = None

    def send(self, messages: list[Any]) -> None:
        """Sends messages, together with all others of this turn of the loop."""
        if not self.out:
            asyncio.get_running_loop().call_soon(self.flush)
        self.out += messages

    def flush(self) -> None:
        """Writes what waits, once the process has shown that its handlers are those of the worker."""
        if self.writer is not None and self.is_ready and self.out:
            self.writer.write(frames(self.out))
            self.out = []

    def calls(self, hook: str) -> None:
        """The process calls a function of `on_process_start`."""
        self.hook, self.hook_at, self.warn_at = hook, clock(), clock() + _SLOW

    def look_at_start(self, stall: float) -> None:
        """Names a function of `on_process_start` that takes long, and ends the process when that has taken `stall` seconds."""
        if self.is_ready or not self.hook or self.fault or self.killed:
            return
        now = clock()
        took = now - self.hook_at
        if took > stall:
            self.fault = f"has stalled at its start: on_process_start: {self.hook} has not ended in {stall:g} s"
            self.process.kill()
        elif now >= self.warn_at:
            logger.warning("on_process_start: %s has not ended in %.0f s: its process runs no handler meanwhile", self.hook, took)
            self.warn_at = now + took

    def kill(self) -> None:
        self.killed = True
        self.process.kill()
        self.kill_group()

    def kill_group(self) -> None:
        """Ends the commands that the handlers have started."""
        if self.process.pid:  # The group 0 is our own.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)


class Guard:
    """A shell that ends the processes of the handlers, with their commands, when the worker's process is lost."""

    script = 'while read -r line; do groups=$line; done; for group in $groups; do kill -s KILL -- "-$group"; done 2>/dev/null'

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        command = ["/bin/sh", "-c", self.script]
        self.process = subprocess.Popen(
            command, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
        )

    def watch(self, hosts: set[Host]) -> None:
        line = " ".join(str(host.process.pid) for host in hosts) + "\n"
        try:
            self.tell(line)
        except OSError as error:
            logger.warning("the guard of the handlers has ended, and starts again: %s", error)
            with contextlib.suppress(OSError):
                self.start()
                self.tell(line)

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode())
