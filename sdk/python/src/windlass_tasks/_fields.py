"""The fields of a task to submit, for type checkers: a wrong name or type is seen before the program runs."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

Time = dt.datetime | dt.timedelta | float | str
"""A time: a `datetime`; from now on, a `timedelta` or seconds; or a text as on the command line."""


class TaskFields(TypedDict, total=False):
    """What a task may have besides its id, its kind and its props (docs/reference/json.md, `task.json`)."""

    start_at: Time | None
    """The earliest time at which it starts."""
    start_by: Time | None
    """The time by which its first run must have begun, otherwise it fails."""
    end_by: Time | None
    """The time by which it must have ended, otherwise it fails."""
    priority: int | None
    """Tasks with a greater one start first; 0 by default."""
    labels: Mapping[str, str] | None
    meta: Mapping[str, str] | None
    """Text that travels with it, such as `traceparent`."""
    retry: int | str | Mapping[str, Any] | None
    """What follows a failed attempt: a number of attempts, the name of a policy, or a policy with its numbers."""
    limits: Sequence[Mapping[str, Any]] | None
    """Such as `{"key": "api", "at_once": 3}`; at most 8."""
    unique: Mapping[str, Any] | None
    """Such as `{"key": "daily", "within": timedelta(days=1)}`."""
    after: Sequence[str] | None
    """The ids of tasks that must end before it starts; at most 1,000."""
    after_ok: Sequence[str] | None
    """As `after`, but each of them has to complete."""
    after_deadline: Time | None
    """When it stops waiting for them."""
    paused: bool | None
    """Whether it is paused until it is resumed."""
    free_id: bool | None
    """Whether its id is free again when it has completed."""
    if_exists: str | None
    """What happens when the id is taken: `refuse` (the default), `same`, `skip`, `replace-finished`, `replace-waiting`."""


class SubmitFields(TaskFields, total=False):
    """What a submitted task may have besides its kind and its props."""

    id: str | None
    """Its name; by default the server makes one."""
