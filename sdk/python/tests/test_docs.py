"""The page docs/learn/python.md and the examples, run as their readers run them; and the judge of the protocol."""

from __future__ import annotations

import ast
import functools
import http.server
import importlib
import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import HERE, SOURCE, Server, program, until

ROOT = HERE.parent.parent.parent
EXAMPLES = HERE.parent / "examples"
sys.path.insert(0, str(EXAMPLES))


def blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.S)


def run(folder: Path, server: Server, *command: str, bound: float = 60) -> str:
    env = {**os.environ, "PYTHONPATH": SOURCE, "WINDLASS_URL": server.url, "WINDLASS_TOKEN": server.token}
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env=env, capture_output=True, text=True, timeout=bound, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_page_from_nothing_to_a_task_that_survives(server: Server) -> None:
    tasks, submit, *others, tests = blocks(ROOT / "docs" / "learn" / "python.md")
    folder = server.folder
    (folder / "tasks.py").write_text(tasks.replace("windlass.App()", "windlass.App(ttl=15)"))
    (folder / "submit.py").write_text(submit)
    (folder / "test_tasks.py").write_text(tests)
    run(folder, server, "-m", "pytest", "-q", "test_tasks.py")
    worker = server.work(str(folder / "tasks.py"))
    waiting = subprocess.Popen(
        [sys.executable, "submit.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": SOURCE, "WINDLASS_URL": server.url, "WINDLASS_TOKEN": server.token},
        stdout=subprocess.PIPE,
    )
    until("page 5", lambda: "page 5\n" in server.log(0))
    os.kill(worker.pid, signal.SIGKILL)
    server.work(str(folder / "tasks.py"))
    out, _ = waiting.communicate(timeout=60)
    assert out == b"30\n"
    pages = [int(line.split()[1]) for log in (0, 1) for line in server.log(log).splitlines() if line.startswith("page ")]
    # The page that was being worked on is worked on again, and no other.
    assert sorted(set(pages)) == list(range(1, 31)) and len(pages) <= 31
    assert others
    for block in others:
        (folder / "block.py").write_text(block)
        run(folder, server, "block.py")


def test_the_page_names_what_there_is() -> None:
    import windlass_tasks as windlass

    text = (ROOT / "docs" / "learn" / "python.md").read_text()
    for name in re.findall(r"`windlass\.(\w+)`", text):
        assert hasattr(windlass, name), name
    for name in re.findall(r"`job\.(\w+)\(", text):
        assert hasattr(windlass.Job, name), name
    for name in windlass.__all__:
        assert getattr(windlass, name).__doc__ or name in ("ERASE", "__version__"), f"{name} has no documentation"


def test_every_public_method_has_documentation() -> None:
    for file in (HERE.parent / "src" / "windlass_tasks").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef) and node.name in ("App", "AsyncClient", "Job", "Task"):
                for one in node.body:
                    if not isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef)) or one.name.startswith("_"):
                        continue
                    if not any(isinstance(by, ast.Name) and by.id == "overload" for by in one.decorator_list):
                        assert ast.get_docstring(one), f"{file.name}: {node.name}.{one.name}"


