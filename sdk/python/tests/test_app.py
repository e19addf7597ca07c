"""What an app does for its processes: functions at their start, their ends after some runs, and the log."""

from __future__ import annotations

import functools
import pathlib
import re
import signal
import zipapp
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import Server, until

import windlass_tasks as windlass

PLACES = ["loop", "process", "thread"]


@pytest.fixture(scope="module")
def hooks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with a worker of `hooks.py`."""
    made = Server(tmp_path_factory.mktemp("hooks"))
    made.work("hooks.py")
    made.ready()
    yield made
    made.close()


@pytest.mark.parametrize("place", PLACES)
def test_a_process_is_made_ready_once(hooks: Server, place: str) -> None:
    client = hooks.client()
    ids = [client.submit(f"about-{place}", 0.05)["id"] for _ in range(4)]
    for id in ids:
        pool, loops, pid = client.result(id, 20)
        assert (pool, loops) == (f"pool of {pid}", 1 if place == "loop" else 0)


@pytest.mark.parametrize("place", PLACES)
def test_what_a_handler_logs_is_in_the_log_of_its_task(hooks: Server, place: str) -> None:
    client = hooks.client()
    id = client.submit(f"logs-{place}")["id"]
    assert client.result(id, 20) == "logged"

    def lines() -> Any:
        found = [line["text"] for line in client.log(id)["lines"]]
        return found if "ERROR hooks: failed" in found and "ValueError: no such page" in found else None

    found = until("the lines", lines)
    first = ["INFO hooks: from a thread"] if place == "loop" else []
    assert found[: len(first) + 2] == [*first, f"INFO hooks: page 3 of {id}", "ERROR hooks: failed"]
    assert ("INFO hooks: from a thread" in found) == (place != "thread")
    assert not any("that of the worker" in line for line in found)
    assert f"page 3 of {id}" in hooks.log(), "the output of the worker has the records, too"


@pytest.mark.parametrize("place", PLACES)
def test_a_process_ends_after_its_runs_and_another_takes_its_place(server: Server, place: str) -> None:
    server.work("hooks.py", "3")
    client = server.client()
    ids, pids = [], []
    for n in range(10):
        ids.append(client.submit(f"about-{place}", 0.05 if n % 2 else 0)["id"])
        pids.append(client.result(ids[-1], 20)[2])
    counts = [pids.count(pid) for pid in set(pids)]
    assert len(counts) >= 4 and max(counts) <= 3, counts
    for id in ids:
        task = client.get(id)
        assert (task["claims"], task["attempts"], task["errors_total"]) == (1, 0, 0)
    assert server.workers[0].poll() is None and " ERROR " not in server.log()


@pytest.mark.parametrize("place", ["loop", "thread"])
def test_runs_at_the_same_time_share_a_process_that_ends_after_its_runs(server: Server, place: str) -> None:
    """Regression: with `max_tasks=1`, a burst of ten runs had ten processes."""
    server.work("hooks.py", "1")
    client = server.client()

    def burst() -> set[int]:
        ids = [client.submit(f"about-{place}", 3.0)["id"] for _ in range(10)]
        until("they run", lambda: all(client.get(id)["claims"] for id in ids))
        return {client.result(id, 20)[2] for id in ids}

    first = burst()
    assert len(first) == 1
    later = burst()
    assert len(later) == 1 and later != first
    until("the first process has ended", lambda: not pathlib.Path(f"/proc/{min(first)}").exists())


def test_a_full_process_does_not_end_before_its_runs(server: Server) -> None:
    server.work("hooks.py", "2")
    client = server.client()
    long = client.submit("about-loop", 60)["id"]
    until("it runs", lambda: client.get(long)["claims"])
    pids = [client.result(client.submit("about-loop", 0)["id"], 20)[2] for _ in range(4)]
    assert len(set(pids)) >= 2
    task = client.get(long)
    assert (task["state"], task["claims"], task["attempts"]) == ("runnable", 1, 0)
    server.workers[0].send_signal(signal.SIGTERM)
    assert server.workers[0].wait(20) == 0
    assert client.get(long)["attempts"] == 0


FAILS = """
import os, pathlib
import windlass_tasks as windlass
app, folder = windlass.App(ttl=15, max_tasks=1), pathlib.Path(os.environ["FOLDER"])
@app.on_process_start
def start():
    if (folder / "fails").exists(): raise RuntimeError("no database")
@app.task("a", slots=1)
def a(job: windlass.Job): return "done"
if __name__ == "__main__": app.run()
"""


def test_a_start_that_fails_ends_the_worker_and_later_costs_no_attempt(server: Server) -> None:
    (server.folder / "app.py").write_text(FAILS)
    (server.folder / "fails").touch()
    worker = server.work(str(server.folder / "app.py"))
    assert worker.wait(20) == 1
    assert "no database" in server.log() and "ended with exit code 1" in server.log()
    (server.folder / "fails").unlink()
    server.work(str(server.folder / "app.py"))
    client = server.client()
    assert client.result(client.submit("a")["id"], 20) == "done"
    (server.folder / "fails").touch()
    id = client.submit("a")["id"]
    until("a process has failed", lambda: "no database" in server.log(1))
    (server.folder / "fails").unlink()
    assert client.result(id, 20) == "done"
    task = client.get(id)
    assert (task["attempts"], task["errors_total"]) == (0, 0)


SLOW = """
import datetime as dt, os, pathlib, time
import windlass_tasks as windlass
app, folder = windlass.App(ttl=15, max_tasks=1), pathlib.Path(os.environ["FOLDER"])
if (folder / "slow").exists(): time.sleep(1.0)
@app.task("a", slots=1, stall_after=dt.timedelta(seconds=0.5))
def a(job: windlass.Job):
    for _ in range(12):
        time.sleep(0.05)
        job.progress(0.5)
    return "done"
