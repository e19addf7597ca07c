"""With a codec, no value leaves a client or a handler in clear, and none is encoded twice."""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
import json
import pickle
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from conftest import Server, until
from test_client import Base64

import windlass_tasks as windlass
from windlass_tasks import testing
from windlass_tasks._codec import VALUES

SECRET = {"password": "hunter2"}
HANDLER = windlass.App(codec=Base64())
CLEAR = windlass.App()


class Salted(Base64):
    """A codec that encodes the same value differently each time, as encryption does."""

    def encode(self, value: Any) -> Any:
        return {**super().encode(value), "salt": str(uuid.uuid4())}


@HANDLER.task("sealed")
def sealed(job: windlass.Job[dict[str, str], Any]) -> None: ...


@CLEAR.task("clear")
def clear(job: windlass.Job[dict[str, str], Any]) -> None: ...


OPEN, OWN = windlass.Kind("other", dict), windlass.Kind("other", dict, codec=Base64())
SPEC = {"run": {"kind": "a", "props": SECRET, "labels": {"data": "x"}}, "cron": ["@daily"]}
NEW = [{"kind": "a", "props": SECRET}, OPEN.new(SECRET), OWN.new(SECRET), sealed.new(SECRET), clear.new(SECRET)]
OPERATIONS: list[dict[str, Any]] = [
    {"op": "submit", "id": "b", "kind": "a", "props": SECRET, "meta": {"result": "x"}},
    *({"op": "submit", **task} for task in NEW),
    {"op": "submit", "kind": "schedule", "props": SPEC},
    {"op": "send", "task": "a", "command": "signal", "name": "n", "payload": SECRET},
    {"op": "send", "task": "a", "command": "complete", "result": SECRET},
    {"op": "retry", "task": "a", "props": SECRET, "data": SECRET},
    {"op": "reschedule", "task": "a", "props": SECRET, "data": SECRET},
]
PATCH = [{"op": "replace", "path": "/props", "value": SECRET}, {"op": "add", "path": "/data", "value": SECRET}]
CALLS: dict[str, tuple[int, Callable[[Any], Any]]] = {
    "submit": (1, lambda client: client.submit("a", SECRET)),
    "submit of a Kind": (1, lambda client: client.submit(OPEN, SECRET)),
    "submit of a Kind with a codec": (1, lambda client: client.submit(OWN, SECRET)),
    "submit of a handler": (1, lambda client: client.submit(sealed, SECRET)),
    "submit of a handler without a codec": (1, lambda client: client.submit(clear, SECRET)),
    "submit of a schedule": (1, lambda client: client.submit("schedule", SPEC)),
    "submit_many": (6, lambda client: client.submit_many([*NEW, {"kind": "schedule", "props": SPEC}])),
    "transaction": (13, lambda client: client.transaction(OPERATIONS)),
    "transaction, dry": (13, lambda client: client.transaction(OPERATIONS, dry_run=True)),
    "patch": (2, lambda client: client.patch("a", PATCH)),
    "reschedule": (2, lambda client: client.reschedule("a", props=SECRET, data=SECRET, priority=1)),
    "retry": (2, lambda client: client.retry("a", props=SECRET, data=SECRET)),
    "command": (1, lambda client: client.command("a", "complete", result=SECRET)),
    "command to signal": (1, lambda client: client.command("a", "signal", name="n", payload=SECRET)),
    "signal": (1, lambda client: client.signal("a", "n", SECRET, wait=None)),
    "create_schedule": (1, lambda client: client.create_schedule("s", SPEC)),
    "create_schedule of a handler": (1, lambda client: client.create_schedule("s", {**SPEC, "run": sealed.new(SECRET)})),
    "create_schedule of a Kind": (1, lambda client: client.create_schedule("s", {**SPEC, "run": OPEN.new(SECRET)})),
    "create_schedule by kind": (1, lambda client: client.create_schedule("s", {"run": {"kind": sealed, "props": SECRET}})),
    "update_schedule": (1, lambda client: client.update_schedule("s", run=SPEC["run"])),
    "preview_schedule": (1, lambda client: client.preview_schedule(spec=SPEC)),
    "request": (1, lambda client: client.request("POST", "/tasks?x=1", {"kind": "a", "props": SECRET})),
    "request of a signal": (1, lambda client: client.request("POST", "/tasks/a/signals/n", SECRET, id="x")),
}


