"""The clients: every request of the API, its errors, and servers that fail."""

from __future__ import annotations

import asyncio
import base64
import concurrent.futures
import datetime as dt
import http.server
import inspect
import json
import pathlib
import re
import subprocess
import sys
import threading
from typing import Any, ClassVar

import pytest
from conftest import HERE, Server, until

import windlass_tasks as windlass

UTC = dt.timezone.utc


def test_the_client_that_blocks_is_made_of_the_other() -> None:
    names = [{name for name, _ in inspect.getmembers(kind, inspect.isfunction)} for kind in (windlass.Client, windlass.AsyncClient)]
    assert {re.sub("^__a", "__", name) for name in names[1]} == names[0]


def test_every_request_of_the_api_has_a_method(server: Server) -> None:
    """Calls every method, and compares the requests with those that the server lists."""
    client, sent = server.client(), set[str]()
    whole = client.request

    def request(method: str, path: str, *arguments: Any, **more: Any) -> Any:
        sent.add(f"{method} /v1{path}")
        return whole(method, path, *arguments, **more)

    client.request = request  # type: ignore[method-assign]
    assert client.submit("a", {"x": 1}, id="one", labels={"team": "a"}) == {"id": "one", "submitted": "new"}
    many = client.submit_many([{"kind": "a", "id": f"m{n}"} for n in range(3)] + [{"kind": 7}])
    assert [one.get("submitted") or one["code"] for one in many] == ["new", "new", "new", "invalid"]
    assert client.get("one")["props"] == {"x": 1}
    assert [task["id"] for task in client.list(label="team=a")] == ["one"]
    assert len(list(client.list(kind="a", limit=2))) == 4
    client.reschedule("one", due=dt.timedelta(hours=1), priority=3)
    client.patch("one", [{"op": "replace", "path": "/props/x", "value": 2}])
    assert client.get("one")["props"] == {"x": 2}
    assert client.why("one") and client.why()
    assert client.graph("one") and client.history("one")["changes"]
    assert client.log("one")["lines"] == []
    assert client.command("one", "pause")["task"] == "one"
    assert client.resume("one") and client.commands("one")["commands"]
    command = client.commands("one")["commands"][0]
    assert client.request("GET", f"/commands/{command['id']}")
    with pytest.raises(TimeoutError, match="has not replied"):
        client.signal("m0", "hello", wait=0.2)
    client.transaction([{"op": "delete", "task": "m1"}], dry_run=True)
    client.transaction([{"op": "delete", "task": "m1"}], id="once")
    client.transaction([{"op": "submit", "kind": "a", "id": "m1"}])
    client.kill("m2")
    client.delete("m1")
    with pytest.raises(windlass.ApiError, match="is runnable; retry starts only tasks that have ended") as live:
        client.retry("m0")
    # The request is right; the state of the task is not.
    assert (live.value.status, live.value.code, live.value.field) == (409, "state", "state")
    assert not isinstance(live.value, windlass.Invalid)
    # Schedules
    spec = {"run": {"kind": "a"}, "cron": ["30 2 * * *"]}
    assert client.create_schedule("nightly", spec)["id"] == "nightly"
    assert client.schedules()["schedules"] and client.schedule("nightly") and client.schedule_times("nightly", 2)
    assert client.preview_schedule(spec=spec)
    client.update_schedule("nightly", cron=["0 4 * * *"])
    for action, fields in (("trigger", {}), ("skip", {}), ("pause", {"note": "a"}), ("resume", {})):
        client.change_schedule("nightly", action, **fields)
    client.change_schedule("nightly", "backfill", **{"from": "3d ago", "to": "now", "dry_run": True})
    client.delete_schedule("nightly")
    # The namespace
    assert client.counts()["counts"] and client.scale("a")["kind"] == "a"
    assert client.failures("a", 5)["is_complete"]
    counted = client.bulk("kill", {"kind": "nothing"})
    assert counted["tasks"] == 0
    assert client.bulk("kill", {"kind": "nothing"}, tasks=0, key=counted["key"])["id"].startswith("bulk-")
    assert [window["name"] for window in client.activity()["windows"]] == ["10s", "1m", "10m", "1h"]
    for what in ("stats", "limits", "nodes", "audit", "doctor", "servers", "time", "masks", "tokens", "openapi.json"):
        assert client.see(what) is not None
    assert client.request("GET", "")["requests"]
    client.set_mask("secret", ["/props/password"])
    client.remove_mask("secret")
    assert client.new_token("ci", "read")["secret"] and client.rotate_token("ci", "1m")["secret"]
    client.revoke_token("ci")
    assert client.purge(states=["completed"], older_than="30d") == {"deleted": 0}
    nodes = client.see("nodes")["nodes"]
    node = nodes[0]["name"] if nodes else "none"
    try:
        order = client.node_command(node, "balance")["order"]
        client.node_answer(order)
    except windlass.NotFound:
        with pytest.raises(windlass.NotFound):
            client.node_answer(1)
    size = client.backup(server.folder / "copy.db")
    sent.add("GET /v1/backup")
    assert size == (server.folder / "copy.db").stat().st_size > 4096
    with pytest.raises(FileExistsError):
        client.backup(server.folder / "copy.db")
    seen = next(client.changes(after=0))
    sent.add("GET /v1/changes")
    assert seen["what"] == "submitted"

    made = [(one.split(" ")[0], one.split(" ")[1]) for one in sent]
    for path, methods in client.see("openapi.json")["paths"].items():
        pattern = re.compile(re.sub(r"\{\w+\}", "[^/]+", path) + "$")
        for method in methods:
            if "/workers" in path or method == "parameters":
                continue
            assert any(one == method.upper() and pattern.match(at.split("?")[0]) for one, at in made), f"{method} {path}"


