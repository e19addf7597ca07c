"""`Job`: what a handler gets, and `Next`: what it returns."""

from __future__ import annotations

import contextvars
import datetime as dt
import time
from collections.abc import Awaitable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, overload

from . import _given, _trace
from ._codec import Codec, decoded, encoded, shaped
from ._errors import Pickles
from ._fields import TaskFields, Time
from ._forms import Json, Kinded, form, moment, when
from ._values import plain
from ._waited import Reads, Waited, WaitedTasks

if TYPE_CHECKING:
    from typing_extensions import Unpack

P = TypeVar("P")
Q = TypeVar("Q")
D = TypeVar("D")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
ERASE: Any = type("ERASE", (), {"__repr__": lambda self: "ERASE"})()
"""As the data of a message: the task has no data any more."""


class Stop(Pickles):
    """The handler is to end: its task was paused or killed, has missed its deadline, or the worker ends.

    It comes from `checkpoint`, `reply` and `wait`. With `interrupt` (the default) it comes at once, wherever a `def` handler
    is; an `async def` gets `asyncio.CancelledError` in its other awaits. Let both pass: the task then takes the message of
    the command, or is released. A broad `except Exception` catches neither. A handler that raises it although nothing stops
    the handler has a failed attempt.

    `reason` is `command`, `shutdown`, `drain`, `balance`, `stop-task`, `deadline`, `over` or `lost`; `command` is the
    command, such as `{"message": "pause"}`."""

    def __init__(self, reason: str = "raised by the handler", command: Json | None = None) -> None:
        super().__init__(reason if command is None else f"{reason}: {command.get('message')}")
        self.reason, self.command = reason, command


class Fail(Exception):
    """Raised by a handler: the task fails at once, whatever its retry policy is."""


class Refused(ValueError):
    """A checkpoint or a reply was not stored; the text says why. The handler may go on."""


@dataclass(frozen=True)
class Signal:
    """A signal to a task. `order` is its place in the queue of the task."""

    name: str
    payload: Any
    order: int


@dataclass(frozen=True)
class Awaited:
    """The signal that a task has waited for before a run. `expired`: the wait has reached its time limit."""

    name: str
    expired: bool


class Port(Reads, Protocol):
    """How a job reaches the worker that runs it."""

    def clock(self) -> float: ...

    def ask(self, what: str, value: Any) -> Awaitable[None]: ...
    def tell(self, what: str, value: Any) -> None: ...
    def wait(self, seconds: float | None) -> Awaitable[None]: ...
    def took(self, order: int) -> None: ...


class Done:
    """An awaitable that is done: what the calls of a `def` handler return."""

    def __await__(self) -> Generator[Any, None, None]:
        return
        yield


class Next(Generic[R_co]):
    """What follows for the task: a method of `Job` makes it, and the handler returns it."""

    def __init__(self, message: Json) -> None:
        self.message = message
        """The message in the JSON form of windlass."""

    def __repr__(self) -> str:
        return f"Next({self.message!r})"


_current: contextvars.ContextVar[Job[Any, Any]] = contextvars.ContextVar("windlass.job")


def current_job() -> Job[Any, Any]:
    """Returns the job of the handler that calls this, directly or indirectly. Raises `LookupError` elsewhere."""
    return _current.get()


