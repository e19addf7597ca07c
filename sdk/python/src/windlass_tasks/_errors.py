"""The errors of the client."""

from __future__ import annotations

from typing import Any


class Unavailable(ConnectionError):
    """No server has answered in time, or each one is busy."""


class ApiError(Exception):
    """A server has refused a request. `code` is for programs, and `field` names what is wrong."""

    def __init__(self, status: int, problem: dict[str, Any], target: str) -> None:
        self.status, self.problem = status, problem
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


class TaskFailed(Exception):
    """A task that was waited for has failed or was killed. `task` is the whole task."""

    def __init__(self, id: str, task: dict[str, Any]) -> None:
        errors = task.get("errors") or []
        last = f": {errors[-1].get('error')}" if errors and task["state"] == "failed" else ""
        super().__init__(f"task {id} has {task['state']}{last}" if last else f"task {id} was {task['state']}")
        self.id, self.task = id, task


class SignalError(Exception):
    """A signal has got no reply: the handler returned without one, or the task ended or takes no signals."""

    def __init__(self, id: str, name: str, outcome: dict[str, Any]) -> None:
        why = outcome.get("reason") or outcome.get("outcome")
        super().__init__(f"task {id} did not reply to the signal {name}: {why}")
        self.outcome = outcome
