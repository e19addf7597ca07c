"""Notes of commands, and recent failures."""

from __future__ import annotations

import datetime as dt

import pytest
from conftest import Server

import windlass_tasks as windlass


def test_a_command_and_a_bulk_operation_have_a_note(server: Server) -> None:
    client = server.client()
    id = client.submit("a", paused=True)["id"]
    client.kill(id, note="not needed any more")
    assert client.commands(id)["commands"][-1]["note"] == "not needed any more"
    assert client.bulk("pause", {"kind": "nothing"}, note="why")["tasks"] == 0
    with pytest.raises(windlass.ApiError, match="note"):
        client.bulk("retry", {"kind": "nothing"}, note="why")  # No command would have the note.


def test_failures_are_counted_since_a_time(server: Server) -> None:
    client = server.client()
    assert client.failures("a", since="yesterday")["is_complete"]
    assert client.failures("a", since=dt.datetime.now())["is_complete"]
    with pytest.raises(TypeError, match=r"^since: datetime\.timedelta"):
        client.failures(since=dt.timedelta(hours=1))  # type: ignore[arg-type]
    with pytest.raises(windlass.ApiError, match="since"):
        client.failures(since="soon")