class Job(Generic[P, D]):
    """A run of a task: its input, and the calls by which the handler speaks with the store.

    A call that returns an awaitable is awaited in an `async def`, and called without `await` in a `def`."""

    id: str
    """The id of the task."""
    kind: str
    props: P
    """The input of the task."""
    data: D | None
    """The data that the last run or checkpoint has stored; `None` before the first."""
    attempt: int
    """The attempt, from 1. It grows when a run fails or is lost."""
    incarnation: int
    """How often the task was started again after it had ended."""
    fence: int
    """A number that grows with each claim of the task: a system outside can refuse a writer with a smaller one."""
    labels: dict[str, str]
    meta: dict[str, str]
    """Text that travels with the task, such as `traceparent`."""
    waited: WaitedTasks
    """The tasks that the task has waited for, with their outcomes. `waited.results(int)` reads their results."""
    awaited: Awaited | None
    """What the task has waited for by `wait_for_signal` before this run. The signal itself is among `signals`."""
    wait_expired: bool
    """Whether the wait before this run, for a signal or for tasks, has reached its time limit (`within`, `until`)."""
    last_error: Json | None
    """The last error of the task."""

    def __init__(self, claim: Json, props: P, data: D | None, port: Port, codec: Codec) -> None:
        self.id, self.kind, self.props, self.data = claim["id"], claim.get("kind", ""), props, data
        self.attempt, self.incarnation = claim.get("attempt", 1), claim.get("incarnation", 0)
        self.fence, self._run = claim["fence"], claim["run"]
        self.labels, self.meta = claim.get("labels") or {}, claim.get("meta") or {}
        waited = (Waited(one["task"], one["outcome"]) for one in claim.get("waited") or ())
        self.waited = WaitedTasks(waited, port, codec)
        awaited = claim.get("awaited_signal")
        self.awaited = Awaited(awaited["name"], awaited["expired"]) if awaited else None
        self.wait_expired = claim.get("wait_expired") is True or (self.awaited is not None and self.awaited.expired)
        self._began = moment(claim["now"]) if claim.get("now") else dt.datetime.now(dt.timezone.utc)
        self._received = claim.get("received", port.clock())
        self._made: Next[Any] | None = None
        self.last_error = claim.get("last_error")
        self.stopping: Stop | None = None
        """The stop that was asked for: for handlers with `interrupt=False` that look by themselves."""
        ends = claim.get("ends_in_ms")
        self._ends = None if ends is None else time.monotonic() + ends / 1000
        self._port, self._codec = port, codec
        self._signals: list[Signal] = []
        self._unreadable: Exception | None = None
        self._effects: list[Json] = []
        self._replies: list[Json] = []
        self._submitted: list[str] = []
        for signal in claim.get("signals") or []:
            self._receive(signal)

    def __repr__(self) -> str:
        return f"<Job {self.id} of kind {self.kind}, attempt {self.attempt}>"

    def _receive(self, sent: Json) -> None:
        try:
            if why := sent.get("unreadable"):
                raise ValueError(f"a signal cannot be read: {why}")
            command = sent["command"]
            if command.get("message") == "signal":
                self._signals.append(Signal(command["name"], self._payload(command), sent["order"]))
        except Exception as error:  # A codec, or what JSON has and Python does not.
            self._unreadable = error
            raise

    def _payload(self, command: Json) -> Any:
        try:
            return decoded(self._codec, command.get("payload"))
        except Exception as error:
            text = f"the codec cannot decode the payload of the signal {command['name']}: {type(error).__name__}: {error}"
            raise ValueError(text) from error

    @property
    def ends_in(self) -> dt.timedelta | None:
        """How long until the task must have ended (`end_by`); `None` without that."""
        return None if self._ends is None else dt.timedelta(seconds=self._ends - time.monotonic())

    def now(self) -> dt.datetime:
        """Returns the time, in UTC, by the clock of the server: the one that decides when a task wakes up. It sends no request.

        The run has the time of the server from its start; the clock of this machine only counts what has passed since.
        With an older server, which says no time, it is the clock of this machine. In a test it is the virtual time."""
        return self._began + dt.timedelta(seconds=self._port.clock() - self._received)

    @property
    def signals(self) -> list[Signal]:
        """The signals without a reply, oldest first: those that waited, and those that have come since.

        Raises the error of a signal that cannot be read: the run fails by it, as `wait`, `checkpoint` and `reply` do then."""
        if self._unreadable is not None:
            raise self._unreadable
        if self._signals:
            self._port.took(self._signals[-1].order)
        return list(self._signals)

    def checkpoint(self, data: D, *, progress: float | None = None) -> Awaitable[None]:
        """Stores new data: the next run begins with it. Returns when it is durable.

        `progress` is a fraction from 0 to 1. Raises `Stop` when the handler is to end, after the data was stored, and
        `Refused` when the store does not take it."""
        if progress is not None:
            self.progress(progress)
        return self._port.ask("checkpoint", encoded(self._codec, data, "data"))

    def reply(self, signal: Signal, value: Any = None, *, data: D | None = None) -> Awaitable[None]:
        """Replies to a signal, and stores new data in the same write. Returns when both are durable.

        The signal does not come again, even if this run is lost afterwards: keep in the data what it has said."""
        answer = {"signal": signal.order, "reply": encoded(self._codec, value, "reply")}
        if data is not None:
            answer["data"] = encoded(self._codec, data, "data")
        self._done_with(signal)
        return self._port.ask("answer", answer)

    def reply_later(self, signal: Signal, value: Any = None) -> None:
        """Replies to a signal in the same write as the message that the handler returns."""
        self._replies.append({"signal": signal.order, "reply": encoded(self._codec, value, "reply")})
        self._done_with(signal)

    def _done_with(self, signal: Signal) -> None:
        if signal in self._signals:
            self._signals.remove(signal)

    def wait(self, seconds: float | dt.timedelta | None = None) -> Awaitable[None]:
        """Waits for a length of time (a `timedelta`, or seconds), in the process; without one until a signal comes.

        Returns early when a signal comes, and raises `Stop` when the handler is to end.

        For minutes and more return `sleep`, which needs no process."""
        return self._port.wait(None if seconds is None else _given.seconds("seconds", seconds))

    def progress(self, fraction: float, text: str = "") -> None:
        """Reports how far the run is, from 0 to 1. It is shown at once, and stored with the next write."""
        self._port.tell(
            "progress", {"fraction": min(1.0, max(0.0, _given.number("fraction", fraction))), **({"text": text} if text else {})}
        )

    def log(self, text: str) -> None:
        """Adds a line to the log of the task. A log is not a promise: lines are lost with the worker."""
        self._port.tell("log", text)

    @overload
    def submit(self, task: Kinded[Q], props: Q, *, id: str | None = None, **fields: Unpack[TaskFields]) -> str: ...
    @overload
    def submit(self, task: Kinded[None], *, id: str | None = None, **fields: Unpack[TaskFields]) -> str: ...
    @overload
    def submit(self, task: str, props: Any = None, *, id: str | None = None, **fields: Unpack[TaskFields]) -> str: ...

    def submit(self, task: Kinded[Any] | str, props: Any = None, *, id: str | None = None, **fields: Any) -> str:
        """Submits another task in the same write as the message that the handler returns. Returns its id.

        `fields` are those of a task, such as `start_at`, `labels`, `limits`. Without `id` the id is made of that of this
        task. With the kind `schedule` and a spec as `props` this makes a schedule. Raises `ValueMismatch`, which names the
        field, for props that do not have the type of the handler `task`."""
        id = id or f"{self.id}.{self._run}.{len(self._submitted) + 1}"
        if meta := _trace.current():
            fields["meta"] = {**meta, **(fields.get("meta") or {})}
        self.effect({"op": "submit", "id": id, **form(task, props, fields)})
        self._submitted.append(id)
        return id

    def effect(self, operation: Json) -> None:
        """Adds an operation (docs/reference/json.md, `operation.json`) to the write of the message that the handler returns.

        Such as `{"op": "send", "task": "b", "command": "pause"}`. If one is refused the attempt fails, and none happens."""
        self._effects.append(shaped(operation, self._codec, "effect"))

    def _next(self, name: str, data: Any, **more: Any) -> Next[Any]:
        message: Json = {"message": name, **{key: one for key, one in more.items() if one is not None}}
        if data is ERASE:
            message["no_data"] = True
        elif data is not None:
            message["data"] = encoded(self._codec, data, "data")
        if self._effects:
            message["effects"] = list(self._effects)
        if self._replies:
            message["replies"] = list(self._replies)
        self._made = Next(message)
        return self._made

    def complete(self, result: R = None, data: D | None = None) -> Next[R]:  # type: ignore[assignment]
        """Ends the task with a result."""
        return self._next("complete", data, result=encoded(self._codec, result, "result"))

    def sleep(self, until: Time, data: D | None = None, *, keep_signals: bool = False) -> Next[Any]:
        """Runs the handler again at a time, or after a time. Nothing waits in the process meanwhile."""
        return self._next("sleep", data, until=when(until, "until"), keep_signals=keep_signals or None)

    def wait_for(
        self,
        *tasks: str,
        ok: bool = False,
        within: float | dt.timedelta | None = None,
        until: Time | None = None,
        data: D | None = None,
    ) -> Next[Any]:
        """Runs the handler again when none of these tasks is live. By default they are the tasks that this run submits.

        `ok`: the task fails if one of them does not complete. The wait ends earlier after `within` (a `timedelta`, or seconds),
        or at the time `until`; then the next run has `wait_expired`. It has their outcomes and results in `waited`."""
        ids = list(tasks or self._submitted)
        if not ids:
            return self.run_again(data)  # Nothing is left to wait for.
        until = _end(within, until)
        deadline = None if until is None else when(until, "until")
        return self._next("sleep", data, **{"after_ok" if ok else "after": ids, "after_deadline": deadline})

    def wait_for_signal(
        self,
        name: str,
        *,
        text: str = "",
        schema: Any = None,
        within: float | dt.timedelta | None = None,
        until: Time | None = None,
        data: D | None = None,
        keep_signals: bool = False,
    ) -> Next[Any]:
        """Waits for a signal, without a process: the kind needs `signals=True`. `text` is what a person is asked.

        `schema` is the JSON Schema of the payload, as a mapping or as a class of pydantic: pages make a form of it. It limits
        nothing, so the handler checks the payload. Any signal, a command to run, and the end of the wait run the handler again,
        which then finds what it has waited for in `awaited`. The wait ends after `within` (a `timedelta`, or seconds), or at
        the time `until`, and never without them; then the next run has `wait_expired`."""
        until = _end(within, until)
        made = getattr(schema, "model_json_schema", None)
        signal = {"name": name, "text": text, "schema": made() if made else plain(schema, "schema")}
        signal = {key: value for key, value in signal.items() if value or key == "name"}
        end = {} if until is None else {"until": when(until, "until")}
        how = "pause" if until is None else "sleep"
        return self._next(how, data, awaits_signal=signal, keep_signals=keep_signals or None, **end)

    def pause(self, data: D | None = None, *, keep_signals: bool = False) -> Next[Any]:
        """Waits until an operator resumes the task, or a signal comes."""
        return self._next("pause", data, keep_signals=keep_signals or None)

    def release(self, data: D | None = None) -> Next[Any]:
        """Releases the claim: any worker may continue at once. It costs no attempt."""
        return self._next("release", data)

    def run_again(self, data: D | None = None) -> Next[Any]:
        """Runs the handler again at once, with its data stored."""
        return self._next("run", data)

    def error(self, text: str, data: D | None = None, *, retry: bool = True) -> Next[Any]:
        """Fails the attempt: the retry policy of the task decides what follows."""
        return self._next("error", data, error=text, retry=None if retry else False)

    def fail(self, text: str, data: D | None = None) -> Next[Any]:
        """Ends the task as failed, whatever its retry policy is."""
        return self.error(text, data, retry=False)

    def kill(self, data: D | None = None) -> Next[Any]:
        """Ends the task as killed."""
        return self._next("kill", data)


def _end(within: float | dt.timedelta | None, until: Time | None) -> Time | None:
    """Returns when a wait ends that has one of the two."""
    if within is None:
        return until
    if until is not None:
        raise ValueError("within and until: a wait ends after a length of time or at a time; give one of them")
    return dt.timedelta(seconds=_given.seconds("within", within))
