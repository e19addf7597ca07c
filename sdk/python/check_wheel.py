"""Checks an installed wheel: its files, its versions, and the example of the README on a server of the wheel.

`cargo xtask python` runs it with the Python of a virtual environment that has the wheel and nothing else."""

from __future__ import annotations

import importlib.metadata
import os
import pathlib
import re
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable
from typing import IO

import windlass_tasks as windlass

BOUND = 30.0
"""How long the server and the task may take, in seconds."""


def until(what: str, look: Callable[[], bool], child: subprocess.Popen[bytes], log: pathlib.Path) -> None:
    """Waits until `look` is true, for as long as `child` lives."""
    end = time.monotonic() + BOUND
    while not look():
        if child.poll() is not None or time.monotonic() > end:
            raise AssertionError(f"{what}: not within {BOUND:g} s, or its process has ended:\n{log.read_text()}")
        time.sleep(0.02)


def stop(child: subprocess.Popen[bytes]) -> int:
    """Ends a process as a terminal would, and returns its exit code."""
    child.terminate()
    try:
        return child.wait(BOUND)
    except subprocess.TimeoutExpired:
        child.kill()
        raise


def program() -> pathlib.Path:
    """The program that the wheel has installed."""
    found = pathlib.Path(sysconfig.get_path("scripts")) / "windlass"
    assert found.is_file(), f"the wheel has not installed {found}"
    return found


def check_files(wheel: importlib.metadata.Distribution) -> str:
    """Checks what the wheel says of itself, and returns its description: the README."""
    installed = pathlib.Path(windlass.__file__)
    assert installed.is_relative_to(sysconfig.get_path("platlib")), f"{installed} is not the package of the wheel"
    assert (installed.parent / "py.typed").is_file(), "the wheel has no py.typed"
    files = {path.name for path in wheel.files or ()}
    assert files >= {"LICENSE-APACHE", "LICENSE-MIT"}, f"the wheel lacks a licence: {sorted(files)}"
    assert not wheel.requires, f"the wheel has dependencies: {wheel.requires}"
    said = wheel.metadata.json
    assert said["license_expression"] == "MIT OR Apache-2.0", said
    description = str(said["description"])
    assert description.startswith("# windlass for Python\n"), f"another README: {description[:80]!r}"
    return description


def check_versions(wheel: importlib.metadata.Distribution) -> None:
    """The program, the package and the wheel have one version."""
    done = subprocess.run([program(), "--version"], capture_output=True, text=True, timeout=BOUND, check=True)
    versions = {"program": done.stdout.split()[-1], "package": windlass.__version__, "wheel": wheel.version}
    assert len(set(versions.values())) == 1, f"the versions differ: {versions}"


def check_example(readme: str, folder: pathlib.Path, log: IO[bytes]) -> None:
    """Runs the example of the README as a worker of a server of the wheel, until its task has completed."""
    example = re.search(r"```python\n(.*?)```", readme, re.DOTALL)
    assert example, "the README has no example"
    worker_file, socket = folder / "greet.py", folder / "run" / "w.sock"
    worker_file.write_text(example.group(1))
    url = f"unix:{socket}"
    env = {**os.environ, "WINDLASS_STORE": f"sqlite:{folder}/jobs.db", "WINDLASS_URL": url}
    serve = [str(program()), "serve", "--socket", str(socket), "--listen", "127.0.0.1:0"]
    server = subprocess.Popen(serve, env=env, stdout=log, stderr=log)
    logged = pathlib.Path(log.name)
    try:
        until("the server listens", socket.exists, server, logged)
        worker = subprocess.Popen([sys.executable, worker_file], env=env, stdout=log, stderr=log)
        try:
            with windlass.Client(url) as client:
                listed = lambda: any(task["id"] == "greet-ada" for task in client.list())  # noqa: E731
                until("the task is submitted", listed, worker, logged)
                result = client.result("greet-ada", BOUND)
            assert result == "hello ada", result
        finally:
            code = stop(worker)
        assert code == 0, f"the worker ended with exit code {code}:\n{logged.read_text()}"
    finally:
        code = stop(server)
    assert code == 0, f"the server ended with exit code {code}:\n{logged.read_text()}"


def main() -> None:
    wheel = importlib.metadata.distribution("windlass-tasks")
    readme = check_files(wheel)
    check_versions(wheel)
    with tempfile.TemporaryDirectory(prefix="windlass-wheel-") as made, open(f"{made}/log", "wb") as log:
        check_example(readme, pathlib.Path(made), log)
    print(f"the wheel of windlass {wheel.version} works on Python {sys.version.split()[0]}")


if __name__ == "__main__":
    main()