def answer(data: bytes) -> Any:
    body = json.loads(data)
    return [{"id": "a"}] * len(body) if isinstance(body, list) and "path" not in body[0] else {"id": "a"}


def sent(kind: str, codec: Any, call: Callable[[Any], Any]) -> bytes:
    """Returns the bytes that a call of a client sends."""
    bodies = []

    def send(method: str, target: str, data: bytes, *_: Any) -> Any:
        bodies.append(data)
        return answer(data)

    async def send_later(*arguments: Any) -> Any:
        return send(*arguments)

    if kind == "blocking":
        client = windlass.Client("http://localhost:1", codec=codec)
        client._send = send  # type: ignore[assignment, method-assign]
        call(client)
    else:
        other = windlass.AsyncClient("http://localhost:1", codec=codec)
        other._send = send_later  # type: ignore[assignment, method-assign]
        asyncio.run(call(other))
    (body,) = bodies
    return body


def values(body: Any) -> list[Any]:
    """Returns what has been encoded, decoded once."""
    if isinstance(body, dict):
        if "sealed" in body:
            return [Base64().decode(body)]
        return [value for one in body.values() for value in values(one)]
    return [value for one in body for value in values(one)] if isinstance(body, list) else []


@pytest.mark.parametrize("kind", ["blocking", "awaited"])
@pytest.mark.parametrize("name", CALLS)
def test_every_value_that_a_client_sends_is_encoded_once(kind: str, name: str) -> None:
    count, call = CALLS[name]
    for codec in (Base64(), Salted()):
        body = sent(kind, codec, call)
        assert b"hunter" not in body
        assert values(json.loads(body)) == [SECRET] * count
    assert b'"x"' in body or name not in ("create_schedule", "transaction")  # Labels and meta may have any names.


def test_every_method_with_a_value_is_among_those_that_are_tested() -> None:
    whole = {name for name, one in inspect.getmembers(windlass.Client, inspect.isfunction) if not name.startswith("_")}
    takes = {"spec", "props", "payload", "tasks", "lines", "operations", "body", "fields"}
    found = {name for name in whole if takes & set(inspect.signature(getattr(windlass.Client, name)).parameters)}
    without = {"change_schedule", "new_token", "node_command", "purge", "set_mask", "bulk"}  # None of these has a value.
    assert found - without == {name.split(" ")[0].split(",")[0] for name in CALLS}


def test_without_a_codec_the_handler_and_the_kind_encode_with_theirs() -> None:
    for name in ("submit of a Kind with a codec", "submit of a handler", "create_schedule of a handler", "create_schedule by kind"):
        assert values(json.loads(sent("blocking", None, CALLS[name][1]))) == [SECRET]
    assert json.loads(sent("blocking", None, CALLS["transaction"][1]))["lines"][0] == OPERATIONS[0]


@pytest.mark.parametrize("field", ["path", "from"])
@pytest.mark.parametrize("pointer", ["/props/password", "/data/0", "", "/labels/a"])
def test_a_patch_below_an_encoded_value_is_refused(field: str, pointer: str) -> None:
    patch = [PATCH[0], {**PATCH[1], field: pointer}]
    with pytest.raises(ValueError, match=rf"operations\[1\]\.{field}: '{pointer}' is not .*replace the whole"):
        sent("blocking", Base64(), lambda client: client.patch("a", patch))
    assert json.loads(sent("blocking", None, lambda client: client.patch("a", patch))) == patch
    for wrong in ({"props": SECRET}, [SECRET["password"]]):
        with pytest.raises(ValueError, match="a JSON Patch is a list of objects"):
            sent("blocking", Base64(), functools.partial(windlass.Client.request, method="PATCH", path="/tasks/a", body=wrong))


