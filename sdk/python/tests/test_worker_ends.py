"""How workers end: by signals, without a server, with their lease, and for a change of a file."""

from __future__ import annotations

import functools
import os
import signal
import time
from typing import Any

import pytest
from conftest import Server, until
from test_worker import notes, started

import windlass_tasks as windlass

PLACES = ["loop", "process", "thread"]


def test_sigterm_releases_tasks_and_another_worker_goes_on(server: Server) -> None:
    worker = server.work()
    client = server.client()
    ids = [client.submit(f"pages-{place}", {"count": 2, "pause": 60})["id"] for place in PLACES]
    for id in ids:
        until("the first page is stored", functools.partial(lambda id: client.get(id).get("data"), id))
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(20) == 0, server.log()
    for id in ids:
        task = client.get(id)
        assert (task["state"], task["attempts"]) == ("runnable", 0)
        client.patch(id, [{"op": "replace", "path": "/props/pause", "value": 0}])
    assert client.see("nodes")["nodes"] == [] or all("python" not in str(node) for node in client.see("nodes")["nodes"])
    server.work()
    for id in ids:
        assert client.result(id, 20) == 2
        assert notes(server, id) == ["1", "2"]


def test_a_second_signal_aborts(server: Server) -> None:
    worker = server.work("handlers.py", GRACE="60", PLACES="process")
    client = server.client()
    id = client.submit("stubborn-process", None)["id"]
    started(server, id)
    worker.send_signal(signal.SIGTERM)
    until("the first signal is noticed", lambda: "the worker ends" in server.log())
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(10) == 1
    count = len(notes(server, id))
    time.sleep(0.3)
    assert len(notes(server, id)) == count


@pytest.mark.parametrize("place", PLACES)
def test_handlers_end_with_their_worker(server: Server, place: str) -> None:
    worker = server.work(PLACES=place)
    client = server.client()
    id = client.submit(f"stubborn-{place}", None)["id"]
    started(server, id)
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()
    time.sleep(0.5)
    count = len(notes(server, id))
    time.sleep(0.5)
    assert len(notes(server, id)) == count, "the handler outlives its worker"


@pytest.mark.parametrize("place", ["process", "thread"])
@pytest.mark.parametrize("how", ["kill", "lost"])
def test_commands_of_handlers_end_with_them(server: Server, place: str, how: str) -> None:
    worker = server.work(PLACES=place)
    client = server.client()
    id = client.submit(f"commands-{place}", None)["id"]
    started(server, id)
    if how == "kill":
        assert client.kill(id, wait=20)["outcome"]["outcome"] == "applied"
    else:
        os.kill(worker.pid, signal.SIGKILL)
    time.sleep(0.5)
    count = len(notes(server, id))
    time.sleep(0.5)
    assert len(notes(server, id)) == count, "the command outlives its handler"


def test_commands_of_handlers_take_signals(shared: Server) -> None:
    client = shared.client()
    assert client.result(client.submit("terminates")["id"], 20) == -signal.SIGTERM


@pytest.mark.slow
def test_a_worker_without_a_server_ends(server: Server) -> None:
    worker = server.work(PLACES="loop")
    client = server.client()
    id = client.submit("sleeps-loop", 60.0)["id"]
    started(server, id)
    server.kill(0)
    worker.terminate()
    assert worker.wait(30) == 0
    assert notes(server, id) == ["start", "end"]


@pytest.mark.slow
def test_handlers_end_when_their_worker_is_stopped_for_too_long(server: Server) -> None:
    worker = server.work()
    client = server.client()
    ids = [client.submit(f"stubborn-{place}", None)["id"] for place in PLACES]
    for id in ids:
        started(server, id)
    os.kill(worker.pid, signal.SIGSTOP)
    time.sleep(13.5)  # 0.8 of the TTL of 15 s, and some more.
    counts = [len(notes(server, id)) for id in ids]
    time.sleep(0.5)
    assert [len(notes(server, id)) for id in ids] == counts


@pytest.mark.slow
def test_a_lost_worker_costs_an_attempt_and_no_data(server: Server) -> None:
    worker = server.work(PLACES="process")
    client = server.client()
    id = client.submit("pages-process", {"count": 3, "pause": 1.0})["id"]
    until("the first page", lambda: client.get(id).get("data"))
    os.killpg(worker.pid, signal.SIGKILL)
    server.work(PLACES="process")
    assert client.result(id, 60) == 3
    assert client.get(id)["claims"] == 2


