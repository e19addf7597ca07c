"""JSON values as the types of annotations: dataclasses, pydantic models, msgspec structs and the types of typing."""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import decimal
import enum
import functools
import math
import pathlib
import types
import typing
import uuid
from collections import abc
from typing import Any

_TEXTS: dict[Any, Any] = {
    uuid.UUID: uuid.UUID,
    decimal.Decimal: decimal.Decimal,
    pathlib.Path: pathlib.Path,
    dt.datetime: lambda text: dt.datetime.fromisoformat(text.replace("Z", "+00:00")),
    dt.date: dt.date.fromisoformat,
    dt.time: dt.time.fromisoformat,
    bytes: lambda text: base64.b64decode(text, validate=True),
}
_LISTS: dict[Any, Any] = {
    list: list,
    abc.Sequence: list,
    abc.Iterable: list,
    set: set,
    frozenset: frozenset,
    abc.Set: set,
}


_REFUSALS = (ArithmeticError, TypeError, ValueError)
"""What conversions raise for a value that they do not take, such as `OverflowError` for a huge integer."""


class ValueMismatch(ValueError):
    """A JSON value does not have the type of its annotation. The text names the place."""


@functools.lru_cache(maxsize=1024)
def _fields(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _wrong(at: str, wanted: str, value: Any) -> ValueMismatch:
    shown = repr(value)
    return ValueMismatch(f"{at}: expected {wanted}, got {shown if len(shown) <= 80 else shown[:77] + '...'}")


def parse(kind: Any, value: Any, at: str) -> Any:
    """Returns `value`, which came from JSON, as the type `kind`.

    Unknown fields of objects are ignored. Raises `ValueMismatch`, which names the place of a wrong value below `at`."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any or kind is object or isinstance(kind, typing.TypeVar):
        return value
    if origin is typing.Annotated:
        return parse(arguments[0], value, at)
    if is_alias(kind):
        return parse(meant(kind), value, at)
    if origin is typing.Union or origin is types.UnionType:
        return _any_of(arguments, value, at)
    if origin is typing.Literal:
        if any(value == one and type(value) is type(one) for one in arguments):
            return value
        raise _wrong(at, " or ".join(map(repr, arguments)), value)
    base = origin or kind
    if base is None or base is type(None):
        if value is None:
            return None
        raise _wrong(at, "null", value)
    if base in (bool, int, str):
        if type(value) is base:
            return value
        raise _wrong(at, base.__name__, value)
    if base is float:
        if type(value) is float:
            return value
        if type(value) is int:
            return _converted(float, value, at, "a number that a float can have")
        raise _wrong(at, "a number", value)
    if base is dt.timedelta:
        return _converted(lambda seconds: dt.timedelta(seconds=seconds), parse(float, value, at), at, "seconds of a timedelta")
    if base in _TEXTS:
        return _converted(_TEXTS[base], parse(str, value, at), at, base.__name__)
    if base in (dict, abc.Mapping, abc.MutableMapping):
        of_key, of_value = arguments or (Any, Any)
        items = _object(value, at).items()
        return {parse(of_key, key, f"{at}.{key}"): parse(of_value, one, f"{at}.{key}") for key, one in items}
    if base in _LISTS:
        of_one = arguments[0] if arguments else Any
        values = [parse(of_one, one, f"{at}[{n}]") for n, one in enumerate(_list(value, at))]
        return _converted(_LISTS[base], values, at, "a list of values that a set can have")
    if base is tuple:
        return _tuple(arguments, _list(value, at), at)
    return _class(base, value, at)


def is_alias(kind: Any) -> bool:
    """Returns whether a type is a name that a `type` statement has made, also with arguments."""
    return type(typing.get_origin(kind) or kind).__name__ == "TypeAliasType"  # Python 3.12; earlier that of typing_extensions.


def meant(alias: Any) -> Any:
    """Returns the type for which a name of a `type` statement stands."""
    origin = typing.get_origin(alias)
    if origin is None:
        return alias.__value__
    value, given = origin.__value__, dict(zip(origin.__type_params__, typing.get_args(alias), strict=True))
    parameters = getattr(value, "__parameters__", ())
    if parameters:
        return value[tuple(given[one] for one in parameters)]
    return given.get(value, value) if isinstance(value, typing.TypeVar) else value


def is_named_tuple(kind: Any) -> bool:
    """Returns whether a type is a `NamedTuple`."""
    return isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")


def _converted(convert: Any, value: Any, at: str, wanted: str) -> Any:
    """Returns what `convert` makes of a value. One that it does not take has not the type of its annotation."""
    try:
        return convert(value)
    except _REFUSALS as error:
        raise _wrong(at, wanted, value) from error


def _object(value: Any, at: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _wrong(at, "an object", value)
    return value


def _list(value: Any, at: str) -> list[Any]:
    if not isinstance(value, list):
        raise _wrong(at, "a list", value)
    return value


def _any_of(kinds: tuple[Any, ...], value: Any, at: str) -> Any:
    errors = []
    for kind in sorted(kinds, key=lambda kind: kind is float):
        try:
            return parse(kind, value, at)
        except ValueMismatch as error:
            if kind is not type(None):
                errors.append(error)
    # With `None` as the only other type, the error of the first says more.
    raise errors[0] if len(errors) == 1 else _wrong(at, " or ".join(str(kind) for kind in kinds), value)


def _tuple(kinds: tuple[Any, ...], values: list[Any], at: str) -> tuple[Any, ...]:
    if not kinds:
        return tuple(values)
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        kinds = (kinds[0],) * len(values)
    if len(kinds) != len(values):
        raise _wrong(at, f"a list of {len(kinds)}", values)
    return tuple(parse(kind, value, f"{at}[{n}]") for n, (kind, value) in enumerate(zip(kinds, values, strict=True)))


def _named_tuple(kind: Any, values: list[Any], at: str) -> Any:
    """JSON has a list for it: the values of the first fields, in order; the others have defaults."""
    names = kind._fields
    if len(values) > len(names):
        raise _wrong(at, f"a list of at most {len(names)}", values)
    missing = [name for name in names[len(values) :] if name not in kind._field_defaults]
    if missing:
        raise ValueMismatch(f"{at}.{missing[0]}: the field is missing")
    types = _fields(kind)
    return kind(*(parse(types.get(name, Any), one, f"{at}.{name}") for name, one in zip(names, values, strict=False)))


def _class(kind: Any, value: Any, at: str) -> Any:
    if hasattr(kind, "__supertype__"):
        return parse(kind.__supertype__, value, at)
    if is_named_tuple(kind):
        return _named_tuple(kind, _list(value, at), at)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _converted(kind, value, at, " or ".join(repr(one.value) for one in kind))
    if hasattr(kind, "__struct_fields__"):  # msgspec
        import msgspec

        return _by_library(msgspec.convert, at, value, kind)
    if hasattr(kind, "model_validate"):  # pydantic
        return _by_library(kind.model_validate, at, value)
    if hasattr(kind, "__pydantic_validator__"):
        import pydantic

        return _by_library(pydantic.TypeAdapter(kind).validate_python, at, value)
    if typing.is_typeddict(kind):
        given = _object(value, at)
        missing = sorted(kind.__required_keys__ - given.keys())
        if missing:
            raise ValueMismatch(f"{at}.{missing[0]}: the field is missing")
        return {name: parse(_fields(kind).get(name, Any), one, f"{at}.{name}") for name, one in given.items()}
    if dataclasses.is_dataclass(kind):
        return _dataclass(kind, _object(value, at), at)
    raise unknown(kind, at)


def unknown(kind: Any, at: str) -> TypeError:
    """Returns the error for a type that values cannot have."""
    return TypeError(f"{at}: the type {kind!r} is not known here: use a dataclass, a pydantic model, a msgspec struct or dict")


def _by_library(convert: Any, at: str, *arguments: Any) -> Any:
    try:
        return convert(*arguments)
    except (ArithmeticError, ValueError) as error:  # A `TypeError` is that of a type that the library does not know.
        raise ValueMismatch(f"{at}: {error}") from error


def _dataclass(kind: Any, given: dict[str, Any], at: str) -> Any:
    values = {}
    for field in dataclasses.fields(kind):
        if not field.init:
            continue
        if field.name in given:
            values[field.name] = parse(_fields(kind)[field.name], given[field.name], f"{at}.{field.name}")
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise ValueMismatch(f"{at}.{field.name}: the field is missing")
    try:
        return kind(**values)
    except _REFUSALS as error:  # of __post_init__
        raise ValueMismatch(f"{at}: {error}") from error


def keys(value: abc.Mapping[Any, Any], at: str) -> dict[Any, str]:
    """Returns the keys of a mapping, each with the name that it has in JSON."""
    names = {key: plain(key, at) for key in value}
    for name in names.values():
        if not isinstance(name, str):
            raise TypeError(f"{at}: the key {name!r} is not a text")
    return names


def plain(value: Any, at: str = "value") -> Any:
    """Returns `value` as what `json.dumps` takes: the counterpart of `parse`.

    Raises `TypeError` or `ValueError`, which name the place of a value that JSON does not have."""
    if value is None or type(value) in (bool, int, str):
        return value
    if isinstance(value, (int, str)) and not isinstance(value, enum.Enum):  # A subclass, as JSON has it.
        return str.__str__(value) if isinstance(value, str) else int.__int__(value)
    if isinstance(value, float) and not isinstance(value, enum.Enum):
        if not math.isfinite(value):
            raise ValueError(f"{at}: {value} is not a number of JSON")
        return float.__float__(value)
    if isinstance(value, abc.Mapping):
        return {name: plain(value[key], f"{at}.{key}") for key, name in keys(value, at).items()}
    if isinstance(value, (list, tuple, abc.Set)):
        return [plain(one, f"{at}[{n}]") for n, one in enumerate(value)]
    if isinstance(value, enum.Enum):
        return plain(value.value, at)
    if isinstance(value, (dt.datetime, dt.date, dt.time)):
        return value.isoformat()
    if isinstance(value, dt.timedelta):
        return value.total_seconds()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, (uuid.UUID, decimal.Decimal, pathlib.PurePath)):
        return str(value)
    if hasattr(value, "__struct_fields__"):
        import msgspec

        return msgspec.to_builtins(value)
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: plain(getattr(value, one.name), f"{at}.{one.name}") for one in dataclasses.fields(value)}
    raise TypeError(f"{at}: a value of {type(value)!r} cannot be stored: use a dataclass, a pydantic model or what JSON has")
