"""Processes of handlers that end, are harmed, or would run other code than their worker."""

from __future__ import annotations

import functools
import os
import re
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import Server, until

import windlass_tasks as windlass

PLACES = ["loop", "process", "thread"]


@pytest.fixture(scope="module")
def rough(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with a worker of `rough.py`, which no test ends."""
    made = Server(tmp_path_factory.mktemp("rough"))
    made.work("rough.py")
    made.ready()
    yield made
    made.close()


def result(server: Server, kind: str, props: Any, **fields: Any) -> Any:
    client = server.client()
    return client.result(client.submit(kind, props, **fields)["id"], 20)


@pytest.mark.parametrize("text", [b"garbage\n\0{}\n", b"\0\0\0\x10", b"\0\0\0\0", b"\0"], ids=["text", "length", "zero", "byte"])
def test_bytes_of_a_handler_in_foreign_files_cost_its_run_and_no_slot(rough: Server, text: bytes) -> None:
    with pytest.raises(windlass.TaskFailed, match="writes into files that it has not opened"):
        result(rough, "writes", list(text), retry=1)
    assert result(rough, "writes", []) == "written"


@pytest.mark.parametrize("reused", [False, True])
def test_a_handler_that_closes_foreign_files_costs_its_run_and_no_slot(rough: Server, reused: bool) -> None:
    for _ in range(2):
        with pytest.raises(windlass.TaskFailed, match="the process of the handler"):
            result(rough, "closes", reused, retry=1)


@pytest.mark.parametrize("how", ["command", "fork"])
def test_a_process_that_leaves_a_command_behind_gives_its_slot_back(rough: Server, how: str) -> None:
    with pytest.raises(windlass.TaskFailed, match="ended with exit code 3"):
        result(rough, "leaves", how, retry=1)
    assert result(rough, "leaves", "") == "left"


def test_a_forked_child_cannot_use_the_job(rough: Server) -> None:
    errors = result(rough, "forks", None, retry=1)
    assert len(errors) == 3 and all("belongs to the process that has forked" in error for error in errors), errors


def test_stops_of_a_handler_that_logs_all_the_time_cost_no_slot(rough: Server) -> None:
    client = rough.client()
    for _ in range(5):
        id = client.submit("chatters")["id"]
        until("a line", functools.partial(lambda id: client.log(id)["lines"], id))
        assert client.kill(id, wait=20)["outcome"]["outcome"] == "applied"
        assert client.get(id)["attempts"] == 0


@pytest.mark.parametrize("count", [1500, 6000])
@pytest.mark.parametrize("place", PLACES)
def test_of_a_burst_of_lines_the_last_are_kept_and_the_others_counted(rough: Server, place: str, count: int) -> None:
    client = rough.client()
    id = client.submit(f"lines-{place}", count)["id"]
    assert client.result(id, 20) == "logged"

    def all_lines() -> Any:
        found = client.log(id)
        lines, gone, after = found["lines"], found["gone"], found.get("next")
        while found["lines"] and after:
            found = client.log(id, after=after)
            lines, gone, after = lines + found["lines"], gone + found["gone"], found.get("next")
        return lines and lines[-1]["text"] == "the last line" and (lines, gone)

    lines, gone = until("the last line", all_lines)
    assert len(lines) + gone == count + 1
    kept = min(count, 4095)
    assert gone == 0 or count > 4096
    assert [line["text"] for line in lines[-kept - 1 : -1]] == [f"line {n}" for n in range(count - kept, count)]


@pytest.mark.parametrize("place", PLACES)
def test_the_token_of_a_worker_does_not_reach_the_commands_of_handlers(rough: Server, place: str) -> None:
    seen, *ids = result(rough, f"environment-{place}", "")
    assert seen == "none"
    assert len(set(ids)) == 1


def test_a_stop_that_a_handler_raises_by_itself_is_a_failed_attempt(rough: Server) -> None:
    with pytest.raises(windlass.TaskFailed, match="nothing has stopped the handler"):
        result(rough, "stops-itself", None, retry=1)


@pytest.mark.parametrize("call", ["checkpoint", "wait"])
def test_a_call_that_is_not_awaited_is_a_failed_attempt_that_names_the_line(rough: Server, call: str) -> None:
    with pytest.raises(windlass.TaskFailed, match=rf"call of {call} \(.*rough\.py, line \d+\): write `await job\.{call}\("):
        result(rough, "forgets", call, retry=1)


CODE = """
import os, time
import windlass_tasks as windlass
app = windlass.App(ttl=15)
@app.task("a", slots=SLOTS, data_version=1)
def a(job: windlass.Job):
    if job.props == "dies": os._exit(1)
    if job.props: job.wait(job.props)
    return "ONE"
if __name__ == "__main__": app.run()
"""


def app_of(server: Server, slots: int) -> Any:
    """Writes an app, and returns what writes the next version of it."""
    file = server.folder / "app.py"
    file.write_text(CODE.replace("SLOTS", str(slots)))
    server.work(str(file))
    server.ready()

    def change() -> None:
        new = server.folder / "app.new"
        new.write_text(CODE.replace("SLOTS", str(slots)).replace("data_version=1", "data_version=2").replace("ONE", "TWO"))
        os.replace(new, file)

    return change


def test_new_code_on_disk_is_not_run_by_the_processes_of_an_old_worker(server: Server) -> None:
    change = app_of(server, 1)
    client = server.client()
    assert result(server, "a", 0) == "ONE"
    change()
    assert result(server, "a", 0) == "ONE"
    with pytest.raises(windlass.TaskFailed):
        result(server, "a", "dies", retry=1)
    id = client.submit("a", 0)["id"]
    assert server.workers[0].wait(20) == 1
    assert re.search(r"app\.py has changed since the worker began; restart the worker", server.log(0))
    task = client.get(id)
    assert (task["state"], task["attempts"]) == ("runnable", 0)
    server.work(str(server.folder / "app.py"))
    assert client.result(id, 20) == "TWO"


def test_an_old_worker_goes_on_with_the_processes_that_it_has(server: Server) -> None:
    change = app_of(server, 2)
    client = server.client()
    change()
    first = client.submit("a", 2.0)["id"]
    until("the first runs", lambda: client.get(first)["claims"])
    second = client.submit("a", 0)["id"]
    assert [client.result(id, 20) for id in (first, second)] == ["ONE", "ONE"]
    assert client.get(second)["attempts"] == 0
    assert "restart the worker" in server.log(0)
    assert server.workers[0].poll() is None


def test_code_that_cannot_be_imported_any_more_costs_no_attempt(server: Server) -> None:
    change = app_of(server, 1)
    client = server.client()
    change()
    (server.folder / "app.py").write_text("import nothing_of_this_name\n")
    with pytest.raises(windlass.TaskFailed):
        result(server, "a", "dies", retry=1)
    id = client.submit("a", 0)["id"]
    assert server.workers[0].wait(20) == 1
    task = client.get(id)
    assert (task["state"], task["attempts"]) == ("runnable", 0)


def test_the_processes_that_are_left_hold_no_task_of_another_worker(server: Server) -> None:
    change = app_of(server, 4)
    client = server.client()
    busy = client.submit("a", 60)["id"]
    until("it runs", lambda: client.get(busy)["claims"])
    change()
    ids = [client.submit("a", 0)["id"] for _ in range(3)]
    until("a process is refused", lambda: "restart the worker" in server.log(0))
    server.work(str(server.folder / "app.py"))
    ids += [client.submit("a", 0)["id"] for _ in range(3)]
    for id in ids:
        assert client.result(id, 20) == "TWO"
        assert client.get(id)["attempts"] == 0
    assert (client.get(busy)["claims"], server.workers[0].poll()) == (1, None)


STARTS = """
import os, pathlib, time
import windlass_tasks as windlass
app, folder = windlass.App(ttl=15), pathlib.Path(os.environ["FOLDER"])
if __name__ == "__mp_main__" and (folder / "dies").exists(): os._exit(5)
if __name__ == "__mp_main__" and (folder / "slow").exists():
    (folder / "importing").touch()
    while (folder / "slow").exists(): time.sleep(0.02)
@app.task("a", slots=2, signals=True)
def a(job: windlass.Job):
    got = []
    while len(got) < job.props:
        for signal in job.signals:
            got.append(signal.payload)
            job.reply(signal, "seen")
        if len(got) < job.props: job.wait()
    return got
if __name__ == "__main__":
    os.chdir(folder / "gone")
    app.run()
"""


def busy_of(server: Server, file: str) -> str:
    """Starts a worker of `STARTS` with one busy process, and returns its task."""
    (server.folder / "gone").mkdir()
    (server.folder / file).write_text(STARTS)
    server.work(str(server.folder / file))
    server.ready()
    client = server.client()
    busy: str = client.submit("a", 2)["id"]
    assert client.signal(busy, "first", 1, wait=20) == "seen"
    return busy


@pytest.mark.parametrize("file", ["app.py", "gone/app.py"])
def test_a_process_that_cannot_be_started_costs_no_attempt(server: Server, file: str) -> None:
    busy = busy_of(server, file)
    client = server.client()
    shutil.rmtree(server.folder / "gone")
    id = client.submit("a", 0)["id"]
    until("no process starts", lambda: "no process could be started for the handler" in server.log(0))
    client.signal(busy, "second", 2, wait=20)
    assert client.result(id, 20) == []
    assert client.get(id)["attempts"] == client.get(id)["errors_total"] == 0


def test_a_process_that_ends_before_it_has_a_handler_costs_no_attempt(server: Server) -> None:
    busy_of(server, "app.py")
    client = server.client()
    (server.folder / "dies").touch()
    id = client.submit("a", 0)["id"]
    until("the process ends", lambda: "ended with exit code 5" in server.log(0))
    (server.folder / "dies").unlink()
    assert client.result(id, 20) == []
    assert client.get(id)["attempts"] == client.get(id)["errors_total"] == 0


def test_a_signal_to_a_process_that_is_refused_reaches_the_next_one_once(server: Server) -> None:
    busy = busy_of(server, "app.py")
    client = server.client()
    (server.folder / "slow").touch()
    (server.folder / "app.py").write_text(STARTS + "# changed\n")
    id = client.submit("a", 2)["id"]
    until("its process starts", (server.folder / "importing").exists)
    client.signal(id, "one", "one", wait=None)
    client.signal(busy, "second", 2, wait=20)  # The worker has both when it answers this one.
    (server.folder / "slow").unlink()
    until("its process is refused", lambda: "restart the worker" in server.log(0))
    client.signal(id, "two", "two", wait=None)
    assert client.result(id, 20) == ["one", "two"]
    assert client.get(id)["attempts"] == 0