if __name__ == "__main__": app.run()
"""


def test_the_start_of_a_process_is_no_stall_of_its_handler(server: Server) -> None:
    (server.folder / "app.py").write_text(SLOW)
    server.work(str(server.folder / "app.py"))
    server.ready()
    (server.folder / "slow").touch()
    client = server.client()
    for _ in range(2):
        id = client.submit("a", retry=1)["id"]
        assert client.result(id, 20) == "done"
        assert client.get(id)["errors_total"] == 0


def test_an_app_says_what_is_wrong() -> None:
    app = windlass.App()
    with pytest.raises(TypeError, match="must not have parameters"):
        app.on_process_start(lambda job: None)  # type: ignore[type-var]

    def generator() -> Iterator[None]:
        yield

    with pytest.raises(TypeError, match="that has no yield"):
        app.on_process_start(generator)
    for name in ("max_tasks", "processes"):
        with pytest.raises(ValueError, match=f"{name}: 0 is not 1 or more"):
            windlass.App(**{name: 0})  # type: ignore[arg-type]

    @app.task("a")
    def a(job: windlass.Job[Any, Any]) -> None: ...

    @app.on_process_start
    async def never() -> None: ...

    with pytest.raises(ValueError, match="never is never awaited, because no handler is an async def: write def"):
        app.run()


# The sources

LAZY = """
import windlass_tasks as windlass
app = windlass.App(ttl=15)
@app.task("a", slots=SLOTS)
def a(job: windlass.Job):
    if job.props == "dies":
        import os
        os._exit(1)
    if job.props: job.wait(job.props)
    import later
    return later.TEXT
if __name__ == "__main__": app.run()
"""


def lazy(server: Server, slots: int) -> None:
    (server.folder / "app.py").write_text(LAZY.replace("SLOTS", str(slots)))
    (server.folder / "later.py").write_text("TEXT = 'ONE'\n")
    server.work(str(server.folder / "app.py"))
    server.ready()


def test_a_module_that_is_imported_later_counts_among_the_sources(server: Server) -> None:
    lazy(server, 1)
    client = server.client()
    assert client.result(client.submit("a")["id"], 20) == "ONE"
    (server.folder / "later.py").write_text("TEXT = 'TWO and more'\n")
    with pytest.raises(windlass.TaskFailed):
        client.result(client.submit("a", "dies", retry=1)["id"], 20)
    id = client.submit("a")["id"]
    assert server.workers[0].wait(20) == 1
    assert re.search(r"later\.py has changed since the worker began; restart the worker", server.log(0))
    assert client.get(id)["attempts"] == 0


def test_a_module_that_had_another_content_before_its_import_is_noticed(server: Server) -> None:
    lazy(server, 2)
    client = server.client()
    (server.folder / "later.py").write_text("TEXT = 'TWO and more'\n")
    assert client.result(client.submit("a")["id"], 20) == "TWO and more"
    until("it is noticed", lambda: re.search(r"later\.py has changed since the worker began; restart", server.log(0)))
    assert server.workers[0].poll() is None, "the worker goes on with the process that it has"
    busy = client.submit("a", 2.0)["id"]
    until("it runs", functools.partial(lambda id: client.get(id)["claims"], busy))
    assert client.result(client.submit("a")["id"], 20) == "TWO and more"


ARCHIVE = """
import sys
import windlass_tasks as windlass
app = windlass.App(ttl=15)
@app.task("a", slots=1)
def a(job: windlass.Job):
    if job.props == "dies":
        import os
        os._exit(1)
    return "ONE"
"""


def test_an_archive_counts_among_the_sources(server: Server) -> None:
    source, archive = server.folder / "source", server.folder / "app.pyz"
    source.mkdir()
    (source / "work.py").write_text(ARCHIVE)
    (source / "__main__.py").write_text("from work import app\nif __name__ == '__main__': app.run()\n")
    zipapp.create_archive(source, archive)
    server.work(str(archive))
    client = server.client()
    assert client.result(client.submit("a")["id"], 20) == "ONE"
    (source / "work.py").write_text(ARCHIVE.replace("ONE", "TWO"))
    new = server.folder / "new.pyz"
    zipapp.create_archive(source, new)
    new.replace(archive)
    with pytest.raises(windlass.TaskFailed):
        client.result(client.submit("a", "dies", retry=1)["id"], 20)
    id = client.submit("a")["id"]
    assert server.workers[0].wait(20) == 1
    assert re.search(r"app\.pyz has changed since the worker began; restart the worker", server.log(0))
    assert client.get(id)["attempts"] == 0
