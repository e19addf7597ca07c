"""The processes of the handlers, as the worker's process sees them."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
import multiprocessing
import os
import signal
import socket
import struct
import subprocess
from typing import Any, Protocol

from . import _host
from ._host import clock, frame
from ._job import Json
from ._task import Offer, Task

logger = logging.getLogger("windlass_tasks")
_context = multiprocessing.get_context("spawn")
_keys = itertools.count(1)
_LAST_WORDS = 1.0
"""How long an aborted `async def` or thread has to end before its process is killed, in seconds."""


class Refusal(Exception):
    """The worker cannot go on: its token is not valid, a request is wrong, or its handlers cannot be imported."""


class Reports(Protocol):
    """Where what the handlers do is reported."""

    closing: bool
    idle: asyncio.Event

    def add(self, run: Run, what: str, text: str, ticket: int = 0, took: int = 0) -> None: ...


class Run:
    """A run of a claim in this worker: what is held."""

    def __init__(self, claim: Json, task: Task[Any, Any], lines: int) -> None:
        self.claim, self.task, self.key = claim, task, next(_keys)
        self.phase, self.is_lost, self.stop_at = "running", False, 0.0
        self.is_stopped = False
        """Whether a server has asked for its end."""
        self.n, self.lines, self.waiting_lines, self.items = claim["n"], lines, 0, 0
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

    def __init__(self, place: str, where: dict[str, tuple[str, str]]) -> None:
        self.place, self.runs, self.is_ready, self.is_used = place, dict[int, Run](), False, False
        self.aborted: dict[int, str | None] = {}
        """Runs that the worker has aborted, with the error that is reported for them."""
        self.killed = False
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self.link = ours
        self.process = _context.Process(target=_host.main, args=(theirs, where, place), name=f"windlass-{place}")
        self.process.start()
        theirs.close()
        self.out: list[Any] = []
        self.writer: asyncio.StreamWriter | None = None

    def send(self, messages: list[Any]) -> None:
        """Sends messages, together with all others of this turn of the loop."""
        if not self.out:
            asyncio.get_running_loop().call_soon(self.flush)
        self.out += messages

    def flush(self) -> None:
        if self.writer is not None and self.out:
            self.writer.write(frame(self.out))
            self.out = []

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
        command = ["/bin/sh", "-c", self.script]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)

    def watch(self, hosts: set[Host]) -> None:
        assert self.process.stdin is not None
        line = " ".join(str(host.process.pid) for host in hosts) + "\n"
        self.process.stdin.write(line.encode())
        self.process.stdin.flush()


class Hosts:
    """All processes of handlers: one for each busy `def` handler, one for all threads, one for the event loop."""

    def __init__(self, app: Offer, worker: Reports) -> None:
        self.app, self.worker = app, worker
        self.hosts: set[Host] = set()
        self.guard = Guard()
        self.queue: list[Run] = []
        self.pause = 0.1
        self.until = float("inf")
        self.where = {task.kind: (task.__module__, task.__qualname__) for task in app.tasks.values()}
        self.tasks: set[asyncio.Task[None]] = set()
        places = {task.place for task in app.tasks.values()}
        self.most = dict.fromkeys(places, 1)
        if "process" in places:
            slots = sum(task.slots for task in app.tasks.values() if task.place == "process")
            self.most["process"] = min(slots, app.processes or slots)

    async def start(self) -> None:
        """Starts the first process of each place, and waits until it has imported the handlers."""
        for place in self.most:
            host = self.open(place)
            while not host.is_ready:
                if host.process.exitcode is not None:
                    raise Refusal(f"the process of the handlers ended with exit code {host.process.exitcode}: see above")
                await asyncio.sleep(0.01)

    def open(self, place: str) -> Host:
        where = {kind: at for kind, at in self.where.items() if self.app.tasks[kind].place == place}
        host = Host(place, where)
        self.hosts.add(host)
        self.guard.watch(self.hosts)
        task = asyncio.ensure_future(self.follow(host))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return host

    def assign(self, run: Run) -> None:
        """Gives a run to a process, which is started if there is none."""
        place = run.task.place
        free = [host for host in self.hosts if host.place == place and not host.killed]
        if place == "process":
            free = [host for host in free if not host.runs]
        if free:
            host = max(free, key=lambda host: host.is_ready)
        elif sum(host.place == place for host in self.hosts) < self.most[place]:
            host = self.open(place)
        else:
            self.queue.append(run)  # Until a process that is being replaced has ended.
            return
        run.host, host.runs[run.key], run.sign = host, run, clock()
        # As a text: a process that cannot read it fails this run, and reads the other messages.
        name = {field: run.claim[field] for field in ("id", "fence", "run", "kind")}
        host.send([["start", run.key, name, json.dumps(run.claim, ensure_ascii=False)]])

    def send(self, run: Run, message: Any) -> None:
        if run.host is not None:
            run.host.send([message])

    def renew(self, until: float) -> None:
        self.until = until
        for host in self.hosts:
            host.send([["until", until]])

    def stop(self, run: Run, stop: Json) -> None:
        if run.host is None:
            self.queue.remove(run)
            self.worker.add(run, "return", json.dumps(stop.get("command") or {"message": "release"}), took=stop.get("order") or 0)
            return
        run.host.is_used = run.host.is_used or run.task.interrupt
        run.took = max(run.took, stop.get("order") or 0)
        run.host.send([["stop", run.key, {**stop, "interrupt": run.task.interrupt}]])

    def abort(self, run: Run, error: str | None = None) -> None:
        """Ends a handler for good. What is reported follows when it has ended: `error`, or that it was aborted."""
        host = run.host
        if host is None:
            if run in self.queue:
                self.queue.remove(run)
            self.worker.add(run, "aborted", "true")
        elif run.key in host.runs and run.key not in host.aborted:
            host.aborted[run.key] = error
            if host.place == "process":
                host.kill()
            else:
                host.send([["abort", run.key]])
                asyncio.get_running_loop().call_later(_LAST_WORDS, self.last_words, host, run.key)

    def last_words(self, host: Host, key: int) -> None:
        if key in host.runs and not host.killed:
            logger.warning("task %s: its handler does not end, and its process is killed", host.runs[key].claim["id"])
            host.kill()

    def kill_busy(self) -> None:
        for host in self.hosts:
            if host.runs:
                for key in host.runs:
                    host.aborted.setdefault(key, None)
                host.kill()

    def kill_all(self) -> None:
        for host in self.hosts:
            host.kill()
        for host in self.hosts:
            host.process.join(5)

    async def follow(self, host: Host) -> None:
        """Reads what the handlers of a process do, until it ends."""
        try:
            reader, host.writer = await asyncio.open_connection(sock=host.link)
            if self.until != float("inf"):
                host.send([["until", self.until]])
            host.flush()
            while True:
                (size,) = struct.unpack(">I", await reader.readexactly(4))
                for message in json.loads(await reader.readexactly(size)):
                    self.take(host, message)
        except (asyncio.IncompleteReadError, OSError):
            pass
        if host.writer is not None:
            host.writer.close()
        while host.process.exitcode is None:  # noqa: ASYNC110 (nothing sets an event at the end of a process)
            await asyncio.sleep(0.005)
        await self.ended(host)

    def take(self, host: Host, message: Any) -> None:
        name, *rest = message
        if name == "ready":
            host.is_ready, self.pause = True, 0.1
            return
        run = host.runs.get(rest[0])
        if run is None:
            return
        run.sign = clock()
        if name == "took":
            run.took = max(run.took, rest[1])
        elif name == "ask":
            _, ticket, what, text, took = rest
            run.took = max(run.took, took)
            self.worker.add(run, what, text, ticket, took)
        elif name == "tell":
            self.worker.add(run, rest[1], rest[2])
        elif name == "return":
            del host.runs[run.key]
            if run.key in host.aborted:
                self.report_abort(host, run)
            else:
                self.worker.add(run, "return", rest[1], took=rest[2])
            if host.place == "process" and host.is_used:
                host.killed = True  # An interrupted process may be left in any state: the next run gets a new one.
                host.send([["quit"]])
            self.next()

    def report_abort(self, host: Host, run: Run) -> None:
        error = host.aborted.pop(run.key)
        if error is None and self.worker.closing and not run.is_stopped:
            # No server has asked for the end of the run, so that it would start again.
            self.worker.add(run, "return", json.dumps({"message": "release"}))
        elif error is None:
            self.worker.add(run, "aborted", "true")
        else:
            self.worker.add(run, "return", json.dumps({"message": "error", "error": error}))

    async def ended(self, host: Host) -> None:
        """Reports the runs of a process that has ended."""
        self.hosts.discard(host)
        host.kill_group()
        self.guard.watch(self.hosts)
        code = host.process.exitcode or 0
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        if not host.killed:
            tasks = ", ".join(run.claim["id"] for run in host.runs.values())
            logger.error("a process of handlers %s; its tasks: %s", how, tasks or "none")
        for run in list(host.runs.values()):
            if run.key in host.aborted:
                self.report_abort(host, run)
            elif host.killed:  # Another run of the process did not end.
                self.worker.add(run, "return", json.dumps({"message": "release"}))
            else:
                error = {"message": "error", "error": f"the process of the handler {how}"}
                self.worker.add(run, "return", json.dumps(error))
        host.runs.clear()
        if not host.is_ready:
            await asyncio.sleep(self.pause)
            self.pause = min(self.pause * 2, 10.0)
        self.next()
        self.worker.idle.set()

    def next(self) -> None:
        """Gives waiting runs to processes."""
        queue, self.queue = self.queue, []
        for at, run in enumerate(queue):
            self.assign(run)
            if self.queue:  # All processes are busy: one that waits for a process is of the place that has several.
                self.queue += queue[at + 1 :]
                break
