"""What an answer says: texts that no server has written, and values that Python does not read."""

from __future__ import annotations

import datetime as dt
import email.utils
import json
from typing import Any

import pytest

import windlass_tasks as windlass
from windlass_tasks import _answers

DIGITS = "7" * 5000


def text(value: Any) -> str:
    """A text of JSON in which `BIG` is an integer that Python does not read."""
    return json.dumps(value).replace('"BIG"', DIGITS)


def test_what_cannot_be_read_is_missing_and_all_else_is_there() -> None:
    claim = {"id": "a", "props": ["BIG", '"}],{\\'], "data": {"x": [1, {}], 'ü\ud800"': []}}
    whole = _answers.salvaged(text({"n": 1, "claims": [claim, {"id": "b", "e": {}, "l": []}], "none": []}), 3)
    first, second = whole["claims"]
    assert whole["n"] == 1 and whole["none"] == []
    assert second == {"id": "b", "e": {}, "l": []}
    assert isinstance(first["props"], _answers.Missing) and "5000 digits" in first["props"].why
    assert first["data"] == claim["data"]
    assert isinstance(_answers.salvaged(text({"claims": [claim]}), 1)["claims"], _answers.Missing)
    for wrong in (DIGITS, "", " ", "[" + DIGITS, "[" + DIGITS + ",", '{"a"', '{"a":' + DIGITS + " 5"):
        found = _answers.salvaged(wrong, 3)
        assert isinstance(found, _answers.Missing), (wrong[:5], found)
    assert isinstance(_answers.salvaged(f" [ {DIGITS} , 5 ] ", 3)[0], _answers.Missing)
    deep = _answers.salvaged('{"a": ' + "[" * 200_000 + "]" * 200_000 + ', "b": 2}', 1)
    assert isinstance(deep["a"], _answers.Missing) and deep["b"] == 2


@pytest.mark.parametrize("wrong", [b"", b"<html>", b'{"a":', b"\xff\xfe\xfa", b"nothing"])
def test_a_text_that_is_no_json_is_not_that_of_a_server(wrong: bytes) -> None:
    with pytest.raises(windlass.Unavailable, match="not that of a windlass server"):
        _answers.value(wrong)
    assert _answers.problem(wrong) is None


@pytest.mark.parametrize("wrong", [[], None, "a", {}, {"n": "1"}, {"n": None}])
def test_an_answer_of_another_shape_is_not_that_of_a_server(wrong: Any) -> None:
    with pytest.raises(windlass.Unavailable, match="not that of a windlass server"):
        _answers.shaped(wrong, {"n": int})
    assert _answers.problem(json.dumps(wrong).encode()) is None


def test_a_value_that_python_does_not_read_is_an_error_of_its_own() -> None:
    with pytest.raises(windlass.Unreadable, match="5000 digits"):
        _answers.value(text(["BIG"]).encode())


def test_a_claim_with_a_value_that_cannot_be_read_is_held_and_says_why() -> None:
    found = {"id": "a", "fence": 1, "run": 2, "n": 5, "kind": "k", "grace_ms": 1000, "signals": [{"order": 3}]}
    claim, why = _answers.claim(found)
    assert why == "" and claim == found
    claim, why = _answers.claim({"id": "a", "fence": 1, "run": 2})
    assert (claim["n"], claim["kind"], claim["grace_ms"], claim["signals"], why) == (1, "", 30_000, [], "")
    for field in ("props", "data", "signals", "waited", "grace_ms", "n"):
        claim, why = _answers.claim({**found, field: _answers.Missing("too large")})
        assert why == f"{field}: cannot be read: too large"
        assert (claim["id"], claim["fence"], claim["run"]) == ("a", 1, 2)
    others: list[dict[str, Any]] = [{"signals": {}}, {"signals": [5]}, {"signals": [{}]}, {"n": "1"}, {"kind": 7}]
    for wrong in others:
        claim, why = _answers.claim({**found, **wrong})
        assert "cannot be read" in why
        assert claim["signals"] in ([], found["signals"])


def test_entries_without_their_fields_are_left_out() -> None:
    answer = {"lost": [{"id": "a", "fence": 1}, {"id": "b"}, 5, None, {"id": _answers.Missing(""), "fence": 2}], "stop": 7}
    assert list(_answers.entries(answer, "lost", {"id": str, "fence": int})) == [{"id": "a", "fence": 1}]
    assert list(_answers.entries(answer, "stop", {})) == list(_answers.entries(answer, "claims", {})) == []


def test_retry_after_is_a_number_or_a_date_and_has_bounds() -> None:
    def pause(retry_after: str, **more: str) -> float:
        return _answers.pause({"retry-after": retry_after, **more}, 0.25)

    assert (pause("2"), pause(" 7 "), pause("0"), pause("")) == (2.0, 7.0, 0.25, 0.25)
    now = dt.datetime(2026, 7, 1, 12, 0, 0, tzinfo=dt.timezone.utc)
    at = {"date": email.utils.format_datetime(now, usegmt=True)}  # The clock of the server, not that of this machine.
    for seconds, wanted in ((5, 5.0), (-5, 0.25), (86400, 60.0)):
        assert pause(email.utils.format_datetime(now + dt.timedelta(seconds=seconds), usegmt=True), **at) == wanted
    assert 25 < pause(email.utils.formatdate(dt.datetime.now().timestamp() + 30, usegmt=True)) <= 30
    assert pause("Sunday, 06-Nov-94 08:49:37 GMT") == 0.25
    assert pause("9" * 5000) == 60.0
    for wrong in ("soon", "-1", "1.5", "nan", "inf", "\u0661", "Wed, 99 Foo 2026 99:99:99 GMT", "Wed, 21 Oct 9999999 07:28:00 GMT"):
        assert pause(wrong) == 0.25, wrong
    assert pause(email.utils.format_datetime(now, usegmt=True), date="yesterday") == 0.25
