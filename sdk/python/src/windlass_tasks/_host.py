"""What the processes have in common in which handlers run: they get runs from the worker's process, and tell it what they did."""

from __future__ import annotations

import contextlib
import inspect
import logging
import os
import select
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

from . import _given
from ._frames import HEAD, LARGEST_CLAIMS, frames, length, messages
from ._job import Job
from ._log import TaskLog
from ._run import Run, clock, readable
from ._sources import Loaded
from ._task import Task
from ._version import VERSION

logger = logging.getLogger("windlass_tasks")
_LEFT = 70
"""The exit code when the worker's process is lost, or the time of its lease is over."""
ENDS = (signal.SIGINT, signal.SIGTERM)
"""The signals by which a person or a supervisor ends a program."""


def _forks() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)  # A signal that comes at once waits until the child takes it.


def _has_forked() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDS)


def _forked(link: socket.socket) -> None:
    """The children of a handler end by signals, as those of any program, and leave the connection to the worker alone."""
    link.close()
    if threading.current_thread() is threading.main_thread():
        for number in ENDS:
            signal.signal(number, signal.SIG_DFL)
    _has_forked()


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
        for start in self.starts():
            if _given.is_async(start):  # It needs an event loop.
                continue
            made = start()
            if inspect.isawaitable(made):
                _given.forget(made)
                if self.app is not None:
                    self.app.check_awaited(start)
        self.say_ready()

    def starts(self) -> Iterator[Callable[[], Any]]:
        """Yields what the app has to do at the start of a process. The worker gets the name of each one before its call."""
        for start in self.app.starts if self.app else ():
            self.send(["hook", _given.name_of(start)])
            yield start

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
            run.is_aborted = True
            self.interrupt(run)
        elif name == "signal":
            run.signalled(readable(rest[0], {}))
        elif name in ("answer", "page"):
            run.answered(rest[0], rest[1])

    def begin(self, run: Run) -> None:
        raise NotImplementedError

    def interrupt(self, run: Run) -> None:
        """Ends a handler where it is, if it can be."""
