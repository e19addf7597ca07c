"""Exceptions that cross the border of a process."""

from __future__ import annotations

import copy
import importlib
import pickle
import pkgutil
from typing import Any

import pytest

import windlass_tasks as windlass

TASK = {"id": "a", "state": "failed", "errors": [{"error": "no"}]}
MADE: dict[str, tuple[Any, ...]] = {
    "ApiError": (409, {"code": "exists", "detail": "the id is taken", "field": "id"}, "/v1/tasks"),
    "TaskFailed": ("a", TASK),
    "SignalError": ("a", "ask", {"outcome": "returned", "reason": "no reply"}),
    "Stop": ("command", {"message": "pause"}),
    "Unreadable": ("a value", b"[1]"),
    "NoResult": ("page-1", "has failed: no such host"),
    "WrongItem": (3, "items[3] is wrong"),
}
"""How the exceptions are made whose parameters are more than a text, by their name or that of a base."""


def every() -> list[type[BaseException]]:
    """Every exception of the package: a new one is tested too."""
    found = []
    for module in pkgutil.walk_packages(windlass.__path__, "windlass_tasks."):
        for one in vars(importlib.import_module(module.name)).values():
            if isinstance(one, type) and issubclass(one, BaseException) and one.__module__ == module.name:
                found.append(one)
    return found


class Own(windlass.TaskFailed):
    """That of a user, with other parameters."""

    def __init__(self) -> None:
        super().__init__("own", TASK)
        self.seen = [1]


def of(kind: type[BaseException]) -> BaseException:
    arguments = next((MADE[one.__name__] for one in kind.__mro__ if one.__name__ in MADE), ("a text",))
    return kind() if kind is Own else kind(*arguments)


@pytest.mark.parametrize("kind", [*every(), Own], ids=lambda kind: kind.__name__)
def test_an_exception_is_the_same_after_it_was_pickled_or_copied(kind: type[BaseException]) -> None:
    error = of(kind)
    error.__dict__["__notes__"] = ["a note"]
    ways = [lambda one, way=way: pickle.loads(pickle.dumps(one, way)) for way in range(pickle.HIGHEST_PROTOCOL + 1)]
    for way in [*ways, copy.copy, copy.deepcopy]:
        other = way(error)
        assert type(other) is kind
        assert (str(other), repr(other), vars(other)) == (str(error), repr(error), vars(error))


def test_the_names_of_the_fields_stay() -> None:
    failed = pickle.loads(pickle.dumps(windlass.TaskFailed("a", TASK)))
    assert (failed.id, failed.task, str(failed)) == ("a", TASK, "task a has failed: no")
    exists = pickle.loads(pickle.dumps(windlass.Exists(*MADE["ApiError"])))
    assert (exists.status, exists.code, exists.field, exists.detail) == (409, "exists", "id", "the id is taken")
    assert issubclass(windlass.Stop, BaseException) and not issubclass(windlass.Stop, Exception)
    assert issubclass(windlass.Unavailable, ConnectionError) and issubclass(windlass.Unreadable, ValueError)
