"""Options of a wrong type or size: the error names the option before anything happens."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from typing import Any

import pytest

import windlass_tasks as windlass
from windlass_tasks import testing

NAN = float("nan")
DAY = dt.timedelta(days=1)


def refused(name: str, call: Callable[[], Any]) -> None:
    with pytest.raises((TypeError, ValueError), match=rf"^{re.escape(name)}: "):
        call()


@pytest.mark.parametrize("given", [1.5, True, "5", NAN, 0, -1, [], DAY], ids=repr)
@pytest.mark.parametrize("name", ["max_tasks", "processes"])
def test_a_number_of_an_app_is_a_whole_number(name: str, given: Any) -> None:
    refused(name, lambda: windlass.App(**{name: given}))


@pytest.mark.parametrize("name, given", [("ttl", "5"), ("ttl", NAN), ("ttl", True), ("log_level", "INFO"), ("log_level", True)])
def test_an_option_of_an_app_of_a_wrong_type_is_named(name: str, given: Any) -> None:
    refused(name, lambda: windlass.App(**{name: given}))


WRONG: dict[str, list[Any]] = {
    "slots": [1.5, True, "5", 0, 1001],
    "data_version": [1.5, True, "2", 0],
    "stall_after": [60, "1m", True, dt.timedelta(), -DAY, dt.timedelta.max],
    "grace": [60, "1m", None, -DAY, dt.timedelta.max],
    "signals": [1, "yes"],
    "interrupt": [0, None],
    "fail_on": [KeyError, "KeyError", (1,)],
    "retry_on": [OSError, [OSError]],
}


@pytest.mark.parametrize("name, given", [(name, one) for name, wrong in WRONG.items() for one in wrong], ids=repr)
def test_an_option_of_a_handler_of_a_wrong_type_is_named(name: str, given: Any) -> None:
    refused(name, lambda: windlass.App().task("a", **{name: given}))


LENGTHS = ["5", True, NAN, -1, -DAY, 1e300, float("inf"), dt.timedelta.max, []]


@pytest.mark.parametrize("given", LENGTHS, ids=repr)
def test_a_length_of_time_of_a_wait_is_named_when_it_is_wrong(given: Any) -> None:
    app = windlass.App()

    @app.task("a", signals=True)
    def waits(job: windlass.Job[str, None]) -> Any:
        if job.props == "wait":
            job.wait(given)
        return job.wait_for("b", within=given) if job.props == "tasks" else job.wait_for_signal("b", within=given)

    for props, name in (("wait", "seconds"), ("tasks", "within"), ("signal", "within")):
        (error,) = testing.run(waits, props).errors
        assert re.match(rf"(Type|Value)Error: {name}: ", error), error


@pytest.mark.parametrize("given", ["5", True, NAN, -1, -DAY, 1e300, dt.timedelta.max, []], ids=repr)
def test_a_length_of_time_of_a_client_is_named_when_it_is_wrong(given: Any) -> None:
    client = windlass.Client("http://127.0.0.1:1", timeout=0.1)
    refused("timeout", lambda: windlass.Client(timeout=given))
    refused("timeout", lambda: client.result("a", given))
    refused("wait", lambda: client.pause("a", wait=given))
    refused("wait", lambda: client.signal("a", "b", wait=given))
    refused("wait", lambda: client.request("GET", "/counts", wait=given))
    refused("within", lambda: client.request("GET", "/counts", within=given))


@pytest.mark.parametrize("given", [True, NAN, 1e300, float("inf"), dt.timedelta.max, [], None], ids=repr)
def test_a_time_is_named_when_it_is_wrong(given: Any) -> None:
    app = windlass.App()

    @app.task("a")
    def sleeps(job: windlass.Job[None, None]) -> Any:
        return job.sleep(given)

    (error,) = testing.run(sleeps, None).errors
    assert re.match("(Type|Value)Error: until: ", error), error
    if isinstance(given, (float, dt.timedelta)):
        refused("start_at", lambda: windlass.Kind("a", str).new("x", start_at=given))


def test_a_time_that_is_over_is_now() -> None:
    assert windlass.Kind("a", str).new("x", start_at=-DAY)["start_at"] == "in 0ms"
    assert windlass.Kind("a", str).new("x", start_at=-5)["start_at"] == "in 0ms"
