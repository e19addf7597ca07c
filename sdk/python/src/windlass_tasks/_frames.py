"""Frames: the lists of messages that the worker's process and those of the handlers send each other."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from typing import Any

_HEAD = struct.Struct(">4sI")
HEAD = _HEAD.size
_MARK = b"\xffwf\xfe"
"""How each frame begins. No text has these bytes: what other code writes into the connection is noticed."""
LARGEST_TEXT = 4 << 20
"""The most bytes of a report of a handler; the server takes one MiB of data or of a result."""
_FULL = 1 << 20
"""The size from which a frame gets no further message, in bytes."""
LARGEST = _FULL + 2 * LARGEST_TEXT
"""The longest frame to the worker, in bytes: the text of a report is quoted in it."""
LARGEST_CLAIMS = 256 << 20
"""The longest frame to a process of handlers: a claim has its signals."""


class BadFrame(Exception):
    """What has come is no frame."""


def frames(messages: Iterable[Any]) -> bytes:
    """Returns messages as they are sent."""
    sent, part, size = bytearray(), list[str](), 0
    for message in messages:
        text = json.dumps(message)
        part.append(text)
        size += len(text)
        if size >= _FULL:
            sent += _frame(part)
            part, size = [], 0
    if part:
        sent += _frame(part)
    return bytes(sent)


def _frame(part: list[str]) -> bytes:
    data = f"[{','.join(part)}]".encode()
    return _HEAD.pack(_MARK, len(data)) + data


def length(head: bytes | bytearray, largest: int) -> int:
    """Returns the length of the frame that begins so. Raises `BadFrame`."""
    mark, size = _HEAD.unpack_from(head)
    if mark != _MARK or size > largest:
        raise BadFrame(f"{bytes(head[:HEAD])!r} does not begin a frame of at most {largest:,} bytes")
    return int(size)


def messages(data: bytes | bytearray) -> list[Any]:
    """Reads a frame without its head. Raises `BadFrame`."""
    try:
        read = json.loads(data)
    except ValueError as error:
        raise BadFrame(f"a frame is not JSON: {error}") from error
    if not isinstance(read, list):
        raise BadFrame("a frame is not a list of messages")
    return read
