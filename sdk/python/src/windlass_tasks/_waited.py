"""The tasks that a task has waited for, and their results, which are read when the handler asks for them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, overload

from ._codec import Codec
from ._errors import Pickles
from ._forms import Json
from ._types import check
from ._values import parse

T = TypeVar("T")


class Reads(Protocol):
    """Where the results are: a page of them begins at a place among the tasks."""

    def read(self, start: int) -> Json: ...
    def read_later(self, start: int) -> Awaitable[Json]: ...


class NoResult(Pickles, Exception):
    """A task that was waited for has no result: it has failed, was killed, has not ended, or cannot be read.

    `task` is its id, and the text says why."""

    def __init__(self, task: str, why: str) -> None:
        super().__init__(f"the task {task} {why}")
        self.task = task


class Masked(NoResult):
    """A result or a reply of which a mask hides a part: what the server shows in its place is no value of the task."""


def shown(task: str, what: str, value: Any) -> Any:
    """Returns a value of a task. Raises `Masked` for one in which the server shows the placeholder of a masked value."""
    within = [value]
    while within:
        one = within.pop()
        if isinstance(one, dict):
            if "$windlass" in one:
                raise Masked(task, f"has {what} of which a mask hides a part")
            within += one.values()
        elif isinstance(one, list):
            within += one
    return value


@dataclass(frozen=True)
class Waited:
    """A task that was waited for. `outcome` is `completed`, `failed`, `killed`, `unknown` or `live`."""

    task: str
    outcome: str


class Result(Generic[T]):
    """A task that was waited for, as it is now."""

    task: str
    """Its id."""
    outcome: str
    """How the wait for it has ended, as in `Waited`: the same in every attempt."""
    kind: str | None
    state: str | None
    """Its state now; `None` when it does not exist any more, or the token of the worker may not see it."""
    error: str | None
    """The last error of a task that has failed or was killed."""
    masked: bool
    """Whether a mask hides a part of its result or its error from the worker."""

    def __init__(self, found: Json, type_: Any, codec: Codec) -> None:
        self.task, self.outcome = found["task"], found["outcome"]
        self.kind, self.state = found.get("kind"), found.get("state")
        self.error, self.masked = found.get("error"), found.get("masked") is True
        self._found, self._type, self._codec = found, type_, codec

    def __repr__(self) -> str:
        return f"<Result of {self.task}: {self.state or self.outcome}>"

    @property
    def value(self) -> T:
        """The result, as the type that `results` was called with.

        Raises `NoResult` for a task that has none, `Masked` (a `NoResult`) for one of which a mask hides a part, and
        `ValueMismatch`, which names the field, for another type."""
        found = self._found
        if why := found.get("unreadable"):
            raise NoResult(self.task, f"cannot be read: {why}")
        if (why := found.get("quarantined")) is not None:
            raise NoResult(self.task, f"is quarantined: {why}")
        if self.state in ("failed", "killed"):
            raise NoResult(self.task, f"{'has failed' if self.state == 'failed' else 'was killed'}{_after(self.error)}")
        if self.state is None:
            raise NoResult(self.task, "does not exist, or the token of the worker may not see it")
        if self.state != "completed":
            raise NoResult(self.task, f"has not ended: it is {self.state}")
        if self.masked:
            raise Masked(self.task, "has a result of which a mask hides a part")
        given = found.get("result")
        try:
            given = None if given is None else self._codec.decode(given)
        except Exception as error:
            raise NoResult(self.task, f"has a result that the codec cannot decode: {type(error).__name__}: {error}") from error
        value: T = parse(self._type, given, f"the result of {self.task}")
        return value


def _after(error: str | None) -> str:
    return f": {error}" if error else ""


class Results(Generic[T]):
    """The results of the tasks that were waited for, in the order of the wait, for `for` and `async for`.

    They are read in pages of at most 100 tasks, or about one MiB, when the loop comes to them: memory holds one page."""

    def __init__(self, count: int, type_: Any, reads: Reads, codec: Codec) -> None:
        self._count, self._type, self._reads, self._codec = count, type_, reads, codec

    def __iter__(self) -> Iterator[Result[T]]:
        start: int | None = 0 if self._count else None
        while start is not None:
            page = self._reads.read(start)
            yield from self._of(page)
            start = page.get("next")

    async def __aiter__(self) -> AsyncIterator[Result[T]]:
        start: int | None = 0 if self._count else None
        while start is not None:
            page = await self._reads.read_later(start)
            for one in self._of(page):
                yield one
            start = page.get("next")

    def _of(self, page: Json) -> Iterator[Result[T]]:
        return (Result(one, self._type, self._codec) for one in page["tasks"])


class WaitedTasks(list[Waited]):
    """The tasks that were waited for, with their outcomes. `results` reads more of them."""

    def __init__(self, tasks: Iterable[Waited], reads: Reads, codec: Codec) -> None:
        super().__init__(tasks)
        self._reads, self._codec = reads, codec

    @overload
    def results(self) -> Results[Any]: ...
    @overload
    def results(self, kind: type[T]) -> Results[T]: ...
    @overload
    def results(self, kind: Any) -> Results[Any]: ...

    def results(self, kind: Any = Any) -> Results[Any]:
        """Returns the results of these tasks as values of a type, such as `int` or a dataclass.

        ```
        total = sum(one.value for one in job.waited.results(int))              # in a def
        values = [one.value async for one in job.waited.results(int)]          # in an async def
        ```

        Nothing is read before the loop begins. `value` of each one raises `NoResult` when its task has no result. Raises
        `TypeError` for a type that a result cannot have."""
        check(kind, "results")
        return Results(len(self), kind, self._reads, self._codec)
