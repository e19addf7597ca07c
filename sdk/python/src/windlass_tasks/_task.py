"""`Task`: a handler with its kind, and what becomes of a run of it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

from . import _given
from ._codec import Codec, decoded, sealed
from ._fields import SubmitFields
from ._forms import Json, form
from ._job import Fail, Job, Next, Port, Stop
from ._values import ValueMismatch, parse, plain

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._aio import AsyncClient

P = TypeVar("P")
D = TypeVar("D")
Place = Literal["process", "thread", "loop"]
made: dict[tuple[str, str, str], Task[Any, Any]] = {}
"""Every handler of this process, by its kind, module and name: how another process finds it after an import."""


class Offer(Protocol):
    """What a worker needs to know of an app."""

    tasks: dict[str, Task[Any, Any]]
    labels: dict[str, str]
    ttl: float
    processes: int | None
    max_tasks: int | None
    log_level: int | None
    starts: list[Callable[[], Any]]

    def async_client(self) -> AsyncClient: ...
    def check_awaited(self, start: Callable[[], Any]) -> None: ...


class Task(Generic[P, D]):
    """A handler with its kind: what `App.task` makes of a function. Calling it calls the function."""

    app: Offer
    kind: str
    props: Any
    data: Any
    codec: Codec
    slots: int
    is_default: bool
    data_version: int
    migrate: Callable[[Any, int], Any] | None
    stall_after: float | None
    grace: float
    signals: bool
    place: Place
    interrupt: bool
    fail_on: tuple[type[BaseException], ...]
    retry_on: tuple[type[BaseException], ...]

    def __init__(self, handler: Callable[[Job[P, D]], Any], **settings: Any) -> None:
        self.handler = handler
        self.__dict__.update(settings)
        called = _given.function(handler)
        self.__doc__, self.__name__, self.__module__ = handler.__doc__, called.__name__, called.__module__
        self.__qualname__ = called.__qualname__

    def __call__(self, job: Job[P, D]) -> Any:
        return self.handler(job)

    def __repr__(self) -> str:
        return f"<Task {self.kind} of {self.__module__}.{self.__qualname__}>"

    def new(self, props: P, **fields: Unpack[SubmitFields]) -> Json:
        """Returns a task to submit, for `Client.submit_many`, schedules and transactions.

        Raises `ValueMismatch`, which names the field, for props that do not have the type of the handler."""
        return form(self, props, fields)


def make_job(task: Task[Any, Any], claim: Json, port: Port) -> Job[Any, Any]:
    """Reads the props and the data of a claim as the types of the handler."""
    codec = task.codec
    if why := claim.get("unreadable"):
        raise ValueError(f"the task cannot be read: {why}")
    try:
        given = decoded(codec, claim.get("props"))
    except Exception as error:
        raise ValueError(f"props: the codec cannot decode them: {type(error).__name__}: {error}") from error
    try:
        props = parse(task.props, given, "props")
    except ValueMismatch as error:  # Another attempt would find the same props.
        raise Fail(str(error)) from error
    data = claim.get("data")
    if data is not None:
        data = _read_data(task, codec.decode(data), claim.get("data_version", task.data_version))
    return Job(claim, props, data, port, codec)


def _read_data(task: Task[Any, Any], data: Any, version: int) -> Any:
    """Reads data as the type of the handler. Without `migrate` that type has to read older data."""
    is_old = version != task.data_version
    if is_old and task.migrate is not None:
        data = plain(task.migrate(data, version), "data")
    try:
        return parse(task.data, data, "data")
    except ValueMismatch as error:
        if not is_old or task.migrate is not None:
            raise
        why = f"{error}; the data has version {version}, and the kind {task.kind} no `migrate` that makes it version"
        raise ValueMismatch(f"{why} {task.data_version}") from error


async def call_async(task: Task[Any, Any], job: Job[Any, Any]) -> Any:
    """Calls the handler in an event loop, and awaits what it returns."""
    made: Any = task.handler(job)
    if not inspect.isawaitable(made):
        raise TypeError("the handler runs in the event loop and returns nothing to await: write async def, or give place='process'")
    return await made


def is_stop(error: BaseException | None) -> bool:
    """Returns whether an exception is one by which a stop ends a handler, or a group of such ones: that of `asyncio.TaskGroup`."""
    inside = getattr(error, "exceptions", None)  # Python 3.10 has no class of groups.
    if isinstance(inside, tuple) and inside:
        return all(map(is_stop, inside))
    return isinstance(error, (Stop, asyncio.CancelledError, KeyboardInterrupt))


def outcome(task: Task[Any, Any], job: Job[Any, Any] | None, returned: Any, error: BaseException | None, stop: Stop | None) -> Json:
    """Returns the message for what a handler has returned or raised. `stop` is the one that was asked for, if there was one."""
    if error is None and isinstance(returned, Next):
        message: Json = sealed(returned.message, task.codec, "message")
        return message
    try:
        if error is None and job is not None:
            if inspect.isawaitable(returned):
                _given.forget(returned)
                raise TypeError("the handler has returned what is awaited: write async def, or give place='loop'")
            if returned is None and job._made is not None:
                name = job._made.message["message"]
                raise TypeError(f"the handler has made a message ({name}) and has not returned it: write `return job....`")
            return job.complete(returned).message
    except (TypeError, ValueError) as wrong:
        error = wrong
    if stop is not None and is_stop(error):
        return stop.command or {"message": "release"}
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, Stop):  # A release would cost no attempt, and start the handler again at once, for ever.
        text += "; nothing has stopped the handler: to release the task, return job.release()"
    final = isinstance(error, (Fail, *task.fail_on)) or (bool(task.retry_on) and not isinstance(error, task.retry_on))
    message = {"message": "error", "error": str(error) if isinstance(error, Fail) else text}
    return {**message, "retry": False} if final else message
