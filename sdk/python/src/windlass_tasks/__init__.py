"""Tasks that survive: handlers in Python whose tasks, data and commands a windlass server keeps."""

from ._aio import AsyncClient
from ._app import App
from ._errors import (
    ApiError,
    Exists,
    Forbidden,
    Invalid,
    NotFound,
    SignalError,
    TaskFailed,
    Unauthorized,
    Unavailable,
    Unreadable,
)
from ._job import ERASE, Awaited, Codec, Fail, Job, Next, Refused, Signal, Stop, Waited, current_job
from ._sync import Client
from ._task import Task
from ._values import ValueMismatch
from ._version import VERSION as __version__

__all__ = [
    "ERASE",
    "ApiError",
    "App",
    "AsyncClient",
    "Awaited",
    "Client",
    "Codec",
    "Exists",
    "Fail",
    "Forbidden",
    "Invalid",
    "Job",
    "Next",
    "NotFound",
    "Refused",
    "Signal",
    "SignalError",
    "Stop",
    "Task",
    "TaskFailed",
    "Unauthorized",
    "Unavailable",
    "Unreadable",
    "ValueMismatch",
    "Waited",
    "__version__",
    "current_job",
]
