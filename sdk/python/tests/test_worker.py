"""Handlers in workers of a real server: each rule for each place in which handlers run."""

from __future__ import annotations

import re
import signal
import time
import urllib.request
from typing import Any

import pytest
from conftest import Server, until

import windlass_tasks as windlass

PLACES = ["loop", "process", "thread"]


def notes(server: Server, id: str) -> list[str]:
    file = server.folder / id
    return file.read_text().split() if file.exists() else []


def started(server: Server, id: str) -> None:
    until(f"the handler of {id} has started", lambda: notes(server, id))


@pytest.mark.parametrize("place", PLACES)
def test_a_handler_keeps_data_and_returns_a_result(shared: Server, place: str) -> None:
    client = shared.client()
    id = client.submit(f"pages-{place}", {"count": 3})["id"]
    assert client.result(id, 20) == 3
    task = client.get(id)
    assert (task["state"], task["data"], task["attempts"]) == ("completed", {"page": 3}, 0)


@pytest.mark.parametrize("place", PLACES)
def test_a_pause_stops_the_handler_at_once_and_a_resume_goes_on(shared: Server, place: str) -> None:
    client = shared.client()
    id = client.submit(f"sleeps-{place}", 60.0)["id"]
    started(shared, id)
    sent = time.monotonic()
    done = client.pause(id, wait=20)
    assert done["outcome"]["outcome"] == "applied", done
    assert time.monotonic() - sent < 5, "the handler was ended by its grace"
    assert notes(shared, id) == ["start", "end"]
    assert client.get(id)["state"] == "paused"
    client.patch(id, [{"op": "replace", "path": "/props", "value": 0.0}])
    client.resume(id, wait=20)
    assert client.result(id, 20) == "slept"
    assert client.get(id)["attempts"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_a_handler_that_ignores_its_stop_is_ended_after_its_grace(server: Server, place: str) -> None:
    server.work(PLACES=place)
    client = server.client()
    neighbour = client.submit(f"sleeps-{place}", 3.0)["id"]
    id = client.submit(f"stubborn-{place}", None)["id"]
    started(server, id)
    started(server, neighbour)
    done = client.kill(id, wait=20)
    assert done["outcome"]["outcome"] == "applied", done
    assert client.get(id)["state"] == "killed"
    count = len(notes(server, id))
    time.sleep(0.3)
    assert len(notes(server, id)) == count, "the handler goes on"
    assert client.result(neighbour, 20) == "slept"
    assert client.get(neighbour)["attempts"] == 0


@pytest.mark.parametrize("place", PLACES)
def test_signals_get_replies(shared: Server, place: str) -> None:
    client = shared.client()
    id = client.submit(f"asks-{place}", None)["id"]
    assert client.signal(id, "first", {"n": 1}, wait=20) == {"hello": {"n": 1}}
    assert client.signal(id, "end", [2], wait=20) == {"hello": [2]}
    assert client.result(id, 20) == ["first", "end"]
    with pytest.raises(windlass.ApiError):
        client.signal(id, "late")


def test_a_task_asks_for_a_signal(shared: Server) -> None:
    client = shared.client()
    id = client.submit("approval")["id"]
    asked = until("it asks", lambda: client.get(id)["awaits_signal"])
    assert (asked["name"], asked["text"]) == ("approve", "Go on?")
    assert asked["schema"]["properties"]["approved"]["type"] == "boolean"
    assert id in [task["id"] for task in client.list(waits="signal")]
    assert client.signal(id, "approve", {"approved": True}, wait=20) == "noted"
    assert client.result(id, 20) == {"approved": True}
    assert client.get(id)["awaits_signal"] is None
    late = client.submit("approval", 0.05)["id"]
    assert client.result(late, 20) == "expired"


@pytest.mark.parametrize("place", PLACES)
def test_context_variables_are_kept(shared: Server, place: str) -> None:
    client = shared.client()
    id = client.submit(f"sees-{place}")["id"]
    assert client.result(id, 20) == ["of the import", id]


def test_errors_are_retried_or_final_by_their_type(shared: Server) -> None:
    client = shared.client()
    retry = {"policy": "exponential", "base": "1ms", "attempts": 5}
    ids = {props: client.submit("fails", props, retry=retry)["id"] for props in ("key", "fail", "json", "later")}
    for props, text in (("key", "KeyError: 'no such key'"), ("fail", "nothing helps")):
        with pytest.raises(windlass.TaskFailed, match=text):
            client.result(ids[props], 20)
        assert client.get(ids[props])["errors_total"] == 1
    with pytest.raises(windlass.TaskFailed, match="cannot be stored"):
        client.result(ids["json"], 20)
    assert client.result(ids["later"], 20) is None
    assert client.get(ids["later"])["errors_total"] == 2


def test_wrong_props_name_the_field_and_fail_the_task_at_once(shared: Server) -> None:
    client = shared.client()
    id = client.submit("pages-loop", {"count": "many"})["id"]
    with pytest.raises(windlass.TaskFailed, match=r"props\.count: expected int, got 'many'"):
        client.result(id, 20)
    assert client.get(id)["errors_total"] == 1, "another attempt has found the same props"


@pytest.mark.parametrize(("how", "text"), [(3, "ended with exit code 3"), (-9, "was killed by SIGKILL"), (-11, "SIGSEGV")])
def test_a_dead_process_costs_its_own_task_only(server: Server, how: int, text: str) -> None:
    server.work(PLACES="process")
    client = server.client()
    neighbour = client.submit("sleeps-process", 1.0)["id"]
    started(server, neighbour)
    id = client.submit("dies", how, retry={"policy": "exponential", "base": "1ms"})["id"]
    assert client.result(id, 20) is None
    task = client.get(id)
    assert task["errors_total"] == 1
    assert text in task["errors"][0]["error"]
    assert client.result(neighbour, 20) == "slept"
    assert client.get(neighbour)["claims"] == 1


def test_children_are_submitted_and_waited_for(shared: Server) -> None:
    client = shared.client()
    id = client.submit("parent", 3, id="family")["id"]
    assert client.result(id, 20) == ["completed"] * 3
    children = list(client.list(label=f"of={id}"))
    assert [task["state"] for task in children] == ["completed"] * 3
    assert client.get("family-later")["state"] == "sleeping"


def test_sleeps_keep_the_data(shared: Server) -> None:
    client = shared.client()
    id = client.submit("naps", 0.05)["id"]
    assert client.result(id, 20) == 3
    assert client.get(id)["attempts"] == 0


def test_data_of_an_earlier_version_is_migrated(server: Server) -> None:
    client = server.client()
    id = client.submit("versions", None)["id"]
    client.reschedule(id, data=7)
    server.work(PLACES="loop")
    assert client.result(id, 20) == 7
    assert client.get(id)["data_version"] == 1


def test_a_stalled_handler_is_ended(shared: Server) -> None:
    client = shared.client()
    moving, stalled = (client.submit("stalls", moves, retry=1)["id"] for moves in (True, False))
    with pytest.raises(windlass.TaskFailed, match="no sign of progress for 1 s"):
        client.result(stalled, 20)
    assert client.result(moving, 20) == "not stalled"


def test_a_blocked_loop_is_named(shared: Server) -> None:
    client = shared.client()
    id = client.submit("blocks", 2.0)["id"]
    client.result(id, 20)
    warning = until("the warning", lambda: "has blocked the event loop" in shared.log(0) and shared.log(0))
    assert f"task {id} has blocked the event loop" in warning
    assert "time.sleep(job.props)" in warning


def test_log_lines_and_progress_are_stored(shared: Server) -> None:
    client = shared.client()
    id = client.submit("logs", None)["id"]
    client.result(id, 20)
    lines = until("three lines", lambda: len(found := client.log(id)["lines"]) == 3 and found)
    assert [line["text"] for line in lines] == ["one", "two", "three"]
    id = client.submit("pages-loop", {"count": 2, "pause": 60})["id"]
    assert until("the progress", lambda: client.get(id).get("progress"))["fraction"] == 0.5
    client.kill(id)


@pytest.mark.parametrize("place", PLACES)
def test_what_cannot_be_stored_is_a_failed_attempt(shared: Server, place: str) -> None:
    client = shared.client()
    texts = {
        "recursive": "RecursionError",
        "bad text": "after a BadText",
        "surrogate": "ValueError: caf?",
        "large": "has room for one MiB",
        "forgotten": "has made a message (sleep) and has not returned it",
    }
    ids = {props: client.submit(f"returns-{place}", props, retry=1)["id"] for props in texts}
    for props, text in texts.items():
        with pytest.raises(windlass.TaskFailed, match=re.escape(text)):
            client.result(ids[props], 20)
    assert client.result(client.submit(f"returns-{place}", "fine")["id"], 20) is None


def test_a_forked_child_says_nothing_of_the_task(shared: Server) -> None:
    client = shared.client()
    id = client.submit("returns-process", "forked", retry=1)["id"]
    assert client.result(id, 20) is None


def test_odd_calls_of_a_job(shared: Server) -> None:
    client = shared.client()

    def result(props: str) -> Any:
        return client.result(client.submit("odd", props, retry=1)["id"], 20)

    assert result("log") == "logged"
    assert "has room for one MiB" in result("large")
    assert result("threads") == 50
    assert result("keep") == "kept"
    errors = result("later")
    assert len(errors) == 3
    assert all("has ended: its job can do nothing more" in error for error in errors)
    assert result("fork") == -signal.SIGTERM
    assert result("wait for nothing") == "done"
    assert result("seconds") == "done"


@pytest.mark.parametrize("place", PLACES)
def test_a_worker_whose_handlers_do_not_stop_ends_after_their_grace(server: Server, place: str) -> None:
    worker = server.work(PLACES=place)
    client = server.client()
    ids = [client.submit(f"stubborn-{place}", None)["id"] for _ in range(2)]
    for id in ids:
        started(server, id)
    worker.terminate()
    assert worker.wait(20) == 0, server.log()
    for id in ids:
        task = client.get(id)
        assert (task["state"], task["attempts"]) == ("runnable", 0)
        assert notes(server, id).count("start") == 1


def test_a_server_counts_the_tasks_of_workers(shared: Server) -> None:
    client = shared.client()
    client.result(client.submit("pages-thread", {"count": 1, "pause": 0.2})["id"], 20)
    with pytest.raises(windlass.TaskFailed):
        client.result(client.submit("fails", "fail")["id"], 20)
    request = urllib.request.Request(f"{shared.url}/metrics", headers={"Authorization": f"Bearer {shared.token}"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        text = answer.read().decode()
    for series in (
        'windlass_claims_total{kind="pages-thread"}',
        'windlass_attempts_total{kind="pages-thread",outcome="returned"}',
        'windlass_attempts_total{kind="fails",outcome="failed"}',
        'windlass_transitions_total{kind="pages-thread",to="completed"}',
        'windlass_transitions_total{kind="fails",to="failed"}',
        'windlass_run_duration_seconds_count{kind="pages-thread"}',
        'windlass_start_lateness_seconds_count{kind="pages-thread"}',
        "windlass_commit_batch_size_count",
    ):
        found = re.search(re.escape(series) + r" ([\d.]+)", text)
        assert found, f"{series} is missing"
        assert float(found.group(1)) > 0, series


@pytest.mark.parametrize("place", PLACES)
def test_a_run_is_a_trace_of_its_own_with_a_link_to_its_submit(shared: Server, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    client = shared.client()
    parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    monkeypatch.setenv("TRACEPARENT", parent)
    id = client.submit(f"traced-{place}", None)["id"]
    found = client.result(id, 20)
    assert found["meta"] == {"traceparent": parent}
    assert found["links"] == [[0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7]]
    trace_id, span_id = found["here"]
    assert trace_id not in (0, found["links"][0][0])
    child = client.get(f"{id}-child")
    assert child["meta"]["traceparent"].startswith(f"00-{trace_id:032x}-{span_id:016x}-")
    monkeypatch.delenv("TRACEPARENT")
    alone = client.result(client.submit(f"traced-{place}", None)["id"], 20)
    assert (alone["links"], alone["meta"]) == ([], {})


DIGITS = "7" * 5000
"""An integer that a server stores, and that Python does not read."""


def post(server: Server, path: str, body: str) -> None:
    headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}
    urllib.request.urlopen(urllib.request.Request(f"{server.url}/v1{path}", body.encode(), headers), timeout=20).close()


@pytest.mark.parametrize("place", PLACES)
def test_what_cannot_be_read_fails_its_own_task_and_no_other(shared: Server, place: str) -> None:
    """In the props, in a signal that waits, and in one that comes while the handler runs: beside tasks that go on."""
    client = shared.client()
    props, late, early = (f"{what}-{place}" for what in ("props", "late", "early"))
    client.submit(f"asks-{place}", id=late, retry="never")
    client.submit(f"asks-{place}", id=early, retry="never", start_at=3600)
    client.submit(f"asks-{place}", id=f"neighbour-{place}")
    until("both are claimed", lambda: all(client.get(id)["claims"] for id in (late, f"neighbour-{place}")))
    post(shared, f"/tasks/{early}/signals/ask", DIGITS)
    post(shared, f"/tasks/{late}/signals/ask", f"[{DIGITS}]")
    tasks = [f'{{"kind":"pages-{place}","id":"{props}","retry":"never","props":{{"count":{DIGITS}}}}}']
    tasks += [f'{{"kind":"pages-{place}","id":"{place}-{n}","props":{{"count":2}}}}' for n in range(3)]
    post(shared, "/tasks", f"[{','.join(tasks)}]")
    for n in range(3):
        assert client.result(f"{place}-{n}", 20) == 2
        assert client.get(f"{place}-{n}")["errors_total"] == 0
    for id in (props, late, early):
        with pytest.raises(windlass.TaskFailed, match="5000 digits"):
            client.result(id, 20)
    assert client.get(late)["errors_total"] == client.get(early)["errors_total"] == 1
    assert client.signal(f"neighbour-{place}", "end", 1, wait=20) == {"hello": 1}
    assert client.get(f"neighbour-{place}")["errors_total"] == 0
    # A client: the task itself is an error, and in a list the others come.
    with pytest.raises(windlass.Unreadable, match="5000 digits"):
        client.get(props)
    listed = {task["id"]: task for task in client.list(kind=f"pages-{place}", prefix=place)}
    assert len(listed) == 3
    (task,) = client.list(prefix=props)
    assert (task["id"], task["state"], "props" in task) == (props, "failed", False)
    assert "5000 digits" in task["unreadable"]["props"]


def test_what_a_codec_cannot_decode_fails_its_own_task_and_no_other(server: Server) -> None:
    from test_client import Base64

    server.work("sealed.py")
    client, plain = server.client(codec=Base64()), server.client()
    for id in ("bad", "good"):
        client.submit("sealed", {"password": "a"}, id=id, retry="never")
    until("both handlers wait", lambda: all(plain.get(id)["data"] for id in ("bad", "good")))
    plain.signal("bad", "ask", "not sealed", wait=None)
    with pytest.raises(windlass.TaskFailed, match="TypeError"):
        client.result("bad", 20)
    assert client.signal("good", "ask", "b", wait=20) == "B"
    assert client.result("good", 20) == "a"
    plain.submit("sealed", "not sealed", id="other", start_at=3600)
    listed = {task["id"]: task for task in client.list(kind="sealed")}
    assert listed["good"]["props"] == {"password": "a"}
    assert "props" not in listed["other"] and "TypeError" in listed["other"]["unreadable"]["props"]