def test_a_comparison_with_what_is_encoded_differently_each_time_is_refused() -> None:
    lines = [{"op": "require", "task": "a", "data": SECRET}]
    with pytest.raises(ValueError, match=r"lines\[0\]\.data: .* differently each time, .* require the `version`"):
        sent("blocking", Salted(), lambda client: client.transaction(lines))
    patch = [{**PATCH[0], "op": "test"}]
    with pytest.raises(ValueError, match=r"operations\[0\]\.value: .* differently each time"):
        sent("blocking", Salted(), lambda client: client.patch("a", patch))
    assert values(json.loads(sent("blocking", Base64(), lambda client: client.transaction(lines)))) == [SECRET]
    assert values(json.loads(sent("blocking", Base64(), lambda client: client.patch("a", patch)))) == [SECRET]


class As(Base64):
    """A codec that returns another type of JSON."""

    def __init__(self, made: Any) -> None:
        self.made = made

    def encode(self, value: Any) -> Any:
        return self.made


@pytest.mark.parametrize("made", [{"a": 1}, [1], (1,), "text", 7, 1.5])
def test_what_is_encoded_is_marked_whatever_it_is(made: Any) -> None:
    task = windlass.Kind("other", dict, codec=As(made)).new(SECRET)
    wanted = json.loads(json.dumps(made))
    assert task["props"] == wanted
    for same in (task, copy.deepcopy(task), pickle.loads(pickle.dumps(task)), {**task}):
        assert (
            json.loads(sent("blocking", Base64(), functools.partial(windlass.Client.submit_many, tasks=[same])))[0]["props"]
            == wanted
        )
    within = sent("blocking", Base64(), lambda client: client.submit("a", {"next": task}))
    assert values(json.loads(within)) == [{"next": {"kind": "other", "props": wanted}}]  # A value of another value is no task.


def test_a_codec_that_returns_no_json_is_named() -> None:
    with pytest.raises(TypeError, match=r"props: the codec has returned <class 'bytes'>"):
        sent("blocking", As(b"bytes"), lambda client: client.submit("a", SECRET))


def test_null_that_changes_nothing_is_not_encoded() -> None:
    changed = json.loads(sent("blocking", Base64(), lambda client: client.retry("a", props=None, data=None)))
    assert changed == {"props": None, "data": None}
    assert values(json.loads(sent("blocking", Base64(), lambda client: client.submit("a")))) == [None]
    assert values(json.loads(sent("blocking", Base64(), lambda client: client.command("a", "complete", result=None)))) == [None]


def test_fields_of_a_value_are_no_fields_of_the_request() -> None:
    result = {"start": 5, "until": 1.5, "name": "a"}
    body = sent("blocking", None, lambda client: client.command("a", "complete", result=result))
    assert json.loads(body)["result"] == result


@HANDLER.task("sends", signals=True)
def sends(job: windlass.Job[dict[str, str], Any]) -> windlass.Next[Any]:
    job.submit("a", SECRET)
    job.submit(OPEN, SECRET)
    job.submit(sealed, SECRET)
    job.submit("schedule", {"run": sealed.new(SECRET), "cron": ["@daily"]})
    for operation in OPERATIONS:
        job.effect(operation)
    job.reply_later(job.signals[0], SECRET)
    return windlass.Next({**job.pause(SECRET).message, "effects": [*job._effects, *OPERATIONS]})


def test_every_value_that_a_handler_sends_is_encoded_once() -> None:
    life = testing.run(sends, SECRET, signals=[("a", SECRET)])
    message = life.messages[0]
    assert "hunter" not in json.dumps(message)
    assert values(message) == [SECRET] * (1 + 4 + 13 + 13 + 1)
    assert life.replies == {"a": SECRET}