@pytest.mark.slow
def test_a_lease_is_renewed_beside_many_reports(server: Server) -> None:
    server.work(PLACES="loop")
    client = server.client()
    id = client.submit("spins", 16.0)["id"]  # Longer than the TTL of 15 s.
    assert client.result(id, 40) > 200
    task = client.get(id)
    assert (task["claims"], task["attempts"]) == (1, 0)


def test_the_death_of_a_server_costs_nothing(server: Server) -> None:
    server.start(1)
    server.work(urls=server.urls)
    client = windlass.Client(server.urls, server.token)
    ids = [client.submit(f"pages-{place}", {"count": 20, "pause": 0.1})["id"] for place in PLACES]
    for id in ids:
        started(server, id)
    server.kill(0)
    for id in ids:
        assert client.result(id, 40) == 20
        task = client.get(id)
        assert (task["claims"], task["attempts"]) == (1, 0)
        assert notes(server, id) == [str(n) for n in range(1, 21)]


def test_a_worker_without_a_valid_token_ends_and_says_why(server: Server) -> None:
    worker = server.work(WINDLASS_TOKEN="wlt_" + "0" * 64)
    assert worker.wait(20) == 1
    assert "answered 401" in server.log()


def test_a_revoked_token_ends_handlers_and_worker(server: Server) -> None:
    token = server.new_token("worker", "work")
    worker = server.work(WINDLASS_TOKEN=token)
    client = server.client()
    id = client.submit("stubborn-loop", None)["id"]
    started(server, id)
    client.revoke_token("worker")
    assert worker.wait(20) == 1
    count = len(notes(server, id))
    time.sleep(0.3)
    assert len(notes(server, id)) == count


def test_an_import_that_fails_ends_the_worker(server: Server) -> None:
    file = server.folder / "broken.py"
    file.write_text(
        "import windlass_tasks as windlass\napp = windlass.App()\n"
        "@app.task('a')\ndef a(job: windlass.Job): pass\n"
        "if __name__ == '__mp_main__': raise RuntimeError('only here')\n"
        "if __name__ == '__main__': app.run()\n"
    )
    worker = server.work(str(file))
    assert worker.wait(20) == 1
    assert "only here" in server.log()


def test_a_signal_ends_a_worker_whose_handlers_are_still_imported(server: Server) -> None:
    file = server.folder / "slow.py"
    file.write_text(
        "import pathlib, time\nimport windlass_tasks as windlass\napp = windlass.App()\n"
        "@app.task('a')\ndef a(job: windlass.Job): pass\n"
        f"if __name__ == '__mp_main__': pathlib.Path({str(server.folder / 'imports')!r}).touch(); time.sleep(60)\n"
        "if __name__ == '__main__': app.run()\n"
    )
    worker = server.work(str(file))
    until("the handlers are imported", (server.folder / "imports").exists)
    worker.terminate()
    assert worker.wait(10) == 0, server.log()


@pytest.mark.slow
def test_a_changed_file_starts_the_worker_again(server: Server) -> None:
    file = server.folder / "app.py"
    text = "import windlass_tasks as windlass\napp = windlass.App()\n@app.task('a')\nasync def a(job: windlass.Job): return 'ONE'\n"
    text += "if __name__ == '__main__': app.run(reload=True)\n"
    file.write_text(text)
    old = os.getcwd()
    os.chdir(server.folder)
    try:
        worker = server.work(str(file))
    finally:
        os.chdir(old)
    client = server.client()
    assert client.result(client.submit("a")["id"], 20) == "ONE"
    file.write_text(text.replace("ONE", "TWO"))
    os.utime(file, (time.time() + 5, time.time() + 5))
    until("the new file is run", lambda: client.result(client.submit("a")["id"], 20) == "TWO")
    worker.terminate()
    assert worker.wait(20) == 0


def test_a_drained_worker_takes_no_task_until_it_may(server: Server) -> None:
    server.work(PLACES="loop")
    server.ready()
    client = server.client()

    def node() -> Any:
        return next((node["name"] for node in client.see("nodes")["nodes"] if "pages-loop" in str(node)), None)

    name = until("the worker is listed", node)
    order = client.node_command(name, "freeze")["order"]
    until("the freeze", lambda: client.node_answer(order)["answer"])
    id = client.submit("sees-loop")["id"]
    time.sleep(1)
    assert client.get(id)["claims"] == 0
    client.node_command(name, "unfreeze")
    client.result(id, 20)
