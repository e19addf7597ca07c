"""The results of tasks that a run has waited for, from a server whose answers a test writes, and from a real one."""

from __future__ import annotations

import asyncio
import datetime as dt
import functools
import json
from collections.abc import Callable
from typing import Any, cast

import pytest
from conftest import Server, until
from test_host import asks
from test_proxies import DATE, PAGE, Answer, Scripted, forwarded, http, scripted  # noqa: F401 (a fixture)

import windlass_tasks as windlass
from windlass_tasks._children import Run as Held
from windlass_tasks._forms import Json, moment
from windlass_tasks._troubles import Lost
from windlass_tasks._worker import Worker

PLACES = ["loop", "process", "thread"]
FAILED = {"outcome": "failed", "kind": "fails", "state": "failed", "error": "nothing helps"}


def ok(body: Any) -> bytes:
    return http(200, body if isinstance(body, str) else json.dumps(body), kind="application/json")


class Door:
    """A proxy before a server: it answers the requests for results itself, in pages of two tasks."""

    def __init__(self, server: Server, make: Callable[[Answer], Scripted], *first: bytes | None) -> None:
        self.server, self.first = server, list(first)
        self.asked: list[Json] = []
        self.found: dict[int, Json] = {}
        """What is to be said of a task instead of its number as the result, by its place."""
        self.count = 5
        self.scripted = make(self.answer)

    def answer(self, number: int, first: str, body: bytes) -> bytes | None:
        path = first.split(" ")[1]
        if path.endswith("/waited"):
            return self.page(json.loads(body))
        read = forwarded(self.server, first, self.scripted.requests[number - 1][1], body)
        read = read.replace(self.server.url.encode(), self.scripted.url.encode())  # Its list of servers.
        if path == "/v1/workers":
            head, _, text = read.partition(b"\r\n\r\n")
            if head.startswith(b"HTTP/1.1 200"):
                return ok({**json.loads(text), "features": ["waited"], "servers": []})
        return read

    def page(self, asked: Json) -> bytes | None:
        if self.first:
            return self.first.pop(0)
        self.asked.append(asked)
        start = asked["from"]
        end = min(start + 2, self.count)
        tasks = []
        for n in range(start, end):
            whole = {"task": f"{asked['id']}.{n}", "outcome": "completed", "kind": "a", "state": "completed", "result": n}
            tasks.append({**whole, **self.found[n]} if n in self.found else whole)
        return ok(json.dumps({"tasks": tasks, **({"next": end} if end < self.count else {})}).replace('"DIGITS"', "7" * 5000))


def collects(server: Server, place: str, count: int = 5, **fields: Any) -> str:
    id: str = server.client().submit(f"collects-{place}", count, **fields)["id"]
    return id


def test_results_are_read_in_pages_when_the_handler_comes_to_them(
    server: Server,
    scripted: Callable[[Answer], Scripted],  # noqa: F811
) -> None:
    door = Door(server, scripted)
    door.found = {1: {"result": "DIGITS"}, 2: FAILED, 4: {"result": {"$windlass": "masked"}, "masked": True}}
    server.work(urls=door.scripted.url)
    door.first += [http(503, '{"code":"busy"}', DATE), http(502, PAGE), ok("[]"), ok('{"tasks":7}')]
    for place in PLACES:
        door.asked = []
        id = collects(server, place)
        found = server.client().result(id, 30)
        assert found[0] == 0 and found[3] == 3
        assert found[1].startswith(f"the task {id}.1 cannot be read: ") and "5000 digits" in found[1]
        assert found[2] == f"the task {id}.2 has failed: nothing helps"
        assert found[4] == f"the task {id}.4 has a result of which a mask hides a part"
        assert [asked["from"] for asked in door.asked] == [0, 2, 4]
        asked = door.asked[0]
        assert (asked["id"], type(asked["fence"]), type(asked["run"]), len(asked["secret"])) == (id, int, int, 32)
        task = server.client().get(id)
        assert (task["attempts"], task["errors_total"]) == (0, 0)


def test_a_stop_ends_a_handler_that_waits_for_results(
    server: Server,
    scripted: Callable[[Answer], Scripted],  # noqa: F811
) -> None:
    door = Door(server, scripted, *[None] * 100)
    server.work(urls=door.scripted.url)
    client = server.client()
    ids = [collects(server, place) for place in PLACES]
    for id in ids:
        until("it reads", (server.folder / id).exists)
    until("the requests are there", lambda: len([1 for first, _, _ in door.scripted.requests if "/waited" in first]) == 3)
    for id in ids:
        assert client.kill(id, wait=20)["outcome"]["outcome"] == "applied"
        assert client.get(id)["state"] == "killed"
    assert server.workers[0].poll() is None


def test_a_request_that_is_refused_fails_the_attempt_and_not_the_worker(
    server: Server,
    scripted: Callable[[Answer], Scripted],  # noqa: F811
) -> None:
    door = Door(server, scripted, http(400, '{"code":"invalid","field":"from","detail":"from: no"}', kind="application/json"))
    server.work(urls=door.scripted.url)
    id = collects(server, "thread", retry={"policy": "exponential", "base": "1ms"})
    assert server.client().result(id, 30) == [0, 1, 2, 3, 4]
    (error,) = server.client().get(id)["errors"]
    assert "RuntimeError: the results could not be read: " in error["error"] and "from: no" in error["error"]


