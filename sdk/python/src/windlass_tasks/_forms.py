"""Tasks to submit and other requests in their JSON form."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from . import _given
from ._fields import SubmitFields, Time
from ._types import check
from ._values import parse, plain

if TYPE_CHECKING:
    from typing_extensions import Unpack

P = TypeVar("P")
P_contra = TypeVar("P_contra", contravariant=True)
Json = dict[str, Any]


SPEC = (
    "run", "description", "cron", "every", "at", "zone", "start", "end", "except", "offset", "jitter", "start_within", "end_within",
    "missed", "overlap", "gap", "fold", "count", "pause_on_failure",
)  # fmt: skip
"""The fields of a schedule that its author gives: `since` and `earlier` are those of the server."""


class Kinded(Protocol[P_contra]):
    """A handler as its callers see it: its kind, and the type of its props."""

    kind: str

    def new(self, props: P_contra, **fields: Unpack[SubmitFields]) -> Json: ...


class Codec(Protocol):
    """Changes values before they leave this process and after they come back, such as by encryption.

    Both take and return what `json.dumps` takes. Props, data, results, payloads and replies pass through it."""

    def encode(self, value: Any) -> Any: ...
    def decode(self, value: Any) -> Any: ...


class Plain:
    """The codec that changes nothing."""

    def encode(self, value: Any) -> Any:
        return value

    def decode(self, value: Any) -> Any:
        return value


class Kind(Generic[P]):
    """A kind whose handler is in another program: its name, and the type of its props.

    ```
    resize = windlass.Kind("resize", Resize)
    client.submit(resize, Resize("a.png", width=200))
    ```

    Type checkers and each submit compare the props with that type, as with a handler. Raises `TypeError` for a type that
    props cannot have."""

    def __init__(self, kind: str, props: type[P], *, codec: Codec | None = None) -> None:
        check(props, "props")
        self.kind, self.props, self.codec = kind, props, codec or Plain()

    def __repr__(self) -> str:
        return f"Kind({self.kind!r}, {self.props!r})"

    def new(self, props: P, **fields: Unpack[SubmitFields]) -> Json:
        """Returns a task to submit, for `Client.submit_many`, schedules and transactions. Its props pass through `codec`."""
        return form(self, props, self.codec, fields)


def when(time_: Time, at: str) -> str:
    """Returns a time in the form of the server: a `timedelta`, or seconds, is counted from when the server reads it.

    A length of time below 0 is now, as a time in the past. Errors name `at`."""
    if isinstance(time_, str):
        return time_
    if isinstance(time_, dt.datetime):
        return (time_ if time_.tzinfo else time_.astimezone()).isoformat()
    if isinstance(time_, bool) or not isinstance(time_, (int, float, dt.timedelta)):
        raise TypeError(f"{at}: {time_!r} is not a time: give a datetime, a timedelta, seconds or a text")
    if (time_ < dt.timedelta()) if isinstance(time_, dt.timedelta) else (time_ < 0):
        return "in 0ms"
    return f"in {round(_given.seconds(at, time_) * 1000)}ms"


def moment(text: str) -> dt.datetime:
    """Reads a time of the server: it has up to nine digits of a second, and Python six."""
    whole, _, part = text.removesuffix("Z").partition(".")
    return dt.datetime.fromisoformat(whole).replace(tzinfo=dt.timezone.utc, microsecond=int(f"{part[:6]:0<6}"))


_MOMENTS = ("start_at", "start_by", "end_by", "after_deadline", "due", "until", "time", "from", "to", "for", "start", "end")


def times(fields: Mapping[str, Any], at: str) -> Json:
    """Returns fields of a request as JSON: times and lengths of time as text, and a `Task` as its kind."""

    def one(value: Any, name: str) -> Any:
        if name in _MOMENTS and isinstance(value, (dt.datetime, dt.timedelta, int, float)) and not isinstance(value, bool):
            return when(value, name)
        if isinstance(value, dt.timedelta):
            return f"{round(value.total_seconds() * 1000)}ms"
        if isinstance(value, Mapping):
            return {key: one(of, str(key)) for key, of in value.items()} if name not in ("props", "data") else value
        if isinstance(value, (list, tuple)):
            return [one(of, name) for of in value]
        return getattr(value, "kind", value) if hasattr(value, "handler") else value

    made: Json = plain({name: one(value, name) for name, value in fields.items()}, at)
    return made


def form(task: Kinded[P] | str, props: P | None, codec: Codec, fields: Mapping[str, Any]) -> Json:
    """Returns a task to submit in its JSON form. `fields` are those of `task.json` of windlass (docs/reference/json.md).

    Raises `ValueMismatch`, which names the field, for props that do not have the type of the handler."""
    kind = task if isinstance(task, str) else task.kind
    given, wanted = plain(props, "props"), Any if isinstance(task, str) else getattr(task, "props", Any)
    if wanted is not Any:
        parse(wanted, given, "props")
    return {"kind": kind, "props": codec.encode(given), **times(fields, "task")}
