"""The dashboard and the alerts against a real Prometheus that has scraped a real run.

`WINDLASS_BIN` names the program; `prometheus` and `promtool` are on the path. `cargo xtask python` runs it."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shlex
import signal
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

HERE = pathlib.Path(__file__).parent
BOUND = 60.0
"""How long anything may take before the test says what it has waited for, in seconds."""


def until(what: str, look: Callable[[], Any]) -> Any:
    end = time.monotonic() + BOUND
    while time.monotonic() < end:
        if found := look():
            return found
        time.sleep(0.2)
    raise AssertionError(f"waited {BOUND:g} s for: {what}")


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


class Site:
    """A store with a server, two workers and a Prometheus."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder, self.processes = folder, list[subprocess.Popen[bytes]]()
        self.program = os.environ["WINDLASS_BIN"]
        self.env = {**os.environ, "WINDLASS_STORE": f"sqlite:{folder}/jobs.db", "XDG_STATE_HOME": str(folder)}
        server, worker, self.port, self.second = (free_port() for _ in range(4))
        self.server = server
        self.start("server", self.program, "serve", "--no-socket", "--listen", f"127.0.0.1:{server}")
        made = until("a token", lambda: self.windlass("token", "new", "prometheus", "--role", "read"))
        found = re.search(r"wlt_\w+", made)
        assert found
        (folder / "token").write_text(found.group())
        self.start("worker", self.program, "worker", "--slots", "4", "--serve", f"127.0.0.1:{worker}")
        config = (HERE / "prometheus" / "prometheus.yml").read_text()
        config = config.replace("/etc/prometheus/windlass.token", str(folder / "token")).replace("15s", "1s")
        targets = ", ".join(f'"127.0.0.1:{port}"' for port in (server, worker, self.second))
        config = config.replace('["localhost:7474"]', f"[{targets}]")
        (folder / "prometheus.yml").write_text(config)
        (folder / "alerts.yml").write_text((HERE / "prometheus" / "alerts.yml").read_text())
        self.start(
            "prometheus",
            "prometheus",
            f"--config.file={folder}/prometheus.yml",
            f"--storage.tsdb.path={folder}/data",
            f"--web.listen-address=127.0.0.1:{self.port}",
        )

    def start(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        with open(self.folder / f"{name}.log", "ab") as log:
            process = subprocess.Popen(command, env=self.env, cwd=self.folder, stdout=log, stderr=log, start_new_session=True)
        self.processes.append(process)
        return process

    def windlass(self, *arguments: str) -> str:
        done = subprocess.run([self.program, *arguments], env=self.env, capture_output=True, text=True, timeout=BOUND, check=False)
        assert done.returncode == 0, f"windlass {arguments}: {done.stderr}"
        return done.stdout

    def submit(self, tasks: list[dict[str, Any]]) -> None:
        file = self.folder / "tasks.jsonl"
        file.write_text("\n".join(map(json.dumps, tasks)))
        self.windlass("submit", "--lines", str(file))

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Returns the series of a query; none while Prometheus does not answer."""
        text = urllib.parse.urlencode({"query": expression})
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/query?{text}", timeout=10) as answer:
                found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
                return found
        except OSError:
            return []

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("site"))
    try:
        scenes(made)
        yield made
    finally:
        made.close()


def scenes(site: Site) -> None:
    """Tasks that complete, fail, wait for a limit and for a worker; a worker that is killed; a schedule; a pause."""
    sleep = {"command": "sleep", "args": ["300"]}
    limits = [{"key": "one", "at_once": 1}]
    tasks: list[dict[str, Any]] = [{"id": f"good-{n}", "kind": "exec", "props": {"command": "true"}} for n in range(10)]
    tasks += [{"id": f"bad-{n}", "kind": "exec", "retry": 1, "props": {"command": "false"}} for n in range(3)]
    tasks += [{"id": f"limited-{n}", "kind": "exec", "limits": limits, "props": sleep} for n in range(2)]
    tasks += [{"id": "orphan", "kind": "nobody"}, {"id": "paused", "kind": "exec", "props": sleep}]
    site.submit(tasks)
    spec = {"run": {"kind": "exec", "props": {"command": "true"}}, "every": [{"interval": "1s"}]}
    site.windlass("schedule", "create", "often", "--spec", json.dumps(spec))
    until("a running task", lambda: '"paused"' in site.windlass("list", "--claimed", "-o", "json"))
    # A second worker gets a task that the first has no room for, and is killed.
    site.submit([{"id": f"lost-{n}", "kind": "exec", "props": sleep} for n in range(4)])
    words = (site.program, "worker", "--slots", "4", "--name", "second", "--serve", f"127.0.0.1:{site.second}")
    second = site.start("second", *words)
    until("the second worker has a task", lambda: '"second"' in site.windlass("list", "--claimed", "-o", "json"))
    claimed = [json.loads(line) for line in site.windlass("list", "--claimed", "-o", "json").splitlines()]
    joined = f'windlass_node_joined_timestamp_seconds{{instance="127.0.0.1:{site.second}"}}'
    until("Prometheus knows when the second worker joined", lambda: site.query(joined))
    # The worker itself, below its supervisor.
    subprocess.run(["pkill", "-KILL", "-P", str(second.pid)], check=True, timeout=BOUND)
    site.windlass("pause", "paused")
    # The first has room for the tasks that were lost.
    site.windlass("kill", *(task["id"] for task in claimed if task["id"].startswith("lost") and task["node"] != "second"))
    until("a worker has taken over a task of the second", lambda: site.query("windlass_claims_abandoned_total > 0"))
    site.start("second", *words)
    until("the second worker has joined again", lambda: site.query(f"changes({joined}[5m]) > 0"))
    for query in (
        'windlass_transitions_total{to="failed"}',
        "windlass_command_stop_seconds_count",
        'windlass_waiting_tasks{reason="limit"}',
    ):
        until(f"Prometheus has {query}", lambda query=query: site.query(query))  # type: ignore[misc]


def test_promtool_accepts_the_rules_and_each_alert_fires_in_its_scenario_only() -> None:
    for command in (["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]):
        done = subprocess.run(
            ["promtool", *command], cwd=HERE / "prometheus", capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    rules = re.findall(r"alert: (\w+)", (HERE / "prometheus" / "alerts.yml").read_text())
    tested = re.findall(r"- name: (\w+)", (HERE / "prometheus" / "alerts_test.yml").read_text())
    # An alert may have several scenarios.
    assert rules == list(dict.fromkeys(tested))
    assert len(rules) >= 18


def test_every_panel_of_the_dashboard_has_data(site: Site) -> None:
    dashboard = json.loads((HERE / "grafana" / "windlass.json").read_text())
    without = []
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            query = target["expr"].replace("$__rate_interval", "30s").replace("$kind", ".*")
            try:
                until(query, lambda query=query: site.query(query))  # type: ignore[misc]
            except AssertionError:
                without.append(f"{panel['title']}: {query}")
    assert not without
    assert len(dashboard["panels"]) >= 21


def test_every_metric_of_the_dashboard_and_of_the_alerts_is_one_of_windlass() -> None:
    known = set(re.findall(r"`(windlass_\w+)`", (HERE.parent / "docs" / "reference" / "metrics.md").read_text()))
    text = (HERE / "prometheus" / "alerts.yml").read_text() + (HERE / "grafana" / "windlass.json").read_text()
    used = {re.sub(r"_(bucket|count|sum)$", "", name) for name in re.findall(r"windlass_\w+", text)}
    assert used <= known, used - known


def test_the_alerts_see_the_scenes(site: Site) -> None:
    """The expressions of those alerts whose scene has happened, with the lateness that a test has time for."""
    text = (HERE / "prometheus" / "alerts.yml").read_text()
    rules = dict(re.findall(r"alert: (\w+)\n +expr: (?:\|\n)?(.*?)\n +(?:for|labels)", text, re.S))
    seen = [
        "WindlassTasksLate",
        "WindlassNoNode",
        "WindlassLimitFull",
        "WindlassTasksFailed",
        "WindlassNodeLost",
        "WindlassNodeFlaps",
    ]
    for name in seen:
        expression = rules[name].replace("> 300", "> 3").replace("no_node|", "").replace(">= 3", ">= 1")
        until(f"{name}: {expression}", lambda expression=expression: site.query(expression))  # type: ignore[misc]
    quiet = ["WindlassDown", "WindlassQuarantined", "WindlassStoreErrors", "WindlassLeaseMargin", "WindlassDataVersion"]
    for name in quiet:
        # A busy machine may miss one scrape.
        until(f"{name} is quiet", lambda name=name: site.query("up") and site.query(rules[name]) == [])  # type: ignore[misc]


def test_the_commands_of_the_alerts_are_accepted(site: Site) -> None:
    """Each command that an alert tells an operator to run, with names of this store."""
    text = (HERE / "prometheus" / "alerts.yml").read_text()
    commands = set(re.findall(r"`(windlass [^`]+)`", re.sub(r"(?m)^ *#.*$", "", text)))
    assert len(commands) >= 10
    wrong = []
    for command in sorted(commands):
        words = shlex.split(command.replace("{{ $labels.kind }}", "exec"))[1:]
        task = "often" if "schedule" in words else "bad-0"
        names = {"ID": task, "NODE": "second", "JSON": "{}"}
        words = [names.get(word, word) for word in words]
        words += ["--dry-run"] if words[:1] == ["retry"] or "backfill" in words else []
        done = subprocess.run(
            [site.program, *words],
            env=site.env,
            capture_output=True,
            text=True,
            timeout=BOUND,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        # It may find nothing to do, and is refused only if it is not a command.
        if done.returncode == 2:
            wrong.append(f"{command}: {done.stderr}")
    assert not wrong


def test_why_names_the_scenes_with_their_commands(site: Site) -> None:
    """The lines of `windlass why` beside the panels and alerts of docs/operate/monitoring.md."""
    waiting = json.loads(site.windlass("why", "-o", "json"))["waiting"]
    found = {(one["kind"], one["reason"]): one for one in waiting}
    for kind, reason, command in (
        ("exec", "limit", "list --claimed --limit-key one"),
        ("nobody", "no_node", "list --kind nobody --waits no_node"),
        ("exec", "paused", "resume --kind exec --state paused --dry-run"),
    ):
        one = found[kind, reason]
        assert one["tasks"] >= 1
        assert one["remedy"] == f"windlass {command}", one


def test_keda_reads_how_many_tasks_could_run(site: Site) -> None:
    """The request of the example, with a token as its comment makes one."""
    text = (HERE / "keda" / "worker.yaml").read_text()
    fields = dict(re.findall(r'^ +(?:- )?(\w+): "?([^"\n]+?)"?$', text, re.M))
    assert (fields["type"], fields["authMode"], fields["parameter"]) == ("metrics-api", "bearer", "token")
    command = re.search(r"windlass (token new .*)", text)
    assert command
    token = re.search(r"wlt_\w+", site.windlass(*command.group(1).split()))
    assert token
    url = urllib.parse.urlsplit(fields["url"])
    request = urllib.request.Request(f"http://127.0.0.1:{site.server}{url.path}?{url.query}")
    request.add_header("Authorization", f"Bearer {token.group()}")
    with urllib.request.urlopen(request, timeout=10) as answer:
        scale = json.load(answer)
    # One task of the limit runs, and the other one cannot.
    assert scale["limited"] == 1, scale
    assert scale[fields["valueLocation"]] == scale["claimed"] + scale["available"] - 1, scale
