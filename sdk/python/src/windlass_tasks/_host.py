"""The process in which handlers run. It gets runs from the worker's process, and tells it what they did."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import ctypes
import importlib
import inspect
import io
import itertools
import json
import logging
import os
import queue
import select
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Awaitable
from typing import Any

from . import _token, _trace
from ._awaits import NAMES, Awaits, inside
from ._forms import Json
from ._frames import HEAD, LARGEST_CLAIMS, LARGEST_TEXT, frames, length, messages
from ._job import Done, Job, Next, Refused, Stop, _current
from ._log import TaskLog
from ._sources import Loaded
from ._task import Task, is_stop, made, make_job, outcome
from ._version import VERSION

logger = logging.getLogger("windlass_tasks")
_LEFT = 70
"""The exit code when the worker's process is lost, or the time of its lease is over."""
_BLOCKED = 1.0
_LINE = 4096
"""The most bytes of a line of the log."""


def clock() -> float:
    """A clock that also runs while the machine sleeps, where there is one."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def sound(text: str) -> str:
    """Returns a text that every JSON reader takes: without half characters, as in names of files that are not UTF-8."""
    return str(text)[:16_384].encode("utf-8", "replace").decode()


_ENDS = (signal.SIGINT, signal.SIGTERM)


def _forks() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDS)  # A signal that comes at once waits until the child takes it.


def _has_forked() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDS)


def _forked(link: socket.socket) -> None:
    """The children of a handler end by signals, as those of any program, and leave the connection to the worker alone."""
    link.close()
    if threading.current_thread() is threading.main_thread():
        for number in _ENDS:
            signal.signal(number, signal.SIG_DFL)
    _has_forked()


def main(link: socket.socket, where: dict[str, tuple[str, str]], place: str, known: frozenset[str]) -> None:
    """Runs handlers until the worker's process ends. `where` has the module and the name of each kind's handler, and `known`
    the source files of which the worker knows the content."""
    os.setpgid(0, 0)  # The commands that handlers start end with them.
    _keep_files()
    for number in _ENDS:
        signal.signal(number, lambda *_: None)  # The worker decides. An ignored signal would be ignored by commands, too.
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True)  # What a handler prints is not lost when its process is killed.
    if not logging.getLogger().handlers:
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    tasks: dict[str, Task[Any, Any]] = {}
    for kind, (module, name) in where.items():
        importlib.import_module(module)
        found = made.get((kind, module.replace("__main__", "__mp_main__"), name))
        if found is None:
            differs = f"importing {module} does not make {name} the handler of {kind}: decorate it in a module"
            link.sendall(frames([["differs", differs]]))
            raise SystemExit(f"windlass: {differs}")
        tasks[kind] = found
    _token.keep()
    {"process": ProcessHost, "thread": ThreadHost, "loop": LoopHost}[place](link, tasks, known).serve()


def _keep_files() -> None:
    """Keeps the files that the worker has opened for this process from the commands of handlers."""
    for name in os.listdir("/dev/fd"):
        if name.isdecimal() and int(name) > 2:
            with contextlib.suppress(OSError):
                os.set_inheritable(int(name), False)


def readable(text: str, instead: Json) -> Json:
    """Returns what the worker's process has sent as a text; `instead`, with the reason, if this process cannot read it."""
    try:
        return dict(json.loads(text))
    except (ValueError, RecursionError) as error:
        return {**instead, "unreadable": f"{type(error).__name__}: {error}"}


