"""Checks of what a program gives as an option: an error names the option, and says what is right."""

from __future__ import annotations

import datetime as dt
import functools
import inspect
import math
import operator
from collections.abc import Callable
from typing import Any

LONGEST = 8000 * 365 * 86_400.0
"""The longest length of time, in seconds: a longer one ends after the last time of the server, in the year 9999."""


def whole(name: str, given: Any, least: int | None = 1, most: int | None = None) -> int:
    """Returns a whole number. `True` is none, nor is a text or `5.0`."""
    try:
        number = None if isinstance(given, bool) else operator.index(given)
    except TypeError:
        number = None
    if number is None:
        raise TypeError(f"{name}: {given!r} is not a whole number")
    if most is not None and least is not None and not least <= number <= most:
        raise ValueError(f"{name}: {number} is not between {least} and {most}")
    if least is not None and number < least:
        raise ValueError(f"{name}: {number} is not {least} or more")
    return number


def number(name: str, given: Any) -> float:
    """Returns a number that is not `nan`."""
    if isinstance(given, bool) or not isinstance(given, (int, float)):
        raise TypeError(f"{name}: {given!r} is not a number")
    if given != given:
        raise ValueError(f"{name}: nan is not a number")
    return given if isinstance(given, float) else float(min(max(given, -(10**300)), 10**300))


def seconds(name: str, given: Any, *, forever: bool = False) -> float:
    """Returns a length of time in seconds: a `timedelta`, or seconds. `forever`: it may be `inf`."""
    if not isinstance(given, dt.timedelta) and (isinstance(given, bool) or not isinstance(given, (int, float))):
        raise TypeError(f"{name}: {given!r} is not a length of time: give a timedelta, or seconds")
    length = given.total_seconds() if isinstance(given, dt.timedelta) else number(name, given)
    if length < 0:
        raise ValueError(f"{name}: {given!r} is negative: give 0 or more")
    if forever and math.isinf(length):
        return length
    if length > LONGEST:
        raise ValueError(f"{name}: {given!r} is longer than 8,000 years: give a shorter length of time")
    return length


def delta(name: str, given: Any, *, is_positive: bool = False) -> float:
    """Returns the seconds of an option that is a `timedelta`."""
    if not isinstance(given, dt.timedelta):
        raise TypeError(f"{name}: {given!r} is not a timedelta")
    if is_positive and not given:
        raise ValueError(f"{name}: {given!r} is not more than 0")
    return seconds(name, given)


def flag(name: str, given: Any) -> bool:
    """Returns `True` or `False`."""
    if not isinstance(given, bool):
        raise TypeError(f"{name}: {given!r} is not True or False")
    return given


def exceptions(name: str, given: Any) -> tuple[type[BaseException], ...]:
    """Returns a tuple of classes of exceptions."""
    if not isinstance(given, tuple) or not all(isinstance(one, type) and issubclass(one, BaseException) for one in given):
        raise TypeError(f"{name}: {given!r} is not a tuple of exceptions: write {name}=(KeyError,)")
    return given


def function(given: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function that a callable calls: that of a `partial`, and the `__call__` of an object."""
    while isinstance(given, functools.partial):
        given = given.func
    if inspect.isroutine(given) or inspect.isclass(given):
        return given
    called: Callable[..., Any] = type(given).__call__
    return called


def is_async(given: Callable[..., Any]) -> bool:
    """Returns whether a callable is an `async def`: also that of an object or of a `partial`."""
    return inspect.iscoroutinefunction(function(given))


def wraps_async(given: Callable[..., Any]) -> bool:
    """Returns whether a callable is an `async def`, or a decorator with `wraps` around one, which may call it in any way."""
    called = function(given)
    while not inspect.iscoroutinefunction(called):
        inner: Callable[..., Any] | None = getattr(called, "__wrapped__", None)
        if inner is None:
            return False
        called = function(inner)
    return True


def has_yield(given: Callable[..., Any]) -> bool:
    """Returns whether a callable is a generator."""
    called = function(given)
    return inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called)


def name_of(given: Callable[..., Any]) -> str:
    """Returns the name of a callable, with its module."""
    called = function(given)
    return f"{called.__module__}.{called.__qualname__}"


def parameters(given: Callable[..., Any]) -> list[str]:
    """Returns the names of the parameters of a callable, without those that a `partial` has given."""
    found = inspect.signature(given).parameters.values()
    return [one.name for one in found if one.kind is not one.KEYWORD_ONLY or one.default is one.empty]


def forget(awaitable: Any) -> None:
    """Ends what is not awaited: a coroutine would warn of that."""
    if inspect.iscoroutine(awaitable):
        awaitable.close()
