"""The processes of the handlers, as the worker's process sees them."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
from typing import Any, Protocol

from ._children import Guard, Host, Run
from ._forms import Json
from ._frames import HEAD, LARGEST, length, messages
from ._run import clock
from ._sources import Sources
from ._task import Offer, Place
from ._troubles import Refusal
from ._version import VERSION

logger = logging.getLogger("windlass_tasks")
_LAST_WORDS = 1.0
"""How long an aborted `async def` or thread has to end before its process is killed, in seconds."""
_LOOK = 0.2
"""How often a process is looked after whose connection says nothing, in seconds."""
_RELEASE = '{"message":"release"}'


class Reports(Protocol):
    """Where what the handlers do is reported."""

    closing: bool
    idle: asyncio.Event

    def add(self, run: Run, what: str, text: str, ticket: int = 0, took: int = 0) -> None: ...
    def read(self, run: Run, ticket: int, start: int) -> None: ...
    def end(self, code: int) -> None: ...
    def hurry(self) -> None: ...


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
        self.sources = Sources(task.__module__ for task in app.tasks.values())
        self.refused = ""
        """Why the last process was refused whose handlers were not those of the worker."""
        self.tasks: set[asyncio.Task[None]] = set()
        places: set[Place] = {task.place for task in app.tasks.values()}
        self.most: dict[Place, int] = dict.fromkeys(places, 1)
        self.reduced = set[Place]()
        """Places that go on with the processes that they have: no other can be started."""
        if "process" in places:
            slots = sum(task.slots for task in app.tasks.values() if task.place == "process")
            self.most["process"] = min(slots, app.processes or slots)

    async def start(self) -> None:
        """Starts the first process of each place, and waits until it has imported the handlers."""
        for place in self.most:
            host = self.open(place)
            while not host.is_ready:
                if self.refused:
                    raise Refusal(self.refused)
                if self.worker.closing:
                    return
                if host.process.exitcode is not None:
                    how = host.fault or f"ended with exit code {host.process.exitcode}: see above"
                    raise Refusal(f"the process of the handlers {how}")
                await asyncio.sleep(0.01)

    def open(self, place: Place) -> Host:
        where = {kind: at for kind, at in self.where.items() if self.app.tasks[kind].place == place}
        host = Host(place, where, self.sources.known())
        self.hosts.add(host)
        self.guard.watch(self.hosts)
        task = asyncio.ensure_future(self.follow(host))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return host

    def free(self, place: Place) -> list[Host]:
        """Returns the processes of a place that take a run now."""
        free = [host for host in self.hosts if host.place == place and not (host.killed or host.is_over or host.is_full)]
        return [host for host in free if not host.runs] if place == "process" else free

    def paused(self) -> list[str]:
        """Returns the kinds of which no run can begin here before another one ends: another worker may be free."""
        busy = {place for place in self.reduced if not self.free(place)}
        return sorted(kind for kind, task in self.app.tasks.items() if task.place in busy)

    def assign(self, run: Run) -> None:
        """Gives a run to a process, which is started if there is none."""
        place = run.task.place
        if free := self.free(place):
            host = max(free, key=lambda host: host.is_ready)
        # A process of many runs that is full ends with the last of them: the next one does not wait for that.
        elif sum(host.place == place and (place == "process" or not host.is_full) for host in self.hosts) < self.most[place]:
            try:
                host = self.open(place)
            except OSError as error:  # No process, no memory or no file is left.
                self.not_started(run, error)
                return
        elif place in self.reduced:
            self.worker.add(run, "return", _RELEASE)
            return
        else:
            self.queue.append(run)  # Until a process that is being replaced has ended.
            return
        run.host, host.runs[run.key], run.sign = host, run, clock()
        # As a text: a process that cannot read it fails this run, and reads the other messages.
        name = {field: run.claim[field] for field in ("id", "fence", "run", "kind")}
        host.send([["start", run.key, name, json.dumps(run.claim, ensure_ascii=False)]])
        if place in self.reduced:
            self.worker.hurry()

    def count_run(self, host: Host) -> None:
        """Counts a run that has ended: after `max_tasks` of them a process takes no more. Where no other process can be started,
        the process goes on.

        Counted at their beginnings, runs at the same time would each get a process of their own."""
        host.had += 1
        if self.app.max_tasks is None or host.had < self.app.max_tasks or host.place in self.reduced:
            return
        if changed := self.sources.changed():
            self.reduce(host.place, f"{changed} has changed since the worker began")
        else:
            host.is_full = True

    def look_at_start(self, host: Host) -> None:
        """Ends a process whose start has stalled: after the longest `stall_after` of its handlers, if each of them has one."""
        waits = [task.stall_after or float("inf") for task in self.app.tasks.values() if task.place == host.place]
        host.look_at_start(max(waits))

    def not_started(self, run: Run, error: OSError) -> None:
        """Passes a run on for which no process could be started. It costs no attempt."""
        why = f"no process could be started for the handler: {error}"
        if changed := self.sources.changed():
            self.worker.add(run, "return", _RELEASE)
            self.reduce(run.task.place, f"{why}; {changed} has changed since the worker began")
        else:
            logger.error("task %s: %s; the task is released in %g s", run.claim["id"], why, self.pause)
            self.release_later(run)
            self.pause = min(self.pause * 2, 10.0)

    def release_later(self, run: Run) -> None:
        """Releases a run after a pause, so that it does not come again at once."""
        run.host = None
        asyncio.get_running_loop().call_later(self.pause, self.worker.add, run, "return", _RELEASE)

    def send(self, run: Run, message: Any) -> None:
        if run.host is not None:
            run.host.send([message])

    def renew(self, until: float) -> None:
        self.until = until
        for host in self.hosts:
            host.send([["until", until]])

    def stop(self, run: Run, stop: Json) -> None:
        if run.host is None:
            if run in self.queue:
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
        """Reads what the handlers of a process do, until it ends. A process that cannot be followed any more is ended."""
        reading = asyncio.ensure_future(self.read(host))
        while not reading.done() and host.process.exitcode is None:
            await asyncio.wait([reading], timeout=_LOOK)
            self.look_at_start(host)
        host.is_over = True
        # What it has sent before its end. A process that it has left behind may hold the connection open.
        await asyncio.wait([reading], timeout=_LAST_WORDS)
        reading.cancel()
        await asyncio.wait([reading])
        if not reading.cancelled() and (fault := reading.exception()) is not None:
            host.fault = f"sent what cannot be read, as when a handler writes into files that it has not opened: {fault}"
            logger.error("what a process of handlers has sent cannot be read, and it is ended", exc_info=fault)
        if host.writer is not None:
            host.writer.close()
        end = clock() + _LAST_WORDS
        while host.process.exitcode is None:  # Nothing sets an event at the end of a process.
            if host.fault or clock() > end:
                host.process.kill()
            await asyncio.sleep(0.005)
        await self.ended(host)

    async def read(self, host: Host) -> None:
        """Takes what a process sends, until the connection ends."""
        try:
            reader, host.writer = await asyncio.open_connection(sock=host.link)
            if self.until != float("inf"):
                host.send([["until", self.until]])
            while True:
                size = length(await reader.readexactly(HEAD), LARGEST)
                for message in messages(await reader.readexactly(size)):
                    self.take(host, message)
        except (asyncio.IncompleteReadError, OSError):
            pass

    def refuse(self, host: Host, why: str) -> None:
        """Ends a process whose handlers are not those of the worker, and releases its runs. They cost no attempt."""
        host.kill()
        for run in list(host.runs.values()):
            if run.phase == "running" and run.key not in host.aborted:
                self.worker.add(run, "return", _RELEASE)
            else:
                host.aborted.setdefault(run.key, None)
                self.report_abort(host, run)
        host.runs.clear()
        self.reduce(host.place, why)

    def reduce(self, place: Place, why: str) -> None:
        """Goes on with the processes that a place has; without any, the worker ends. Waiting runs are released."""
        self.refused = f"{why}; restart the worker, so that its processes run the same code"
        logger.error("no further process of handlers is started: %s", self.refused)
        self.reduced.add(place)
        for host in self.hosts:
            if host.place == place:
                host.is_full = False
        waiting, self.queue = self.queue, []
        for run in waiting:
            if run.task.place == place:
                self.worker.add(run, "return", _RELEASE)
            else:
                self.queue.append(run)
        self.count(place)

    def count(self, place: Place) -> None:
        """Counts the processes that a reduced place still has."""
        left = sum(host.place == place and host.is_ready and not host.killed and not host.is_over for host in self.hosts)
        self.most[place] = left
        if left:
            self.worker.hurry()
        else:
            self.worker.end(1)

    def take(self, host: Host, message: Any) -> None:
        name, *rest = message
        if name == "ready":
            ours = {kind: task.data_version for kind, task in self.app.tasks.items() if task.place == host.place}
            if changed := self.sources.changed():
                self.refuse(host, f"{changed} has changed since the worker began")
            elif rest != [VERSION, ours]:
                self.refuse(host, f"its kinds and data versions are {rest[1]}, and those of the worker {ours}")
            else:
                host.is_ready, self.pause = True, 0.1
                for one in host.runs.values():
                    one.sign = clock()  # From now on its handler can show progress.
                host.flush()
            return
        if name == "hook":
            host.calls(rest[0])
            return
        if name == "differs":
            self.refuse(host, rest[0])
            return
        if name == "files":
            if (other := self.sources.add(rest[0])) and host.place not in self.reduced:
                self.reduce(host.place, f"{other} has changed since the worker began")
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
        elif name == "read":
            self.worker.read(run, rest[1], rest[2])
        elif name == "return":
            del host.runs[run.key]
            self.count_run(host)
            if run.key in host.aborted:
                self.report_abort(host, run)
            else:
                self.worker.add(run, "return", rest[1], took=rest[2])
            # An interrupted process may be left in any state, and one that is full has had its runs: the next gets a new one.
            if (host.place == "process" and host.is_used) or (host.is_full and not host.runs):
                host.killed = True
                host.send([["quit"]])
            self.next()
            if host.place in self.reduced:
                self.worker.hurry()

    def report_abort(self, host: Host, run: Run) -> None:
        error = host.aborted.pop(run.key)
        if error is None and self.worker.closing and not run.is_stopped:
            # No server has asked for the end of the run, so that it would start again.
            self.worker.add(run, "return", _RELEASE)
        elif error is None:
            self.worker.add(run, "aborted", "true")
        else:
            self.worker.add(run, "return", json.dumps({"message": "error", "error": error}))

    async def ended(self, host: Host) -> None:
        """Reports the runs of a process that has ended."""
        self.hosts.discard(host)
        host.kill_group()
        self.guard.watch(self.hosts)
        how = _how(host.process.exitcode or 0)
        if not host.is_ready and not host.killed and (changed := self.sources.changed()):
            self.refuse(host, f"{changed} has changed since the worker began")
        if not host.killed:
            tasks = ", ".join(run.claim["id"] for run in host.runs.values())
            logger.error("a process of handlers %s; its tasks: %s", host.fault or how, tasks or "none")
        for run in list(host.runs.values()):
            if run.key in host.aborted:
                self.report_abort(host, run)
            elif clock() >= self.until:  # The process has ended its handlers itself, because the lease was not renewed.
                host.aborted[run.key] = None
                self.report_abort(host, run)
            elif host.killed:  # Another run of the process did not end.
                self.worker.add(run, "return", _RELEASE)
            elif not host.is_ready:  # No handler has begun there.
                self.release_later(run)
            else:
                error = {"message": "error", "error": f"the process of the handler {host.fault or how}"}
                self.worker.add(run, "return", json.dumps(error))
        host.runs.clear()
        if host.place in self.reduced:
            self.count(host.place)
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


def _how(code: int) -> str:
    """Says how a process has ended."""
    if code >= 0:
        return f"ended with exit code {code}"
    name = next((one.name for one in signal.Signals if one == -code), f"signal {-code}")  # Some signals have no name.
    return f"was killed by {name}"
