"""`App`: the handlers of a program, and what runs them."""

from __future__ import annotations

import contextvars
import datetime as dt
import logging
import os
import subprocess
import sys
import time
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from . import _aio, _given, _sync
from ._codec import Codec, Plain
from ._job import Job
from ._task import Place, Task, made
from ._types import check

P = TypeVar("P")
D = TypeVar("D")
Start = TypeVar("Start", bound=Callable[[], Any])
logger = logging.getLogger("windlass_tasks")
_MOST_SLOTS = 1000
_RELOADED = "WINDLASS_RELOADED"
instead: contextvars.ContextVar[Callable[[], Any] | None] = contextvars.ContextVar("windlass.client", default=None)
"""What `App.client` returns in a test."""
tests: list[Callable[[], Any]] = []
"""The same of each test that runs a handler now: for threads that the handler has started, which have no such context."""


def _instead() -> Callable[[], Any] | None:
    return instead.get() or next(reversed(tests), None)


class App:
    """Handlers, and where their tasks are.

    `url` and `token` are those of `Client`. `labels`: the worker only runs tasks that have all of them. `ttl`: how long a lost
    worker keeps its tasks, in seconds, 15 to 300. `processes`: how many processes run `def` handlers; by default one for each
    slot. With fewer, the tasks in the other slots wait in this worker: short handlers then do not wait for the store between
    two tasks. `codec` changes all values on their way to and from the server (`Codec`), for example by encryption. `max_tasks`:
    after this many runs have ended in a process of handlers, it takes no more; it ends with its last run, and another process takes
    its place, as with `max_tasks_per_child` of Celery. Without it a process is used until the worker ends. `log_level`: the
    lowest level of the `logging` records of a handler that go into the log of its task; `None` for none of them."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        ttl: float = 45.0,
        codec: Codec | None = None,
        processes: int | None = None,
        max_tasks: int | None = None,
        log_level: int | None = logging.INFO,
    ) -> None:
        if not 15 <= _given.number("ttl", ttl) <= 300:
            raise ValueError(f"ttl: {ttl} is not between 15 and 300 seconds")
        self.url, self.token = url, token
        self.processes = None if processes is None else _given.whole("processes", processes)
        self.max_tasks = None if max_tasks is None else _given.whole("max_tasks", max_tasks)
        self.log_level = None if log_level is None else _given.whole("log_level", log_level, 0)
        self.starts: list[Callable[[], Any]] = []
        self.labels, self.ttl, self.codec = dict(labels or {}), ttl, codec or Plain()
        self.tasks: dict[str, Task[Any, Any]] = {}

    def task(
        self,
        kind: str,
        *,
        slots: int | None = None,
        place: Place | None = None,
        data_version: int = 1,
        migrate: Callable[[Any, int], Any] | None = None,
        stall_after: dt.timedelta | None = None,
        grace: dt.timedelta = dt.timedelta(seconds=30),
        signals: bool = False,
        interrupt: bool = True,
        fail_on: tuple[type[BaseException], ...] = (),
        retry_on: tuple[type[BaseException], ...] = (),
    ) -> Callable[[Callable[[Job[P, D]], Any]], Task[P, D]]:
        """Makes a function the handler of a kind. Its parameter is a `Job[Props, Data]`, whose types are read by it.

        `slots`: how many run at once; by default the number of processors for `process`, 20 for `thread`, 100 for `loop`,
        and fewer if the kinds of a worker would have more than 1,000 together.
        `place`: a process for each run (default of `def`), threads of one process, or the event loop of one process
        (default of `async def`). A stop ends handlers in each of them: with `interrupt` (not in threads) at once, otherwise
        when they look (`checkpoint`, `wait`), and after `grace` by ending their process.
        `migrate(data, version)` converts data of an earlier version to `data_version`.
        `stall_after`: a run that has made no checkpoint, reply, progress or log line for that time is ended as failed.
        `signals`: whether the handler takes signals.
        `fail_on`: exceptions that fail the task at once. `retry_on`: every other exception fails the task at once."""

        if not isinstance(kind, str):
            raise TypeError("write @app.task(KIND), with the kind of the tasks")
        if place not in (None, "process", "thread", "loop"):
            raise ValueError(f"place: {place!r} is not process, thread or loop")
        slots = None if slots is None else _given.whole("slots", slots, 1, _MOST_SLOTS)
        data_version = _given.whole("data_version", data_version)
        stalled = None if stall_after is None else _given.delta("stall_after", stall_after, is_positive=True)
        patience = _given.delta("grace", grace)
        signals, interrupt = _given.flag("signals", signals), _given.flag("interrupt", interrupt)
        fail_on, retry_on = _given.exceptions("fail_on", fail_on), _given.exceptions("retry_on", retry_on)

        def decorate(handler: Callable[[Job[P, D]], Any]) -> Task[P, D]:
            if kind in self.tasks:
                raise ValueError(f"the kind {kind} has two handlers: {self.tasks[kind]!r} and {handler!r}")
            if _given.has_yield(handler):
                raise TypeError(f"{kind}: a handler returns what follows, and has no yield")
            is_async, may_be_async = _given.is_async(handler), _given.wraps_async(handler)
            where: Place = place or ("loop" if may_be_async else "process")
            # What a decorator around an `async def` returns is known when it is called.
            if (where == "loop") != is_async and not (may_be_async and not is_async):
                raise TypeError(f"{kind}: place={where!r} is for {'def' if is_async else 'async def'}, not for this handler")
            props, data = _types(handler, sys._getframe(1).f_locals)
            default = {"process": os.cpu_count() or 1, "thread": 20, "loop": 100}[where]
            task: Task[P, D] = Task(
                handler,
                app=self,
                kind=kind,
                props=props,
                data=data,
                codec=self.codec,
                slots=slots or default,
                is_default=slots is None,
                place=where,
                data_version=data_version,
                migrate=migrate,
                stall_after=stalled,
                grace=patience,
                signals=signals,
                interrupt=interrupt and where != "thread",
                fail_on=fail_on,
                retry_on=retry_on,
            )
            self.tasks[kind] = made[kind, task.__module__, task.__qualname__] = task
            return task

        return decorate

    def on_process_start(self, start: Start) -> Start:
        """Makes each process of handlers call a function once, after its imports and before its first run.

        ```
        @app.on_process_start
        async def connect() -> None:
            global pool
            pool = await asyncpg.create_pool(...)
        ```

        A `def` is called in every process, on the main thread. An `async def` is awaited in the event loop of the `async def`
        handlers, and only in their process. Several are called in the order in which they are written. A process whose
        function raises an exception ends: at the start of the worker this ends the worker, and later it costs no attempt.
        The log names a function that takes 10 s, and the process ends with an error when a function takes longer than the
        longest `stall_after` of its handlers, if each of them has one. Nothing is called at the end of a process, which may
        come at any time. `testing` calls none of them."""
        if not callable(start) or _given.has_yield(start):
            raise TypeError("on_process_start: decorate a def or an async def without parameters that has no yield")
        if _given.parameters(start):
            raise TypeError(f"on_process_start: {start!r} must not have parameters")
        self.starts.append(start)
        return start

    def check_awaited(self, start: Callable[[], Any]) -> None:
        """Refuses a function for the start of a process that has to be awaited, when no process has an event loop."""
        if not any(task.place == "loop" for task in self.tasks.values()):
            name = _given.name_of(start)
            raise ValueError(f"on_process_start: {name} is never awaited, because no handler is an async def: write def")

    def client(self) -> _sync.Client:
        """Returns a client with the URL, the token and the codec of the app."""
        if made := _instead():
            return made()  # type: ignore[no-any-return]
        return _sync.Client(self.url, self.token, codec=self.codec)

    def async_client(self) -> _aio.AsyncClient:
        """Returns an asynchronous client with the URL, the token and the codec of the app."""
        if made := _instead():
            return made()  # type: ignore[no-any-return]
        return _aio.AsyncClient(self.url, self.token, codec=self.codec)

    def run(self, *, reload: bool = False) -> None:
        """Runs tasks until SIGTERM, SIGINT or SIGHUP, then exits.

        The first signal stops the handlers and releases their tasks; a second one aborts them. The exit code is 0 after a
        first signal, and 1 after a second one and when the worker cannot go on: the log says why. Other processes than the one that
        runs handlers need `if __name__ == "__main__":` around this call. `reload` is for development: it starts again when
        a source file has changed."""
        if not logging.getLogger().handlers and not logger.handlers:
            logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
        if not self.tasks:
            raise ValueError("the app has no handlers: decorate a function with @app.task(KIND)")
        for start in self.starts:
            if _given.is_async(start):
                self.check_awaited(start)
        if reload and _RELOADED not in os.environ:
            sys.exit(_reloading())
        from ._worker import work

        self._share_slots()
        sys.exit(work(self))

    def _share_slots(self) -> None:
        """Makes default slots fewer when all kinds together would have more than a worker may have."""
        default = [task for task in self.tasks.values() if task.is_default]
        given = sum(task.slots for task in self.tasks.values() if not task.is_default)
        left = _MOST_SLOTS - given
        if left < len(default):
            raise ValueError(f"slots: the kinds have {given} slots in all; a worker has at most {_MOST_SLOTS}: start several")
        for task in default:
            task.slots = min(task.slots, left // len(default))


def _types(handler: Callable[..., Any], names: dict[str, Any]) -> tuple[Any, Any]:
    """Returns the types of props and data that the annotation of the first parameter has."""
    called = _given.function(handler)
    name = called.__qualname__
    try:
        hints = typing.get_type_hints(called, localns=names)
    except NameError as error:
        raise TypeError(f"the annotations of {name} name something that is not known there: {error}") from error
    parameters = _given.parameters(handler)
    if len(parameters) != 1:
        raise TypeError(f"{name} has to take one parameter: the job")
    hint = hints.get(parameters[0], Any)
    arguments = typing.get_args(hint) if typing.get_origin(hint) is Job else ()
    if hint not in (Any, Job) and not arguments:
        raise TypeError(f"{name}: annotate {parameters[0]} as Job[Props, Data], not as {hint!r}")
    if not arguments:
        return Any, Any
    for kind, at in zip(arguments, ("props", "data"), strict=True):
        check(kind, f"{name}: {at}")
    return arguments[0], arguments[1]


def _sources() -> Iterator[tuple[str, float]]:
    folder = os.getcwd() + os.sep
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if path and os.path.abspath(path).startswith(folder) and f"{os.sep}site-packages{os.sep}" not in path:
            try:
                yield path, os.stat(path).st_mtime
            except OSError:
                yield path, 0.0


def _reloading() -> int:
    """Runs this program as a child, again whenever a file that it has imported from below this folder changes."""
    import signal

    ended: list[int] = []
    child: subprocess.Popen[bytes] | None = None

    def end(number: int, _: Any) -> None:
        ended.append(number)
        if child is not None and number == signal.SIGTERM:  # A terminal sends SIGINT to both.
            child.terminate()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    while True:
        seen = dict(_sources())
        child = subprocess.Popen([sys.executable, *sys.orig_argv[1:]], env={**os.environ, _RELOADED: "1"})
        told = False
        while dict(_sources()) == seen and not ended:
            time.sleep(0.3)
            if child.poll() is not None and not told:
                told = True
                logger.error("the worker has ended with exit code %s: waiting for a change of a source file", child.returncode)
        if not ended:
            logger.info("a source file has changed: starting again")
            child.terminate()
        code = child.wait()
        if ended:
            return code
