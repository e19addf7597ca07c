"""What can be wrong with a request of a worker."""

from __future__ import annotations

from ._errors import Pickles


class Over(Exception):
    """The lease is over."""


class Again(Exception):
    """The request was not answered, or its outcome is not known. The pause has passed."""


class Overtaken(Exception):
    """The other request of the worker had a greater number and was handled first: this one is sent again at once."""


class Lost(Exception):
    """The run that the request is about is over, or its claim."""


class WrongItem(Pickles, Exception):
    """The server cannot read an item of a report."""

    def __init__(self, at: int, detail: str) -> None:
        super().__init__(detail)
        self.at = at


class TooLarge(Exception):
    """The server does not take a body of this size."""


class Refusal(Exception):
    """The worker cannot go on: its token is not valid, a request is wrong, or its handlers cannot be imported."""
