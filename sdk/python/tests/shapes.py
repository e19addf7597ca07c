"""The types of props, data and payloads of the handlers of the tests."""

from __future__ import annotations

from dataclasses import dataclass

import pydantic


@dataclass
class Pages:
    count: int
    pause: float = 0.0


@dataclass
class Cursor:
    page: int = 0


class Approval(pydantic.BaseModel):
    approved: bool
