"""What an answer says, whoever has sent it: a server, or a proxy in front of one. A value that cannot be read is no reason to lose
the others of the same answer."""

from __future__ import annotations

import email.utils
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ._errors import Unavailable, Unreadable

Json = dict[str, Any]
LONGEST = 60.0
"""The longest pause for which `Retry-After` is followed, in seconds."""
GATEWAY = (408, 502, 504)
"""The statuses with which a proxy says that it has no answer of a server. A server may have carried the request out."""
_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\r\n]*")
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]|[^\s"\[\]{},:]+', re.S)
"""A text, a bracket, or a number or word."""


class Foreign(Unavailable):
    """The answer is not that of a windlass server."""


class Missing:
    """Stands for a value that cannot be read. `why` is a text for people."""

    def __init__(self, why: str) -> None:
        self.why = why


def value(text: bytes) -> Any:
    """Reads the body of an answer. Raises `Foreign` for what is no JSON, and `Unreadable` for what Python cannot hold."""
    try:
        return json.loads(text)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise foreign("its body is not JSON") from error
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"the answer has a value that Python does not read: {_why(error)}", text) from error


def foreign(what: str) -> Foreign:
    return Foreign(f"the answer is not that of a windlass server: {what}; check the URL, and proxies in between")


def shaped(found: Any, fields: Mapping[str, type]) -> Json:
    """Returns an answer that is an object with these fields. Raises `Foreign` for any other."""
    if not isinstance(found, dict):
        raise foreign(f"its body is {_kind(found)}, not an object")
    for name, kind in fields.items():
        if not isinstance(found.get(name), kind):
            raise foreign(f"its field `{name}` is {_kind(found.get(name))}")
    return found


def problem(text: bytes) -> Json | None:
    """Returns the problem document of a server; `None` for a page, or any other text that is not that of a server."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and isinstance(found.get("code"), str) else None


def pause(headers: Mapping[str, str], default: float) -> float:
    """Returns the pause, in seconds, that `Retry-After` asks for, as a number or as a date, and `default` without one."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdecimal():
        return min(float(text[:9]), LONGEST) or default
    try:
        until = email.utils.parsedate_to_datetime(text)
        # By the clock of the server, if it says its time: that of this machine may be wrong.
        now = email.utils.parsedate_to_datetime(headers.get("date") or email.utils.formatdate(usegmt=True))
        seconds = until.timestamp() - now.timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return default
    return min(max(seconds, default), LONGEST)


def salvaged(text: str, depth: int) -> Any:
    """Reads JSON of which a part may not be readable: a `Missing` stands for that part, `depth` levels down at most."""
    try:
        return _walked(text, _next(text, 0), depth)[0]
    except (ValueError, LookupError) as error:
        return Missing(_why(error))


def _walked(text: str, at: int, depth: int) -> tuple[Any, int]:
    """Reads the value at a place, and returns it with the place of its end. Only what cannot be read is walked through here."""
    try:
        return _DECODER.raw_decode(text, at)
    except (ValueError, RecursionError) as error:
        if depth == 0 or text[at] not in "[{":
            return Missing(_why(error)), _end(text, at)
    found: tuple[list[Any], Json] = ([], {})
    is_object, at = text[at] == "{", _next(text, at + 1)
    while text[at] not in "]}":
        if is_object:
            name, at = _DECODER.raw_decode(text, at)
            found[1][name], at = _walked(text, _next(text, _next(text, at) + 1), depth - 1)
        else:
            one, at = _walked(text, at, depth - 1)
            found[0].append(one)
        at = _next(text, at)
        if text[at] == ",":
            at = _next(text, at + 1)
    return found[is_object], at + 1


def _next(text: str, at: int) -> int:
    """Returns the place of the next character that is no space."""
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _end(text: str, at: int) -> int:
    """Returns the end of the value at a place. Nothing is decoded, so neither its size nor its depth matters."""
    level = 0
    for token in _TOKEN.finditer(text, at):
        if token.group() in ("[", "{"):
            level += 1
        elif token.group() in ("]", "}"):
            level -= 1
        if level <= 0:
            return token.end() if level == 0 else token.start()
    return len(text)


def parts(text: bytes, depth: int) -> Any:
    """Reads the body of an answer as `value` does, with a `Missing` for each part that Python does not read."""
    try:
        return value(text)
    except Unreadable:
        return salvaged(text.decode(), depth)


def without_missing(found: Json) -> tuple[Json, dict[str, str]]:
    """Returns an object without the fields that cannot be read, and why each cannot."""
    missing = {name: one.why for name, one in found.items() if isinstance(one, Missing)}
    return {name: one for name, one in found.items() if name not in missing}, missing


def entries(answer: Json, field: str, wanted: Mapping[str, type]) -> Iterator[Json]:
    """Yields the objects of a list of an answer: those that have the fields that are wanted."""
    found = answer.get(field)
    for one in found if isinstance(found, list) else ():
        if isinstance(one, dict) and all(isinstance(one.get(name), kind) for name, kind in wanted.items()):
            yield one


RUN: Mapping[str, type] = {"id": str, "fence": int, "run": int}
"""The name of a run."""


def claim(found: Json) -> tuple[Json, str]:
    """Returns a claim that can be held, and why its run cannot start; an empty text if it can."""
    whole, missing = without_missing(found)
    wrong = [f"{name}: cannot be read: {why}" for name, why in missing.items()]
    for name, kind, default in (("kind", str, ""), ("grace_ms", int, 30_000), ("signals", list, None), ("n", int, 1)):
        if name not in whole or whole[name] is None:
            whole[name] = default
        elif not isinstance(whole[name], kind):
            wrong.append(f"{name}: is {_kind(whole[name])}, and cannot be read")
            whole[name] = default
    signals = whole["signals"] or []
    whole["signals"] = [one for one in signals if isinstance(one, dict) and isinstance(one.get("order"), int)]
    if len(signals) != len(whole["signals"]):
        wrong.append("signals: one has no order, and cannot be read")
    return whole, "; ".join(wrong)


def _why(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _kind(found: Any) -> str:
    if isinstance(found, Missing):
        return "what cannot be read"
    names = {dict: "an object", list: "a list", str: "a text", bool: "a truth value", int: "a number", float: "a number"}
    return names.get(type(found), "null or missing")