def test_the_asynchronous_client_does_the_same(server: Server) -> None:
    async def main() -> None:
        async with windlass.AsyncClient(server.url, server.token) as client:
            await client.submit("a", 1, id="one", start_at=dt.datetime(2040, 1, 1, tzinfo=UTC))
            assert (await client.get("one"))["state"] == "sleeping"
            assert [task["id"] async for task in client.list(kind="a")] == ["one"]
            async for change in client.changes(after=0):
                assert change["task"] == "one"
                break
            with pytest.raises(TimeoutError):
                await client.result("one", 0.1)
            with pytest.raises(windlass.NotFound):
                await client.get("none")

    asyncio.run(main())


def test_errors_have_types_and_name_the_field(server: Server) -> None:
    client = server.client()
    client.submit("a", 1, id="one")
    with pytest.raises(windlass.Exists):
        client.submit("a", 2, id="one")
    assert client.submit("a", 1, id="one", if_exists="same")["submitted"] == "existing"
    with pytest.raises(windlass.Invalid) as wrong:
        client.submit("a", 1, priority="high")  # type: ignore[call-overload]
    assert wrong.value.field == "priority"
    with pytest.raises(windlass.NotFound):
        client.get("two")
    with pytest.raises(windlass.Unauthorized):
        windlass.Client(server.url, "wlt_" + "0" * 64).counts()
    reader = windlass.Client(server.url, server.new_token("reader", "read"))
    with pytest.raises(windlass.Forbidden):
        reader.submit("a")
    client.kill("one", wait=1)
    with pytest.raises(TypeError, match=r"props\.x: a value of .* cannot be stored"):
        client.submit("a", {"x": object()})
    with pytest.raises(ValueError, match=r"props\[1\]: nan is not a number of JSON"):
        client.submit("a", [1.0, float("nan")])
    for id in ("", None):
        with pytest.raises(ValueError, match="an id or a name is a text"):
            client.get(id)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="the URL of a server is like"):
        windlass.Client("localhost:7474")


def test_ids_are_quoted(server: Server) -> None:
    client = server.client()
    for id in ("with space", "a?b", "ü%41", "a#b"):
        client.submit("a", id=id)
        assert client.get(id)["id"] == id
        client.delete(id)


def test_the_unix_socket_needs_no_token(server: Server) -> None:
    client = windlass.Client(f"unix:{server.folder}/s0/w.sock", "")
    client.submit("a", id="one")
    assert client.get("one")["kind"] == "a"


