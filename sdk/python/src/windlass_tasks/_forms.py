"""Tasks to submit and other requests in their JSON form."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from . import _given
from ._codec import VALUES, Codec, Plain, encoded, shaped
from ._fields import SubmitFields, Time
from ._types import check
from ._values import keys, parse, plain

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
        """Returns a task to submit, for `Client.submit_many`, schedules and transactions. Its props pass through `codec`, and
        without one through that of the client."""
        return form(self, props, fields)


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
    """Returns fields of a request as JSON: times and lengths of time as text, and a `Task` as its kind.

    Values of the user are kept as they are but for the props of a `Task`, which its codec encodes."""

    def all_of(form: Mapping[Any, Any], at: str) -> Json:
        codec = getattr(form.get("kind"), "codec", Plain())
        return {name: one(form[key], name, f"{at}.{name}", codec) for key, name in keys(form, at).items()}

    def one(value: Any, name: str, at: str, codec: Codec) -> Any:
        if name in VALUES:
            return encoded(codec, value, at)
        if name in _MOMENTS and isinstance(value, (dt.datetime, dt.timedelta, int, float)) and not isinstance(value, bool):
            return when(value, name)
        if isinstance(value, dt.timedelta):
            return f"{round(value.total_seconds() * 1000)}ms"
        if isinstance(value, Mapping):
            return all_of(value, at)
        if isinstance(value, (list, tuple)):
            return [one(of, name, f"{at}[{n}]", codec) for n, of in enumerate(value)]
        return plain(getattr(value, "kind", value) if hasattr(value, "handler") else value, at)

    return all_of(fields, at)


def form(task: Kinded[P] | str, props: P | None, fields: Mapping[str, Any]) -> Json:
    """Returns a task to submit in its JSON form. `fields` are those of `task.json` of windlass (docs/reference/json.md).

    Its props pass through the codec of the handler or the `Kind`; without one, the client or the job has still to encode them.
    Raises `ValueMismatch`, which names the field, for props that do not have the type of the handler."""
    kind = task if isinstance(task, str) else task.kind
    given, wanted = plain(props, "props"), Any if isinstance(task, str) else getattr(task, "props", Any)
    if wanted is not Any:
        parse(wanted, given, "props")
    if kind == "schedule" and isinstance(props, Mapping):
        given = props  # The props of its runs may be encoded.
    made: Json = shaped({"kind": kind, "props": given}, getattr(task, "codec", None) or Plain())
    return {**made, **times(fields, "task")}