class Run:
    """A run in this process: the port of its job."""

    def __init__(self, host: Host, key: int, task: Task[Any, Any], claim: Json) -> None:
        self.host, self.key, self.task, self.claim = host, key, task, claim
        self.job: Job[Any, Any] | None = None
        self.stop: Stop | None = None
        self.order = max((signal["order"] for signal in claim.get("signals") or []), default=0)
        self.changed = threading.Condition()
        self.answers: dict[int, Any] = {}
        self.fresh = False
        """Whether a signal has come that neither `signals` nor the end of a `wait` has shown to the handler."""
        self.tickets = itertools.count(1)
        self.is_over = False
        self.unreadable: Exception | None = None
        """Why a signal that has come cannot be read: it fails the run."""

    # The port

    def check(self) -> None:
        if self.is_over:
            raise RuntimeError(f"the run of task {self.claim['id']} has ended: its job can do nothing more")
        self.check_process()

    def check_process(self) -> None:
        if os.getpid() != self.host.pid:
            raise RuntimeError(f"the job of task {self.claim['id']} belongs to the process that has forked: use it there")

    def tell(self, what: str, value: Any) -> None:
        self.check()
        if what == "log":
            value = sound(value)[: _LINE + 1]  # The server marks a line that has more bytes than it keeps.
        elif "text" in value:
            value["text"] = sound(value["text"])
        self.host.send(["tell", self.key, what, json.dumps(value)])

    def took(self, order: int) -> None:
        self.check_process()
        self.fresh = False
        if order > self.order:
            self.order = order
            self.host.send(["took", self.key, order])

    def ask(self, what: str, value: Any) -> Awaitable[None]:
        ticket = self._ask(what, value)
        with self.changed:
            self.changed.wait_for(lambda: ticket in self.answers)
            error = self.answers.pop(ticket)
        self._answered(error)
        return Done()

    def wait(self, seconds: float | None) -> Awaitable[None]:
        self.check()
        with self.changed:
            self.changed.wait_for(lambda: self.stop or self.fresh, seconds)
        self._waited()
        return Done()

    def clock(self) -> float:
        return clock()

    def read(self, start: int) -> Json:
        ticket = self._read(start)
        with self.changed:
            self.changed.wait_for(lambda: self.stop or ticket in self.answers)
            answer = self.answers.pop(ticket, None)
        self._look()
        return _page(answer)

    async def read_later(self, start: int) -> Json:
        return self.read(start)

    def _read(self, start: int) -> int:
        self.check()
        ticket = next(self.tickets)
        self.host.send(["read", self.key, ticket, start])
        return ticket

    def _ask(self, what: str, value: Any) -> int:
        self.check()
        text = json.dumps(value, allow_nan=False)
        if len(text) > LARGEST_TEXT:
            raise Refused(_too_large(text))
        ticket = next(self.tickets)
        self.host.send(["ask", self.key, ticket, what, text, self.order])
        return ticket

    def _answered(self, error: str | None) -> None:
        if error is not None:
            raise Refused(error)
        self._look()

    def _waited(self) -> None:
        self.fresh = False
        self._look()

    def _look(self) -> None:
        if self.stop is not None:
            raise self.stop
        if self.unreadable is not None:
            raise self.unreadable

    # What comes

    def stopped(self, stop: Json) -> None:
        self.stop = Stop(stop["reason"], stop.get("command"))
        self.order = max(self.order, stop.get("order") or 0)
        if self.job is not None:
            self.job.stopping = self.stop
        self.wake()

    def signalled(self, sent: Json) -> None:
        if self.job is None:
            self.claim.setdefault("signals", []).append(sent)
        else:
            try:
                self.job._receive(sent)
            except Exception as error:
                self.unreadable = error
        self.fresh = True
        self.wake()

    def answered(self, ticket: int, answer: Any) -> None:
        self.answers[ticket] = answer
        self.wake()

    def wake(self) -> None:
        with self.changed:
            self.changed.notify_all()

    # Its life

    def made(self) -> Job[Any, Any]:
        self.job = make_job(self.task, self.claim, self)
        self.job.stopping = self.stop
        _current.set(self.job)
        if self.stop is not None:
            raise self.stop
        return self.job

    def handled(self, job: Job[Any, Any]) -> Any:
        with _trace.run(job) as span:
            returned = self.task.handler(job)
            self._mark(span, returned)
            return returned

    def _mark(self, span: _trace.Span, returned: Any) -> None:
        if isinstance(returned, Next) and returned.message["message"] == "error":
            span.failed(returned.message["error"])

    def call(self) -> None:
        """Runs a `def` handler, and sends what follows."""
        returned, error = None, None
        try:
            returned = self.host.user(self)
        except BaseException as raised:
            error = raised
        if os.getpid() != self.host.pid:  # The handler has forked: the child says nothing of the task.
            os._exit(0 if error is None else 1)
        self.ended(returned, error)

    def ended(self, returned: Any, error: BaseException | None) -> None:
        if error is not None and not is_stop(error):
            logger.warning("task %s: the handler has failed", self.claim["id"], exc_info=error)
        self.host.runs.pop(self.key, None)
        self.is_over = True
        self.host.report_files()
        try:
            message = outcome(self.task, self.job, returned, error, self.stop)
            if "error" in message:
                message["error"] = sound(message["error"])
            text = json.dumps(message, allow_nan=False)
            if len(text) > LARGEST_TEXT:
                raise ValueError(_too_large(text))
        except Exception as wrong:  # A codec, or the text of an exception.
            raised = "" if error is None else f" after a {type(error).__name__}"
            text = f"what the handler has returned cannot be stored{raised}: {type(wrong).__name__}: {wrong}"
            text = json.dumps({"message": "error", "error": sound(text)})
        self.host.send(["return", self.key, text, self.order])


