"""The errors of the client. Each can be pickled: it may cross the border of a process."""

from __future__ import annotations

from typing import Any


def _made(kind: type[BaseException], args: tuple[Any, ...], state: dict[str, Any]) -> BaseException:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class Pickles(BaseException):
    """An exception that is copied and unpickled without a call of `__init__`, whose parameters are not `args`."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (type(self), self.args, self.__dict__.copy())


class Unavailable(ConnectionError):
    """No server has answered in time, or each one is busy."""


class Unreadable(Pickles, ValueError):
    """An answer has a value that Python does not read, such as an integer of more than 4,300 digits.

    `answer` is the body of the answer."""

    def __init__(self, text: str, answer: bytes = b"") -> None:
        super().__init__(text)
        self.answer = answer


class ApiError(Pickles, Exception):
    """A server has refused a request. `code` is for programs, and `field` names what is wrong."""

    def __init__(self, status: int, problem: dict[str, Any], target: str) -> None:
        self.status, self.problem, self.target = status, problem, target
        self.code: str = problem.get("code", "")
        self.field: str | None = problem.get("field")
        self.detail: str = problem.get("detail") or problem.get("title") or f"status {status}"
        super().__init__(f"{self.detail} ({status} {self.code or target})".strip())


class NotFound(ApiError):
    """There is no such task, schedule, token, …, or the token may not see it."""


class Exists(ApiError):
    """The id is taken by another task. `if_exists="same"` makes a second submit of the same task harmless."""


class Invalid(ApiError):
    """The request is wrong: `field` says where."""


class Unauthorized(ApiError):
    """The token is missing or not valid."""


class Forbidden(ApiError):
    """The token does not allow it."""


CODES: dict[str, type[ApiError]] = {
    "not_found": NotFound,
    "exists": Exists,
    "invalid": Invalid,
    "unauthorized": Unauthorized,
    "forbidden": Forbidden,
}


class TaskFailed(Pickles, Exception):
    """A task that was waited for has failed or was killed. `task` is the whole task."""

    def __init__(self, id: str, task: dict[str, Any]) -> None:
        errors = task.get("errors") or []
        last = f": {errors[-1].get('error')}" if errors and task["state"] == "failed" else ""
        super().__init__(f"task {id} has {task['state']}{last}" if last else f"task {id} was {task['state']}")
        self.id, self.task = id, task


class SignalError(Pickles, Exception):
    """A signal has got no reply: the handler returned without one, or the task ended or takes no signals."""

    def __init__(self, id: str, name: str, outcome: dict[str, Any]) -> None:
        why = outcome.get("reason") or outcome.get("outcome")
        super().__init__(f"task {id} did not reply to the signal {name}: {why}")
        self.id, self.name, self.outcome = id, name, outcome
