"""Tasks that survive: handlers in Python whose tasks, data and commands a windlass server keeps."""

from ._aio import AsyncClient
from ._app import App
from ._codec import Codec
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
from ._fields import SubmitFields, TaskFields, Time
from ._forms import Kind
from ._job import ERASE, Awaited, Fail, Job, Next, Refused, Signal, Stop, current_job
from ._sync import Client
from ._task import Task
from ._values import ValueMismatch
from ._version import VERSION as __version__
from ._waited import Masked, NoResult, Result, Results, Waited, WaitedTasks

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
    "Kind",
    "Masked",
    "Next",
    "NoResult",
    "NotFound",
    "Refused",
    "Result",
    "Results",
    "Signal",
    "SignalError",
    "Stop",
    "SubmitFields",
    "Task",
    "TaskFailed",
    "TaskFields",
    "Time",
    "Unauthorized",
    "Unavailable",
    "Unreadable",
    "ValueMismatch",
    "Waited",
    "WaitedTasks",
    "__version__",
    "current_job",
]