def test_a_request_goes_to_the_next_server(server: Server) -> None:
    server.start(1)
    client = windlass.Client(server.urls, server.token)
    client.submit("a", id="one")
    server.kill(0)
    assert client.submit("a")["submitted"] == "new"
    assert client.get("one")["id"] == "one"
    server.kill(1)
    brief = windlass.Client(server.urls, server.token, timeout=0.5)
    with pytest.raises(windlass.Unavailable, match=r"no server has carried out the request in 0\.5 s"):
        brief.get("one")
    timer = threading.Timer(1.0, server.start, [0])
    timer.start()
    assert client.get("one")["id"] == "one"
    timer.join()


def test_a_lost_answer_submits_once(server: Server) -> None:
    """A proxy that cuts the first answer off: the request is sent again, and has one effect."""
    import socket

    listen = socket.create_server(("127.0.0.1", 0))
    cuts = [True, False]

    def proxy() -> None:
        for cut in cuts:
            link, _ = listen.accept()
            with socket.create_connection(("127.0.0.1", server.ports[0])) as up:
                request = b""
                while b"}" not in request:
                    request += link.recv(65536)
                up.sendall(request)
                answer = up.recv(65536)
                link.sendall(b"" if cut else answer)
            link.close()

    threading.Thread(target=proxy, daemon=True).start()
    client = windlass.Client(f"http://127.0.0.1:{listen.getsockname()[1]}", server.token)
    sent = client.submit("a", {"x": 1})
    tasks = list(server.client().list(kind="a"))
    assert [task["id"] for task in tasks] == [sent["id"]]


def test_a_client_is_shared_by_threads(server: Server) -> None:
    client = server.client()
    ids = [client.submit("a", n, id=f"t{n}")["id"] for n in range(20)]

    def get(id: str) -> bool:
        return all(client.get(id)["id"] == id for _ in range(20))

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert all(pool.map(get, ids))


def test_an_asynchronous_client_takes_many_requests_at_once(server: Server) -> None:
    async def main() -> None:
        async with windlass.AsyncClient(server.url, server.token) as client:
            made = await asyncio.gather(*(client.submit("a", n, id=f"t{n}") for n in range(50)))
            assert [one["id"] for one in made] == [f"t{n}" for n in range(50)]
            slow = asyncio.create_task(client.result("t0", 20))
            await asyncio.sleep(0.1)
            slow.cancel()
            read = await asyncio.gather(*(client.get(f"t{n}") for n in range(50)))
            assert [one["props"] for one in read] == list(range(50))

    asyncio.run(main())


def test_times_and_tasks_in_requests(server: Server) -> None:
    client = server.client()
    fields: dict[str, Any] = {
        "start_at": 60,
        "end_by": dt.timedelta(hours=1),
        "limits": [{"key": "k", "starts": 1, "within": dt.timedelta(minutes=1)}],
        "unique": {"key": "u", "within": dt.timedelta(days=1)},
        "retry": {"policy": "exponential", "base": dt.timedelta(seconds=2)},
    }
    client.submit("a", 1, id="one", **fields)
    app = windlass.App()

    @app.task("report")
    def report(job: windlass.Job[int, None]) -> None: ...

    for every in (60, 120):
        spec = {"run": {"kind": report, "props": 1}, "every": [{"interval": dt.timedelta(seconds=every)}]}
        client.create_schedule("often", spec, if_exists="update")
    assert client.schedule("often")["spec"]["run"]["kind"] == "report"
    with pytest.raises(windlass.Exists):
        client.create_schedule("often", {"run": report.new(1), "cron": ["@daily"]})
    assert client.purge(states=["completed"], older_than=dt.timedelta(days=1)) == {"deleted": 0}
    for wrong in ("a\nb", "a b"):
        with pytest.raises(ValueError, match="a character that HTTP does not allow"):
            client.request("GET", f"/{wrong}")


def test_changes_go_on_over_the_death_of_a_server(server: Server) -> None:
    client, seen = server.client(), list[str]()

    def follow() -> None:
        for change in client.changes(after=0):
            seen.append(change["task"])
            if change["task"] == "end":
                return

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    other = server.client()
    other.submit("a", id="one")
    until("the first change", lambda: "one" in seen)
    server.kill(0)
    server.start(0)
    other.submit("a", id="two")
    other.submit("a", id="end")
    thread.join(30)
    assert seen == ["one", "two", "end"]


