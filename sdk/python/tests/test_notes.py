"""Notes of commands, and recent failures."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from conftest import Server

import windlass_tasks as windlass
from windlass_tasks import _sync_calls


def test_a_command_and_a_bulk_operation_have_a_note(server: Server) -> None:
    client = server.client()
    id = client.submit("a", paused=True)["id"]
    client.kill(id, note="not needed any more")
    assert client.commands(id)["commands"][-1]["note"] == "not needed any more"
    assert client.bulk("pause", {"kind": "nothing"}, note="why")["tasks"] == 0
    with pytest.raises(windlass.ApiError, match="note"):
        client.bulk("retry", {"kind": "nothing"}, note="why")  # No command would have the note.


def test_a_datetime_of_a_filter_is_in_the_zone_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was sent without its zone, and read in that of the server."""
    client, sent = windlass.Client("http://127.0.0.1:1", token="t"), list[str]()

    def request(method: str, path: str, *_: Any, **query: Any) -> Any:
        sent.append(_sync_calls._query(query)["submitted_from"])
        return {"tasks": [], "next": None}

    monkeypatch.setattr(client, "_object", request)
    local = dt.datetime(2030, 1, 2, 3, 4, 5)
    assert not list(client.list(submitted_from=local))
    assert not list(client.list(submitted_from=local.replace(tzinfo=dt.timezone.utc)))
    assert sent == [local.astimezone().isoformat(), "2030-01-02T03:04:05+00:00"]
    with pytest.raises(TypeError, match=r"^submitted_from: datetime"):
        _sync_calls._query({"submitted_from": dt.timedelta(hours=1)})
    assert _sync_calls._query({"overlap": dt.timedelta(hours=1)}) == {"overlap": "3600000ms"}


def test_failures_are_counted_since_a_time(server: Server) -> None:
    client = server.client()
    assert client.failures("a", since="yesterday")["is_complete"]
    assert client.failures("a", since=dt.datetime.now())["is_complete"]
    with pytest.raises(TypeError, match=r"^since: datetime\.timedelta"):
        client.failures(since=dt.timedelta(hours=1))  # type: ignore[arg-type]
    with pytest.raises(windlass.ApiError, match="since"):
        client.failures(since="soon")