def test_the_end_of_a_run_and_an_old_server_are_clear_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker(asks.app)
    run = Held({"id": "a", "fence": 1, "run": 1, "n": 1}, asks, 0)
    worker.runs, worker.name = {("a", 1): run}, "w"
    sent: list[Any] = []
    monkeypatch.setattr(worker.hosts, "send", lambda run, message: sent.append(message))

    async def lost(*_: Any) -> Json:
        raise Lost

    async def read(ticket: int) -> str:
        worker.read(run, ticket, 0)
        await asyncio.wait(worker.pages.reading, timeout=20)
        name, key, of, answer = sent.pop()
        assert (name, key, of) == ("page", run.key, ticket)
        return cast(str, answer["error"])

    async def main() -> None:
        assert await read(1) == (
            "the server is older than this package and does not send the results of other tasks: update the server"
        )
        worker.features = ["waited"]
        monkeypatch.setattr(worker, "post", lost)
        assert await read(2) == "the run has ended"
        assert run.is_lost and not worker.runs

    try:
        asyncio.run(main())
    finally:
        worker.hosts.guard.process.kill()
        worker.hosts.guard.process.wait()


@pytest.mark.parametrize("place", PLACES)
def test_results_come_from_a_server(shared: Server, place: str) -> None:
    client = shared.client()
    id = collects(shared, place, 5, retry=1)
    failed = f"the task {id}.2 has failed: nothing helps"
    assert client.result(id, 30) == [0, 1, failed, 3, 4]


def test_a_worker_sees_of_other_tasks_what_its_token_and_the_masks_show(server: Server) -> None:
    token = server.new_token("worker", "work", "--kind", "collects-thread", "--kind", "pages-thread")
    client = server.client()
    client.set_mask("pages-thread", ["/result"])
    code = (
        "import windlass_tasks as windlass\napp = windlass.App(ttl=15)\n"
        "@app.task('pages-thread', place='thread')\ndef pages(job: windlass.Job): return 7\n"
        "@app.task('collects-thread', place='thread')\ndef collects(job: windlass.Job):\n"
        "    if not job.data:\n"
        "        job.submit('pages-thread', None, id='own')\n"
        "        return job.wait_for('own', data=True)\n"
        "    if job.attempt == 1: raise ValueError('once')\n"
        "    (one,) = job.waited.results()\n"
        "    try: return one.value\n"
        "    except windlass.Masked as error: return [one.task, one.state, one.masked, str(error)]\n"
        "if __name__ == '__main__': app.run()\n"
    )
    (server.folder / "scoped.py").write_text(code)
    server.work(str(server.folder / "scoped.py"), WINDLASS_TOKEN=token)
    id = client.submit("collects-thread", retry={"policy": "exponential", "base": "1ms"})["id"]
    assert client.result(id, 30) == ["own", "completed", True, "the task own has a result of which a mask hides a part"]
    # Regression: the placeholder was a value, for handlers and for clients.
    with pytest.raises(windlass.Masked, match="the task own has a result of which a mask hides a part"):
        client.result("own", 10)


def test_more_results_than_a_page_has_come_from_a_server(server: Server) -> None:
    ids = [f"t{n}" for n in range(230)]
    client = server.client()
    client.submit_many([{"kind": "pages-thread", "id": id, "props": {"count": 0}} for id in ids])
    code = (
        "import windlass_tasks as windlass\napp = windlass.App(ttl=15)\n"
        "@app.task('pages-thread', place='thread')\ndef pages(job: windlass.Job): return {'of': job.id, 'text': 'x' * 20_000}\n"
        "@app.task('all', place='thread')\ndef all(job: windlass.Job):\n"
        "    if not job.waited: return job.wait_for(*job.props)\n"
        "    return [one.value['of'] for one in job.waited.results(dict)]\n"
        "if __name__ == '__main__': app.run()\n"
    )
    (server.folder / "all.py").write_text(code)
    server.work(str(server.folder / "all.py"))
    assert client.result(client.submit("all", ids, retry=1)["id"], 60) == ids


@pytest.mark.parametrize("what", ["signal", "task", "until"])
def test_a_wait_with_a_bound_ends_by_the_clock_of_the_server(shared: Server, what: str) -> None:
    client = shared.client()
    id = client.submit("waits-within", what, retry=1)["id"]
    expired, (before, after) = client.result(id, 20)
    assert expired is True
    began, ended = dt.datetime.fromisoformat(before), dt.datetime.fromisoformat(after)
    assert ended - began >= dt.timedelta(milliseconds=300)
    now = moment(client.see("time")["now"])
    assert dt.timedelta() <= now - ended < dt.timedelta(seconds=20)


def test_a_wait_that_a_signal_ends_has_not_expired(shared: Server) -> None:
    client = shared.client()
    id = client.submit("approval", 3600.0)["id"]
    until("it waits", functools.partial(lambda id: client.get(id)["state"] == "sleeping", id))
    assert client.signal(id, "approve", 1) == "noted"
    assert client.result(id, 20) == 1