def _page(answer: Json | None) -> Json:
    """Returns a page of results that the worker's process has read."""
    answer = answer or {"error": "the run is stopped"}
    if "error" in answer:
        raise RuntimeError(answer["error"])
    return dict(json.loads(answer["page"]))


def _too_large(text: str) -> str:
    return f"it has {len(text):,} bytes; a task has room for one MiB"


class Host:
    """What the three places have in common: a thread that reads from the worker's process, and watches the time."""

    def __init__(self, link: socket.socket, tasks: dict[str, Task[Any, Any]], known: frozenset[str] = frozenset()) -> None:
        self.link, self.tasks = link, tasks
        self.app = next((task.app for task in tasks.values()), None)
        self.known = known
        self.files: Loaded | None = None
        self.runs: dict[int, Run] = {}
        self.until = float("inf")
        self.sending = threading.Lock()
        self.pid = os.getpid()
        os.register_at_fork(before=_forks, after_in_child=lambda: _forked(link), after_in_parent=_has_forked)

    def serve(self) -> None:
        raise NotImplementedError

    def start_up(self) -> None:
        """Calls what the app has to do at the start of a process, and says that runs may come."""
        for start in self.app.starts if self.app else ():
            if not inspect.iscoroutinefunction(start):  # Another one needs an event loop.
                start()
        self.say_ready()

    def say_ready(self) -> None:
        if self.app is not None and self.app.log_level is not None:
            logging.getLogger().addHandler(TaskLog(self.app.log_level, self.running))
        self.files = Loaded(self.known, (task.__module__ for task in self.tasks.values()))
        self.report_files()
        self.send(["ready", VERSION, {kind: task.data_version for kind, task in self.tasks.items()}])

    def running(self) -> Job[Any, Any] | None:
        """Returns the job of the only handler that runs here."""
        return None

    def report_files(self) -> None:
        """Says which source files were imported since the last time."""
        if self.files is not None and (found := self.files.later()):
            self.send(["files", found])

    def send(self, message: Any) -> None:
        self.write([message])

    def write(self, messages: list[Any]) -> None:
        """Writes messages to the worker's process. If that fails, nothing after it could be read, and this process ends."""
        data = frames(messages)
        with self.sending:
            try:
                self.link.sendall(data)
            except BaseException:  # Also one that a signal handler of the user's code has raised.
                self.end()

    def end(self) -> None:
        """Ends this process, which cannot speak with the worker's process any more: its runs have failed."""
        with contextlib.suppress(OSError):
            self.link.shutdown(socket.SHUT_RDWR)
        logger.error("a process of handlers has lost its connection to the worker, and ends", exc_info=True)
        os._exit(_LEFT)

    def user(self, run: Run) -> Any:
        return run.handled(run.made())

    def read(self) -> None:
        """Reads messages until the worker's process ends, or they cannot be read. Then this process ends, whatever its
        handlers do."""
        try:
            self._read()
        except BaseException:
            self.end()

    def _read(self) -> None:
        buffer = bytearray()
        poll = select.poll()
        poll.register(self.link, select.POLLIN)
        while True:
            if clock() > self.until:
                os._exit(_LEFT)
            self.watch()
            if not poll.poll(250):
                continue
            data = self.link.recv(1 << 18)
            if not data:
                os._exit(_LEFT)
            buffer += data
            read: list[Any] = []
            while len(buffer) >= HEAD and len(buffer) >= HEAD + (size := length(buffer, LARGEST_CLAIMS)):
                read += messages(buffer[HEAD : HEAD + size])
                del buffer[: HEAD + size]
            if read:
                self.take(read)

    def watch(self) -> None:
        """Looks after the handlers, four times a second."""

    def take(self, messages: list[Any]) -> None:
        for message in messages:
            self.handle(message)

    def handle(self, message: Any) -> None:
        name, *rest = message
        if name == "until":
            self.until = rest[0]
        elif name == "start":
            key, name, text = rest
            run = self.runs[key] = Run(self, key, self.tasks[name["kind"]], readable(text, name))
            try:
                self.begin(run)
            except Exception as error:  # No thread could be started.
                run.ended(None, error)
        elif name == "quit":
            os._exit(0)
        elif found := self.runs.get(rest[0]):
            self.pass_on(found, name, rest[1:])

    def pass_on(self, run: Run, name: str, rest: list[Any]) -> None:
        """Handles a message about a run."""
        if name == "stop":
            run.stopped(rest[0])
            if rest[0]["interrupt"]:
                self.interrupt(run)
        elif name == "abort":
            self.interrupt(run)
        elif name == "signal":
            run.signalled(readable(rest[0], {}))
        elif name in ("answer", "page"):
            run.answered(rest[0], rest[1])

    def begin(self, run: Run) -> None:
        raise NotImplementedError

    def interrupt(self, run: Run) -> None:
        """Ends a handler where it is, if it can be."""