@pytest.mark.parametrize("payload", ["ann", None, {"name": "ann"}, {"by": 7}])
def test_the_page_replies_to_a_wrong_payload(payload: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It failed the attempt, and each next attempt got the same signal."""
    from windlass_tasks import testing

    [text] = [text for text in blocks(ROOT / "docs" / "learn" / "python.md") if "wait_for_signal" in text]
    (tmp_path / "approvals_of_the_page.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    page = importlib.import_module("approvals_of_the_page")
    life = testing.live(page.order, {}, signals=[(60.0, "approve", payload), (70.0, "approve", {"by": "ann"})])
    assert (life.result, life.errors, life.replies) == ("ann", [], {"approve": "thanks"})
    alone = testing.run(page.order, {}, signals=[("approve", payload)])
    assert (alone.messages[0]["message"], alone.replies) == ("sleep", {"approve": "refused"})


class Page(http.server.BaseHTTPRequestHandler):
    body = b"one"

    def do_GET(self) -> None:
        etag = f'"{hash(self.body)}"'
        same = self.headers.get("If-None-Match") == etag
        self.send_response(304 if same else 200)
        self.send_header("ETag", etag)
        self.end_headers()
        if not same:
            self.wfile.write(self.body)

    def log_message(self, format: str, *arguments: Any) -> None: ...


def test_the_poller(server: Server) -> None:
    site = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=site.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{site.server_port}/"
    server.work(str(EXAMPLES / "poller.py"))
    for _ in range(2):
        run(EXAMPLES, server, "poller.py", "submit", url, "0.1")
    until("the first change", lambda: f"{url} has changed for the 1. time" in server.log())
    Page.body = b"two"
    until("the second change", lambda: "for the 2. time" in server.log())
    time.sleep(0.5)
    assert "for the 3. time" not in server.log()
    site.shutdown()


def test_the_agent(server: Server) -> None:
    server.work(str(EXAMPLES / "agent.py"))
    client = server.client()
    for id in ("yes", "no"):
        run(EXAMPLES, server, "agent.py", "submit", id, "Book a flight to Oslo")
        until("the agent waits", functools.partial(lambda id: client.get(id)["state"] == "paused", id))
        assert [message["role"] for message in client.get(id)["data"]["messages"]] == ["call", "tool", "call"]
        assert client.signal(id, "approve", id == "yes") == "thanks"
    assert client.result("yes", 20) == "done: booked OS-117"
    until("the refusal", lambda: client.get("no")["state"] == "failed")
    assert client.get("no")["errors"][0]["error"] == "book was refused"


@pytest.mark.parametrize("payload", ["yes", "no", "false", {"approved": False}, [False], 0, 1, None])
def test_the_agent_asks_again_after_a_wrong_payload(payload: Any) -> None:
    """It booked after any payload that Python takes for true, such as "no"."""
    import agent

    from windlass_tasks import testing

    asked = agent.Conversation(messages=[{"role": "call", "tool": "book", "input": "OS-117"}])
    ran = testing.run(agent.agent, "Oslo", data=asked, signals=[("approve", payload)])
    assert (ran.messages[0]["message"], ran.replies) == ("pause", {"approve": "refused: send true or false"})
    for approved, state in ((True, "completed"), (False, "failed")):
        life = testing.live(agent.agent, "Oslo", signals=[(60.0, "approve", payload), (70.0, "approve", approved)])
        assert (life.state, life.replies["approve"]) == (state, "thanks")


def test_the_fan_out(server: Server) -> None:
    folder = server.folder / "files"
    folder.mkdir()
    for n in range(5):
        (folder / f"{n}.txt").write_text("line\n" * n)
    server.work(str(EXAMPLES / "fan_out.py"))
    assert run(EXAMPLES, server, "fan_out.py", "submit", "count", str(folder)) == "{'files': 5, 'lines': 10}\n"


def test_the_etl_step(server: Server) -> None:
    source, target = server.folder / "source.db", server.folder / "target.db"
    with sqlite3.connect(source) as made:
        made.execute("CREATE TABLE events (id INTEGER PRIMARY KEY, text TEXT)")
        made.executemany("INSERT INTO events VALUES (?, ?)", [(n, f"event {n}") for n in range(1, 351)])
    server.work(str(EXAMPLES / "etl.py"))
    assert run(EXAMPLES, server, "etl.py", "submit", "copy", str(source), str(target)) == "350\n"
    with sqlite3.connect(target) as read:
        assert read.execute("SELECT count(*), max(text) FROM events").fetchone() == (350, "EVENT 99")


@pytest.mark.parametrize("name", ["agent", "etl"])
def test_the_examples_survive_a_crash_at_every_write(name: str, tmp_path: Path) -> None:
    from windlass_tasks import testing

    if name == "agent":
        import agent

        assert testing.crash_everywhere(agent.agent, "Oslo", signals=[(60.0, "approve", True)]) > 8
        return
    import etl

    source, target = tmp_path / "source.db", tmp_path / "target.db"
    with sqlite3.connect(source) as made:
        made.execute("CREATE TABLE events (id INTEGER PRIMARY KEY, text TEXT)")
        made.executemany("INSERT INTO events VALUES (?, ?)", [(n, f"event {n}") for n in range(1, 351)])

    def check(_: testing.Life) -> None:
        with sqlite3.connect(target) as read:
            assert read.execute("SELECT count(*) FROM events").fetchone() == (350,)

    copy = etl.Copy(str(source), str(target))
    assert testing.crash_everywhere(etl.etl, copy, check=check, before=lambda: target.unlink(missing_ok=True)) == 10


@pytest.mark.slow
@pytest.mark.parametrize("place", ["loop", "process", "thread"])
def test_the_worker_keeps_to_the_protocol(place: str) -> None:
    """`windlass worker-check`: lost and doubled answers, servers that end, refusals, a machine that sleeps."""
    command = [program(), "worker-check", "--jobs", "6", "--", sys.executable, str(HERE / "check_client.py"), place]
    env = {**os.environ, "PYTHONPATH": SOURCE}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count(" ok") >= 20, done.stdout
