"""Schedules that a program declares at each of its starts."""

from __future__ import annotations

import asyncio
import datetime as dt
from typing import Any

from conftest import Server

import windlass_tasks as windlass
from windlass_tasks._forms import SPEC

FULL: dict[str, Any] = {
    "run": {"kind": "a", "priority": 5, "labels": {"team": "x"}, "props": {"of": "sales"}},
    "description": "the first version",
    "cron": ["0 4 * * *"],
    "every": [{"interval": dt.timedelta(minutes=15)}],
    "at": ["2040-01-01T00:00:00Z"],
    "zone": "Europe/Oslo",
    "start": "2030-01-01T00:00:00Z",
    "end": "2050-01-01T00:00:00Z",
    "except": {"dates": ["2031-12-25"]},
    "offset": dt.timedelta(minutes=1),
    "jitter": dt.timedelta(minutes=1),
    "start_within": dt.timedelta(hours=1),
    "end_within": dt.timedelta(hours=2),
    "missed": {"run": "all", "within": dt.timedelta(hours=2)},
    "overlap": "kill",
    "gap": "skip",
    "fold": "both",
    "count": 7,
    "pause_on_failure": True,
}
NEW = {"run": {"kind": "b"}, "cron": ["30 2 * * *"]}


def spec_of(client: windlass.Client, id: str) -> Any:
    spec = client.schedule(id)["spec"]
    assert spec.pop("since")
    return spec


def test_a_declared_schedule_has_no_field_of_its_earlier_spec(server: Server) -> None:
    client = server.client()
    for id in ("blocking", "awaited"):
        client.create_schedule(id, FULL, if_exists="update")
        assert sorted(spec_of(client, id)) == sorted(SPEC)
    answer = client.create_schedule("blocking", NEW, if_exists="update")
    assert answer["id"] == "blocking"

    async def awaited() -> None:
        async with windlass.AsyncClient(server.url, server.token) as other:
            await other.create_schedule("awaited", NEW, if_exists="update")

    asyncio.run(awaited())
    for id in ("blocking", "awaited"):
        assert spec_of(client, id) == NEW
    client.update_schedule("blocking", zone="Europe/Oslo", count=None)  # This one keeps what is not given.
    assert spec_of(client, "blocking") == {**NEW, "zone": "Europe/Oslo"}


def test_a_declared_schedule_keeps_its_state_and_what_it_has_done(server: Server) -> None:
    client = server.client()
    client.create_schedule("one", {**FULL, "count": 2})
    client.change_schedule("one", "trigger")
    client.change_schedule("one", "pause", note="a")
    counts = client.schedule("one")["counts"]
    client.create_schedule("one", NEW, if_exists="update")
    found = client.schedule("one")
    assert (found["state"], found["counts"]) == ("paused", counts)


def test_the_fields_of_a_spec_are_those_of_the_server(server: Server) -> None:
    schemas = server.client().see("openapi.json")["components"]["schemas"]
    assert {*SPEC, "since", "earlier"} == set(schemas["ScheduleFields"]["properties"])
