"""One client in several processes, event loops and threads: each gets the answers to its own requests."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable

from conftest import Server

import windlass_tasks as windlass


def child(work: Callable[[], None]) -> int:
    """Forks, works in the child, and returns its pid."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        work()
        code = 0
    finally:
        os._exit(code)


def ended(*pids: int) -> None:
    assert [os.waitpid(pid, 0)[1] for pid in pids] == [0] * len(pids)


def tasks(server: Server, count: int) -> None:
    client = server.client()
    client.submit_many([{"kind": "a", "id": f"t{n}", "props": n} for n in range(count)])


def test_each_process_gets_its_own_answers_after_a_fork(server: Server) -> None:
    tasks(server, 4)
    client = server.client()
    client.get("t0")  # The connection is open from here on.

    def get(n: int) -> None:
        for _ in range(50):
            assert client.get(f"t{n}")["id"] == f"t{n}"
        client.close()

    kids = [child(lambda n=n: get(n)) for n in range(4)]  # type: ignore[misc]
    for _ in range(50):
        assert client.get("t0")["id"] == "t0"
    ended(*kids)
    assert client.get("t0")["id"] == "t0"


def test_a_stream_of_changes_goes_on_in_both_processes_after_a_fork(server: Server) -> None:
    tasks(server, 1)
    client, other = server.client(), server.client()
    changes = client.changes(after=0)
    assert next(changes)["task"] == "t0"

    def rest() -> None:
        assert next(changes)["task"] == "t1"
        assert next(changes)["task"] == "t2"

    pid = child(rest)
    other.submit("a", id="t1")
    other.submit("a", id="t2")
    rest()
    ended(pid)


def test_an_asynchronous_client_is_used_by_parent_and_child_of_a_fork(server: Server) -> None:
    tasks(server, 2)
    client = windlass.AsyncClient(server.url, server.token)

    async def get(id: str) -> None:
        for _ in range(20):
            assert (await client.get(id))["id"] == id

    async def main() -> None:
        await get("t0")
        pid = child(lambda: asyncio.run(get("t1")))
        await get("t0")
        await asyncio.to_thread(ended, pid)
        await get("t0")  # What the child has closed is open here.

    asyncio.run(main())
    ended(child(lambda: asyncio.run(get("t1"))))


def test_an_asynchronous_client_outlives_its_event_loop(server: Server) -> None:
    tasks(server, 10)
    client, seen = windlass.AsyncClient(server.url, server.token), list[str]()

    async def some() -> None:
        for task in await asyncio.gather(*(client.get(f"t{n}") for n in range(10))):
            seen.append(task["id"])

    wanted = [f"t{n}" for n in range(10)]
    for _ in range(3):
        asyncio.run(some())
        assert seen == wanted
        seen.clear()
    assert len(client._free) == 1, "connections of loops that are closed are kept"
    threads = [threading.Thread(target=asyncio.run, args=(some(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(seen) == sorted(wanted * 4)


def test_threads_that_fail_at_once_share_a_list_of_servers() -> None:
    """Two threads change the server at the same time: none finds the list empty."""
    client = windlass.Client("http://127.0.0.1:1 http://127.0.0.1:2", "", timeout=0.5)
    errors = list[str]()

    def fail() -> None:
        try:
            client.counts()
        except windlass.Unavailable:
            errors.append("unavailable")
        except Exception as error:
            errors.append(repr(error))

    threads = [threading.Thread(target=fail) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert errors == ["unavailable"] * 16
    assert sorted(one.port for one in client._servers) == [1, 2]
