"""The token of the environment, which the commands of handlers do not get."""

from __future__ import annotations

import os

_NAME = "WINDLASS_TOKEN"
_kept: str | None = None


def of_environment() -> str | None:
    """Returns the token of the environment, also in a process of handlers, whose environment has it no more."""
    return os.environ.get(_NAME, _kept)


def keep() -> None:
    """Takes the token out of the environment of this process: the commands that it starts do not get it."""
    global _kept
    _kept = os.environ.pop(_NAME, _kept)