class ProcessHost(Host):
    """One `def` handler at a time, on the main thread."""

    def __init__(self, link: socket.socket, tasks: dict[str, Task[Any, Any]], known: frozenset[str] = frozenset()) -> None:
        super().__init__(link, tasks, known)
        self.queue: queue.SimpleQueue[Run] = queue.SimpleQueue()
        self.active: Run | None = None
        self.inside = 0
        """How deep the handler is within calls of its job, which are not interrupted."""
        self.is_late = False
        """Whether a stop has come within such a call."""

    def serve(self) -> None:
        signal.signal(signal.SIGUSR1, self._raise)
        self.start_up()
        threading.Thread(target=self.read, name="windlass", daemon=True).start()
        while True:
            contextvars.copy_context().run(self.queue.get().call)

    def begin(self, run: Run) -> None:
        self.queue.put(run)

    def running(self) -> Job[Any, Any] | None:
        return self.active.job if self.active else None

    def user(self, run: Run) -> Any:
        for name in ("ask", "tell", "wait", "took", "read"):
            setattr(run, name, self._guarded(getattr(run, name)))
        job = run.made()
        self.is_late, self.inside, self.active = False, 0, run
        try:
            if run.stop is not None:  # It has come before there was an active run.
                raise run.stop
            return run.handled(job)
        finally:
            self.active = None

    def _guarded(self, call: Any) -> Any:
        def guarded(*arguments: Any) -> Any:
            if threading.current_thread() is not threading.main_thread():
                return call(*arguments)  # Signals interrupt the main thread only.
            self.inside += 1
            try:
                return call(*arguments)
            except Stop:
                self.active = None  # The signal that comes with it has nothing more to interrupt.
                raise
            finally:
                self.inside -= 1
                if self.is_late and not self.inside:
                    self._raise()

        return guarded

    def interrupt(self, run: Run) -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

    def _raise(self, *_: Any) -> None:
        run = self.active
        if run is None or run.stop is None:
            return
        self.is_late = self.inside > 0
        if not self.is_late:
            self.active = None
            raise run.stop


class ThreadHost(Host):
    """Handlers in threads of this process."""

    def serve(self) -> None:
        self.start_up()
        self.read()

    def begin(self, run: Run) -> None:
        context = contextvars.copy_context()
        threading.Thread(target=context.run, args=(run.call,), name=run.claim["id"], daemon=True).start()


