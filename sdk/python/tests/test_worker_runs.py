"""Which runs a worker begins, and which it ends."""

from __future__ import annotations

from typing import Any

import windlass_tasks as windlass
from windlass_tasks._children import Run
from windlass_tasks._run import clock
from windlass_tasks._worker_runs import Runs


class Hosts:
    """Notes which handlers begin and which are aborted."""

    def __init__(self) -> None:
        self.begun, self.aborted = list[int](), list[int]()
        self.until = float("inf")

    def assign(self, run: Run) -> None:
        self.begun.append(run.claim["run"])

    def abort(self, run: Run, error: str | None = None) -> None:
        self.aborted.append(run.claim["run"])


def runs() -> tuple[Any, Hosts]:
    app = windlass.App()
    app.task("k")(lambda job: None)
    made, hosts = Runs(app), Hosts()
    made.hosts = hosts  # type: ignore[assignment]
    return made, hosts


def claims(*found: tuple[int, int]) -> dict[str, Any]:
    """The answer of a server with runs of a task: fence and run."""
    form = {"id": "a", "n": 1, "kind": "k", "grace_ms": 1000, "props": None, "attempt": 1, "incarnation": 0, "data_version": 1}
    return {"claims": [form | {"fence": fence, "run": run, "now": "2030-01-01T00:00:00Z"} for fence, run in found]}


def test_a_greater_run_of_a_claim_ends_the_handler_of_the_earlier_one() -> None:
    """Regression: a server that an exchange had reached late began run 4 while run 3 went on, and both handlers ran."""
    worker, hosts = runs()
    worker.start(claims((7, 3)))
    worker.start(claims((7, 4)))
    assert (hosts.begun, hosts.aborted) == ([3, 4], [3])
    assert [run.claim["run"] for run in worker.runs.values()] == [4]


def test_a_later_claim_of_a_task_ends_the_handler_of_the_earlier_one() -> None:
    worker, hosts = runs()
    worker.start(claims((7, 3)))
    worker.start(claims((9, 5)))
    assert (hosts.begun, hosts.aborted) == ([3, 5], [3])
    assert list(worker.runs) == [("a", 9)]


def test_a_run_that_arrives_after_a_greater_one_of_its_claim_is_ignored() -> None:
    worker, hosts = runs()
    worker.start(claims((7, 4)))
    worker.start(claims((7, 3), (7, 4)))
    assert (hosts.begun, hosts.aborted) == ([4], [])


def test_a_run_of_an_earlier_claim_that_arrives_late_is_ignored() -> None:
    """Regression: the handler of a claim that was over ran beside that of the live one."""
    worker, hosts = runs()
    worker.start(claims((9, 5)))
    worker.start(claims((7, 6)))
    assert (hosts.begun, hosts.aborted) == ([5], [])
    worker.lose("a", 9)
    worker.start(claims((7, 6)))
    assert hosts.begun == [5]


def test_a_run_whose_end_was_reported_is_not_aborted_by_the_next() -> None:
    worker, hosts = runs()
    worker.start(claims((7, 3)))
    worker.add(worker.runs["a", 7], "return", '{"message":"run"}')
    worker.start(claims((7, 4)))
    assert (hosts.begun, hosts.aborted) == ([3, 4], [])


def test_no_run_starts_from_an_answer_that_comes_after_the_lease() -> None:
    """Regression: another worker may have the task by then."""
    worker, hosts = runs()
    hosts.until = clock()
    worker.start(claims((7, 3)))
    assert (hosts.begun, list(worker.runs)) == ([], [])
    hosts.until = clock() + 60
    worker.start(claims((9, 5)))
    assert hosts.begun == [5]
