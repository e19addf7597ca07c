"""Answers that no server has written: none ends a worker."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from conftest import Server, until
from test_proxies import DATE, PAGE, Answer, Scripted, forwarded, http, scripted  # noqa: F401 (a fixture)

TOO_LARGE = http(413, PAGE)
STRANGE = [
    http(503, '{"code":"busy"}', DATE),
    http(429, PAGE, DATE),
    http(429, '{"code":"too_many"}', "Retry-After: soon"),
    http(200, "[]", kind="application/json"),
    http(200, '[{"renewed_seq":1}]', kind="application/json"),
    http(200, PAGE),
    http(200, "", kind="application/json"),
    http(200, '{"ok":true}', kind="application/json"),
    http(200, '{"renewed_seq":"1","results":7}', kind="application/json"),
    http(400, PAGE),
    http(400, "[]", kind="application/json"),
    http(401, PAGE),
    http(403, PAGE),
    http(403, '{"message":"the proxy says no"}', kind="application/json"),
    http(404, PAGE),
    http(409, "[7]", kind="application/json"),
    http(410, PAGE),
    TOO_LARGE,
    http(500, '"text"', kind="application/json"),
    http(502, PAGE),
    http(504, PAGE, "Retry-After: Sunday"),
    http(200, '{"renewed_seq":0,"claims":[7,{"id":"x"}],"lost":[{}],"stop":[{"id":1}],"signals":5,"servers":["a b",7],"drain":"no",'
              '"results":[5,{}],"worker":"w","ttl_ms":"15"}', kind="application/json"),
]  # fmt: skip


@pytest.mark.slow
def test_no_answer_of_a_proxy_ends_a_worker(server: Server, scripted: Callable[[Answer], Scripted]) -> None:  # noqa: F811
    """Each odd answer once to a registration, to an exchange and to a report. The lease is kept, and the tasks are run."""
    left = {door: list(STRANGE) for door in ("register", "exchange", "report")}
    left["report"].remove(TOO_LARGE)  # It fails the attempt.
    made, seen = list[Scripted](), dict[str, int]()

    def script(number: int, first: str, body: bytes) -> bytes:
        path = first.split(" ")[1]
        door = path.rsplit("/", 1)[1] if path != "/v1/workers" else "register"
        seen[door] = seen.get(door, 0) + 1
        if left.get(door) and (door == "register" or seen[door] % 2):
            return left[door].pop()
        _, headers, _ = made[0].requests[number - 1]
        read = forwarded(server, first, headers, body)
        return read.replace(server.url.encode(), made[0].url.encode())  # Its list of servers.

    made.append(scripted(script))
    worker = server.work(urls=made[0].url, TTL="15")
    client = server.client()

    def goes_on() -> bool:
        assert worker.poll() is None, server.log()
        client.result(client.submit("sees-thread")["id"], 30)
        return not any(left.values())

    until("each odd answer was given", goes_on, 60)
    ended = client.list(kind="sees-thread")
    assert {(task["state"], task["errors_total"]) for task in ended} == {("completed", 0)}