class LoopRun(Run):
    """A run in the event loop."""

    handle: asyncio.Task[None]
    pending: dict[int, asyncio.Future[Any]]
    event: asyncio.Event

    def __init__(self, host: Host, key: int, task: Task[Any, Any], claim: Json) -> None:
        super().__init__(host, key, task, claim)
        self.awaits, self.loop = Awaits(), asyncio.get_running_loop()

    def ask(self, what: str, value: Any) -> Awaitable[None]:
        self.check()
        inside(self.loop, what)
        ticket = self._ask(what, value)
        future = self.pending[ticket] = self.loop.create_future()
        return self.awaits.made(NAMES.get(what, what), self._wait_for(future))

    async def _wait_for(self, future: asyncio.Future[str | None]) -> None:
        try:
            error = await asyncio.shield(future)
        except asyncio.CancelledError:
            if self.stop is None:
                raise
            error = await future  # The data is on its way: the stop comes after it.
        self._answered(error)

    def wait(self, seconds: float | None) -> Awaitable[None]:
        self.check()
        inside(self.loop, "wait")
        return self.awaits.made("wait", self._wait(seconds))

    async def _wait(self, seconds: float | None) -> None:
        if self.stop is None and not self.fresh:
            self.event.clear()
            try:
                await asyncio.wait_for(self.event.wait(), seconds)
            except asyncio.TimeoutError:
                pass
            except asyncio.CancelledError:
                if self.stop is None:
                    raise
        self._waited()

    def read(self, start: int) -> Json:
        raise RuntimeError("a loop over job.waited.results(...) would block the event loop of the handler: write `async for`")

    async def read_later(self, start: int) -> Json:
        inside(self.loop, "waited")
        ticket = self._read(start)
        future = self.pending[ticket] = self.loop.create_future()
        try:
            answer = await future
        finally:
            self.pending.pop(ticket, None)
        self._look()
        return _page(answer)

    def answered(self, ticket: int, answer: Any) -> None:
        future = self.pending.pop(ticket, None)
        if future is not None and not future.done():
            future.set_result(answer)

    def wake(self) -> None:
        self.event.set()

    async def main(self) -> None:
        returned, error = None, None
        try:
            job = self.made()
            with _trace.run(job) as span:
                returned = await self.task.handler(job)
                if forgotten := self.awaits.forgotten():
                    raise TypeError(forgotten)
                self._mark(span, returned)
        except BaseException as raised:
            error = raised
        self.awaits.forgotten()
        self.ended(returned, error)

    def begun(self, handle: asyncio.Task[None]) -> None:
        """Sees that the run ends with its asyncio task: one that is cancelled before its first step runs nothing of `main`."""
        self.handle = handle
        handle.set_name(self.claim["id"])
        handle.add_done_callback(self._handled)

    def _handled(self, _: asyncio.Task[None]) -> None:
        if not self.is_over:
            self.ended(None, asyncio.CancelledError())


class LoopHost(Host):
    """`async def` handlers in one event loop."""

    loop: asyncio.AbstractEventLoop

    def serve(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self.loop, self.context = asyncio.get_running_loop(), contextvars.copy_context()
        self.loop.set_default_executor(concurrent.futures.ThreadPoolExecutor(thread_name_prefix="to_thread"))
        self.out: list[Any] = []
        self.beat = time.monotonic()
        self.warned = False
        for start in self.app.starts if self.app else ():
            made = start()
            if inspect.isawaitable(made):
                await made
        self.say_ready()
        threading.Thread(target=self.read, name="windlass", daemon=True).start()
        while True:
            self.beat, self.warned = time.monotonic(), False
            await asyncio.sleep(0.2)

    def take(self, messages: list[Any]) -> None:
        for message in messages:
            if message[0] == "until":  # Also while a handler blocks the loop.
                self.until = message[1]
        self.loop.call_soon_threadsafe(self._take, messages, context=self.context)

    def _take(self, messages: list[Any]) -> None:
        try:
            super().take(messages)
        except BaseException:
            self.end()

    def send(self, message: Any) -> None:
        if message[0] in ("ready", "files") or threading.current_thread() is not threading.main_thread():
            return super().send(message)
        if not self.out:
            self.loop.call_soon(self._flush)
        self.out.append(message)
        return None

    def _flush(self) -> None:
        out, self.out = self.out, []
        self.write(out)

    def handle(self, message: Any) -> None:
        if message[0] == "start":
            _, key, name, text = message
            run = LoopRun(self, key, self.tasks[name["kind"]], readable(text, name))
            self.runs[key] = run
            run.pending, run.event = {}, asyncio.Event()
            run.begun(contextvars.copy_context().run(self.loop.create_task, run.main()))
        else:
            super().handle(message)

    def interrupt(self, run: Run) -> None:
        if isinstance(run, LoopRun):
            run.handle.cancel()

    def watch(self) -> None:
        """Warns of a handler that blocks the loop, with the place where it does."""
        blocked = time.monotonic() - self.beat
        if blocked < _BLOCKED or self.warned or not self.runs:
            return
        self.warned = True
        current = asyncio.current_task(self.loop)
        at = sys._current_frames().get(threading.main_thread().ident or 0)
        lines = "".join(traceback.format_stack(at)[-3:]) if at else ""
        name = current.get_name() if current else "a callback"
        logger.warning(
            "task %s has blocked the event loop for %.1f s: every async def handler waits for it. "
            "Use `await asyncio.to_thread(...)` or a `def` handler.\n%s",
            name,
            blocked,
            lines,
        )