class Base64:
    """A codec that stands for encryption."""

    def encode(self, value: Any) -> Any:
        return {"sealed": base64.b64encode(json.dumps(value).encode()).decode()}

    def decode(self, value: Any) -> Any:
        return json.loads(base64.b64decode(value["sealed"]))


def test_a_codec_hides_values_from_the_server(server: Server, tmp_path: pathlib.Path) -> None:
    server.work("sealed.py")
    client = server.client(codec=Base64())
    id = client.submit("sealed", {"password": "hunter2"}, id="one")["id"]
    assert client.signal(id, "ask", "hunter3", wait=20) == "HUNTER3"
    assert client.result(id, 20) == "hunter2"
    assert client.get(id)["data"] == ["hunter2"]
    stored = json.dumps(server.client().get(id))
    assert "hunter" not in stored and "sealed" in stored


def sizes_of(client: windlass.Client, most: int | None = None) -> list[int]:
    """Notes how many tasks each request of a client submits. `most`: more are answered with the status 413."""
    sizes: list[int] = []

    def request(method: str, path: str, body: Any, **more: Any) -> Any:
        if most is not None and len(body) > most:
            raise windlass.ApiError(413, {"code": "body"}, path)
        sizes.append(len(body))
        return [{"id": task["id"]} for task in body]

    client.request = request  # type: ignore[assignment, method-assign]
    return sizes


def test_submits_of_many_tasks_are_cut_by_number_and_bytes() -> None:
    small = [{"kind": "a", "id": f"s{n}"} for n in range(1200)]
    large = [{"kind": "a", "id": f"l{n}", "props": "x" * 900_000} for n in range(5)]
    huge = [{"kind": "a", "id": "h", "props": "x" * 5_000_000}]
    client = windlass.Client("http://localhost:1")
    sizes = sizes_of(client)
    answers = client.submit_many([*small, *large, *huge, *small[:1]])
    assert sizes == [500, 500, 202, 2, 1, 1, 1]
    assert [answer["id"] for answer in answers] == [task["id"] for task in [*small, *large, *huge, *small[:1]]]


def test_a_submit_that_is_too_large_for_a_server_is_halved() -> None:
    client = windlass.Client("http://localhost:1")
    sizes = sizes_of(client, most=3)
    answers = client.submit_many({"kind": "a", "id": f"s{n}"} for n in range(11))
    assert max(sizes) <= 3 and [answer["id"] for answer in answers] == [f"s{n}" for n in range(11)]
    sizes_of(client, most=0)
    with pytest.raises(windlass.ApiError):
        client.submit_many([{"kind": "a", "id": "one"}])


def test_many_large_tasks_are_submitted(server: Server) -> None:
    tasks = [{"kind": "a", "id": f"l{n}", "props": "x" * 900_000} for n in range(11)]  # More than --max-body, 8 MiB.
    client = server.client()
    assert [answer["submitted"] for answer in client.submit_many(tasks)] == ["new"] * 11


def test_importing_needs_no_dependency() -> None:
    code = "import sys, windlass_tasks; print({'pydantic', 'msgspec', 'multiprocessing'} & set(sys.modules))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, capture_output=True, text=True, env={"PYTHONPATH": str(HERE.parent / "src")}, timeout=30, check=True
    )
    assert done.stdout.strip() == "set()"


class Crowded(http.server.BaseHTTPRequestHandler):
    """A server without a place for waits: it answers twice at once with what is known, and then with the result."""

    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        early = len(self.asked) < 3
        body = json.dumps({"id": "a", "state": "runnable"} if early else {"id": "a", "state": "completed", "result": 7}).encode()
        self.send_response(200)
        if early:
            self.send_header("Retry-After", "1")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def test_a_wait_that_ends_early_is_asked_for_again_until_the_timeout() -> None:
    site = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Crowded)
    threading.Thread(target=site.serve_forever, daemon=True).start()
    try:
        client = windlass.Client(f"http://127.0.0.1:{site.server_port}", "t")
        with pytest.raises(TimeoutError):
            client.result("a", timeout=0.05)
        assert len(Crowded.asked) in (1, 2)
        assert client.result("a", timeout=30) == 7
        assert len(Crowded.asked) == 3
    finally:
        site.shutdown()
