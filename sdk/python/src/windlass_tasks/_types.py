"""Whether values of a type can come from JSON: asked when a handler is registered, so that no task finds out."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import types
import typing
from collections import abc
from typing import Any

from ._values import _LISTS, _TEXTS, _fields, is_alias, is_named_tuple, meant, unknown

_PLAIN = (Any, object, None, type(None), bool, int, float, str, dt.timedelta, *_TEXTS)
_OBJECTS = (dict, abc.Mapping, abc.MutableMapping)


def check(kind: Any, at: str) -> None:
    """Raises `TypeError` for a type that no value from JSON can have; the text names the place below `at`."""
    _check(kind, at, set())


def _check(kind: Any, at: str, seen: set[Any]) -> None:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if isinstance(kind, typing.TypeVar) or kind in _PLAIN or origin is typing.Literal:
        return
    if origin is typing.Annotated:
        _check(arguments[0], at, seen)
    elif is_alias(kind):
        if kind not in seen:  # `type Tree = dict[str, Tree]`.
            seen.add(kind)
            _check(meant(kind), at, seen)
    elif origin is typing.Union or origin is types.UnionType:
        for one in arguments:
            _check(one, at, seen)
    elif (origin or kind) in _OBJECTS:
        of_key, of_value = arguments or (Any, Any)
        _check_key(of_key, at)
        _check(of_value, f"{at}.*", seen)
    elif (origin or kind) in _LISTS or (origin or kind) is tuple:
        for one in arguments:
            if one is not Ellipsis:
                _check(one, f"{at}[]", seen)
    else:
        _check_class(origin or kind, at, seen)


def _check_key(kind: Any, at: str) -> None:
    """Refuses types of keys that no text has: JSON has no others."""
    if kind in (None, type(None), bool, int, float, dt.timedelta) or typing.get_origin(kind) in (list, dict, tuple):
        raise TypeError(f"{at}: the keys of an object of JSON are texts, and not {kind!r}: use str")


def _check_class(kind: Any, at: str, seen: set[Any]) -> None:
    if hasattr(kind, "__supertype__"):
        _check(kind.__supertype__, at, seen)
        return
    if not isinstance(kind, type):
        raise unknown(kind, at)
    if issubclass(kind, enum.Enum) or any(hasattr(kind, name) for name in _BY_LIBRARIES):
        return
    if not (is_named_tuple(kind) or typing.is_typeddict(kind) or dataclasses.is_dataclass(kind)):
        raise unknown(kind, at)
    if kind in seen:
        return
    seen.add(kind)
    try:
        fields = _fields(typing.cast(Any, kind))
    except NameError:  # A class that is written below the handler: each task finds it.
        return
    if dataclasses.is_dataclass(kind):
        fields = {one.name: fields[one.name] for one in dataclasses.fields(kind) if one.init}
    for name, one in fields.items():
        _check(one, f"{at}.{name}", seen)


_BY_LIBRARIES = ("__struct_fields__", "model_validate", "__pydantic_validator__")
"""What the classes of msgspec and pydantic have: these check the types of their fields themselves."""