def test_the_server_has_only_what_the_codec_returns(server: Server) -> None:
    server.work("sealed.py")
    client, plain = server.client(codec=Salted()), server.client()
    client.submit("sealed", SECRET, id="other")
    client.submit("forward", SECRET, id="forward")
    echo = windlass.Kind("echo", dict)
    client.submit_many([echo.new(SECRET, id="by-many"), {"kind": "echo", "id": "without"}])
    client.transaction([{"op": "submit", "kind": "echo", "id": "by-line", "props": SECRET}])
    client.submit("echo", 1, id="by-patch", start_at=3600)
    client.patch("by-patch", [{"op": "replace", "path": "/props", "value": SECRET}])
    client.reschedule("by-patch", due=0)
    client.create_schedule("s", {"run": echo.new(SECRET), "cron": ["@yearly"]})
    client.change_schedule("s", "trigger")
    assert client.result("forward", 20) == SECRET
    assert client.result("other", 20) == SECRET
    for id in ("by-many", "by-line", "by-patch", "by-submit", "by-effect", "by-new"):
        assert client.result(id, 20) == [SECRET]
    assert client.result("without", 20) == [None]
    (run,) = client.schedule("s")["runs"]
    assert client.result(run["task"] if isinstance(run, dict) else run, 20) == [SECRET]
    assert client.schedule("by-schedule")["spec"]["run"]["props"] == SECRET
    stored = [plain.get(task["id"]) for task in plain.list()] + [plain.schedules(), plain.commands("other")]
    assert len(stored) >= 14 and "hunter" not in json.dumps(stored)


def test_a_signal_without_a_payload_is_read_with_a_codec(server: Server) -> None:
    server.client(codec=Base64()).submit("echo", SECRET, id="one", start_at=3600)
    server.client().signal("one", "poke", wait=None)
    server.work("sealed.py")
    assert server.client(codec=Base64()).result("one", 20) == [SECRET, None]


def test_a_schedule_is_read_with_a_codec_and_written_again(server: Server) -> None:
    client, plain = server.client(codec=Base64()), server.client()
    client.create_schedule("s", SPEC)
    for _ in range(2):
        spec = client.schedule("s")["spec"]
        assert spec["run"]["props"] == SECRET
        client.create_schedule("s", spec, if_exists="update")
        assert client.update_schedule("s", run=spec["run"])["spec"]["run"]["props"] == SECRET
    assert Base64().decode(plain.schedule("s")["spec"]["run"]["props"]) == SECRET
    plain.create_schedule("clear", SPEC)
    shown = {one["id"]: one["spec"]["run"]["props"] for one in client.schedules()["schedules"]}
    assert shown == {"s": SECRET, "clear": SECRET}
    assert client.get("s")["data"]["spec"]["run"]["props"] == SECRET
    (task, _) = client.list(kind="schedule")
    assert task["props"]["run"]["props"] == SECRET and "unreadable" not in task

    async def awaited() -> None:
        async with windlass.AsyncClient(server.url, server.token, codec=Base64()) as other:
            assert (await other.schedule("s"))["spec"]["run"]["props"] == SECRET

    asyncio.run(awaited())
    plain.set_mask("a", ["/props"])
    until("the mask", lambda: "$windlass" in plain.schedule("s")["spec"]["run"]["props"])
    with pytest.raises(ValueError, match=r"run\.props: .* in place of a value that a mask hides"):
        client.update_schedule("s", run=client.schedule("s")["spec"]["run"])


def test_the_values_of_requests_are_known() -> None:
    """A field of the reference that takes any JSON is one that passes through the codec, or known as another one."""
    from conftest import HERE

    schemas = HERE.parents[2] / "docs" / "reference" / "schemas"
    found = set()
    for name in ("task", "operation", "message", "schedule"):
        schema = json.loads((schemas / f"{name}.json").read_text())
        found |= set(_any_fields(schema))
    assert found - {"earlier", "schema"} == set(VALUES)


def _any_fields(schema: Any) -> list[str]:
    if isinstance(schema, list):
        return [name for one in schema for name in _any_fields(one)]
    if not isinstance(schema, dict):
        return []
    here = [name for name, one in schema.get("properties", {}).items() if one is True or _is_any(one)]
    return here + [name for one in schema.values() for name in _any_fields(one)]


def _is_any(one: Any) -> bool:
    return isinstance(one, dict) and not set(one) - {"description", "title", "default"}
