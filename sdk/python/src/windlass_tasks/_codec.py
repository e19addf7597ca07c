"""Where values leave this process: each passes through the codec once, below all methods of clients, jobs and handlers."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, Protocol

from ._values import keys, plain

VALUES = ("props", "data", "result", "payload", "reply")
"""The fields of requests and messages that have a value of the user."""
_FORMS = ("lines", "effects", "replies", "spec", "run")
"""The fields that have forms with such fields in turn. Others, such as labels, may have any names within them."""
_CHANGES = ("retry", "reschedule", "require")
"""The operations in which `null` as props is no value: it changes nothing."""


class Codec(Protocol):
    """Changes values before they leave this process and after they come back, such as by encryption.

    Both take and return what `json.dumps` takes. Props, data, results, payloads and replies pass through it, also those within
    operations and schedules. Errors, lines of logs and progress do not. `null` that the server has is not decoded.

    `encode` may have a random part. But then a submit with `if_exists="same"` and a transaction that is committed again with its
    id are refused, because their props are others."""

    def encode(self, value: Any) -> Any: ...
    def decode(self, value: Any) -> Any: ...


class Plain:
    """The codec that changes nothing."""

    def encode(self, value: Any) -> Any:
        return value

    def decode(self, value: Any) -> Any:
        return value


class Encoded:
    """Marks a value as one that a codec has returned, so that it is not encoded again. It is JSON as before.

    The mark is that of the value, and not of the task around it, of which programs make operations and other tasks."""


class _Object(Encoded, dict[str, Any]): ...


class _List(Encoded, list[Any]): ...


class _Text(Encoded, str): ...


class _Whole(Encoded, int): ...


class _Number(Encoded, float): ...


_MARKS: tuple[tuple[Any, Any], ...] = ((dict, _Object), ((list, tuple), _List), (str, _Text), (int, _Whole), (float, _Number))


def encoded(codec: Codec, value: Any, at: str) -> Any:
    """Returns a value as JSON, as the server gets it: with a mark if a codec has encoded it."""
    if isinstance(value, Encoded):
        return value
    given = plain(value, at)
    if isinstance(codec, Plain):
        return given
    if isinstance(given, dict) and "$windlass" in given:
        raise ValueError(f"{at}: the server shows {given} in place of a value that a mask hides: leave the field out")
    made = codec.encode(given)
    if made is None or isinstance(made, bool):  # Neither has a subclass, nor room for what is to be hidden.
        return made
    for of, mark in _MARKS:
        if isinstance(made, of):
            return mark(made)
    raise TypeError(f"{at}: the codec has returned {type(made)!r}; encode has to return what json.dumps takes")


def decoded(codec: Codec, value: Any) -> Any:
    """Returns a value of the server as it was before it was encoded. A task without props has `null`, which nobody has encoded."""
    return None if value is None else codec.decode(value)


def _compared(codec: Codec, value: Any, at: str, instead: str) -> Any:
    """Returns a value with which the server compares a stored one: a codec with a random part never makes it equal."""
    made = encoded(codec, value, at)
    if not isinstance(value, Encoded) and made != encoded(codec, value, at):
        raise ValueError(f"{at}: the codec encodes the same value differently each time, so nothing equals it: {instead}")
    return made


def shaped(form: Any, codec: Codec, at: str = "", op: str = "") -> Any:
    """Returns a task, an operation, a message or a spec as JSON, with its values encoded: also a list of them.

    `at` is where it is, for errors, and `op` the name of an operation that the form itself does not name."""
    if isinstance(form, (list, tuple)):
        return [shaped(one, codec, f"{at}[{n}]", op) for n, one in enumerate(form)]
    if not isinstance(form, Mapping):
        form = plain(form, at or "value")
        if not isinstance(form, dict):
            return form
    op, is_schedule, made = form.get("op", op), form.get("kind") == "schedule", {}
    for key, name in keys(form, at or "value").items():
        value, within = form[key], f"{at}.{name}" if at else name
        if name in _FORMS:
            made[name] = shaped(value, codec, within)
        elif name not in VALUES:
            made[name] = plain(value, within)
        elif value is None and (name == "data" or (name == "props" and op in _CHANGES)):
            made[name] = None
        elif name == "props" and is_schedule and isinstance(value, Mapping) and not isinstance(value, Encoded):
            made[name] = shaped(value, codec, within)  # The server reads the spec of a schedule; not the props of its runs.
        elif op == "require":
            made[name] = _compared(codec, value, within, "require the `version` that was read")
        else:
            made[name] = encoded(codec, value, within)
    return made


def sealed(form: Any, codec: Codec, at: str = "", op: str = "") -> Any:
    """Returns `shaped`; without a codec the form as it is."""
    return form if isinstance(codec, Plain) else shaped(form, codec, at, op)


def leaving(method: str, path: str, body: Any, codec: Codec) -> Any:
    """Returns the body of any request of a client with its values encoded."""
    if body is None or isinstance(codec, Plain):
        return body
    match path.partition("?")[0].strip("/").split("/"):
        case ["tasks", _] if method == "PATCH":
            return _patch(body, codec)
        case ["tasks", _, "signals", _]:
            return encoded(codec, body, "payload")
        case ["tasks", _, "retry" | "reschedule" as op]:
            return shaped(body, codec, op=op)
    return shaped(body, codec)


def _patch(operations: Any, codec: Codec) -> Any:
    """Returns a JSON Patch of a task. Only whole props and whole data can be encoded: no part of them is in the store."""
    if not isinstance(operations, (list, tuple)) or not all(isinstance(one, Mapping) for one in operations):
        raise ValueError("operations: a JSON Patch is a list of objects such as {'op': 'replace', 'path': '/props', 'value': 1}")
    made = []
    for n, operation in enumerate(operations):
        one, at = {name: operation[key] for key, name in keys(operation, f"operations[{n}]").items()}, f"operations[{n}]"
        for field in ("path", "from"):
            if field in one and one[field] not in ("/props", "/data"):
                raise ValueError(
                    f"{at}.{field}: {one[field]!r} is not '/props' or '/data': with a codec the server has no part of them; "
                    f"read the task, change its value here, and replace the whole"
                )
        if one.get("value") is not None or ("value" in one and one.get("path") != "/data"):
            within = f"{at}.value"
            if one.get("op") == "test":
                one["value"] = _compared(codec, one["value"], within, "compare the `version` of the task")
            else:
                one["value"] = encoded(codec, one["value"], within)
        made.append(one)
    return made


def opened(spec: Any, codec: Codec) -> None:
    """Decodes the props of the runs in the spec of a schedule. What the codec cannot decode stays as the server has it."""
    run = spec.get("run") if isinstance(spec, dict) else None
    if isinstance(run, dict) and run.get("props") is not None:
        with contextlib.suppress(Exception):  # The answer of a change that was carried out, or one of many schedules.
            run["props"] = codec.decode(run["props"])
