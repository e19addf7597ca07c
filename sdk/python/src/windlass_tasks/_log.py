"""What a handler logs by `logging`, in the log of its task."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from ._job import Job, _current

_OURS = __name__.partition(".")[0]


class TaskLog(logging.Handler):
    """Passes records on to the log of the task whose handler has made them: a line of the log for each of their lines.

    `otherwise` returns the job for a thread that the handler has started, which has no such context."""

    def __init__(self, level: int, otherwise: Callable[[], Job[Any, Any] | None] = lambda: None) -> None:
        super().__init__(level)
        self._otherwise = otherwise
        self.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.partition(".")[0] == _OURS:
            return  # Those of the worker are for its operator.
        job = _current.get(None) or self._otherwise()
        if job is None:
            return
        try:
            text = self.format(record)
        except Exception:
            self.handleError(record)
            return
        try:
            for line in text.splitlines():
                job.log(line)
        except RuntimeError:
            return  # The run has ended, or this is a child that the handler has forked.
