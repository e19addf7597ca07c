"""The three places of handlers: a process for each run, threads of one process, and the event loop of one process."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import inspect
import logging
import queue
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Awaitable
from typing import Any

from . import _trace
from ._awaits import NAMES, Awaits, inside
from ._forms import Json
from ._host import Host
from ._job import Job, Stop
from ._run import Run, page, readable
from ._task import Task, call_async

logger = logging.getLogger("windlass_tasks")
_BLOCKED = 1.0
"""How long a handler may block the event loop before it is named in the log, in seconds."""


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

    def interrupt(self, run: Run) -> None:
        """Ends an aborted handler at its next `wait`, `checkpoint` or `reply`: a thread cannot be ended where it is, and the
        process that would end with it has the other handlers, too."""
        if run.stop is None:
            run.stopped({"reason": "lost"})
        else:
            run.wake()


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
            if self.stop is None or self.is_aborted:
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
        return page(answer)

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
                returned = await call_async(self.task, job)
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
        for start in self.starts():
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
        if message[0] in ("ready", "files", "hook") or threading.current_thread() is not threading.main_thread():
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
