"""The installation by pip: the package alone, without Rust, beside a program from elsewhere."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest
from conftest import HERE, Server, program, until

SDK = HERE.parent
BOUND = 240.0
"""How long pip may take, in seconds: it fetches the backend that builds the package."""


@pytest.mark.slow
def test_pip_installs_the_package_without_cargo(server: Server, tmp_path: pathlib.Path) -> None:
    made = tmp_path / "environment"
    tools = tmp_path / "bin"  # The PATH has neither cargo nor maturin, but the program windlass.
    tools.mkdir()
    (tools / "windlass").symlink_to(program())
    left = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "CARGO_HOME", "RUSTUP_HOME")
    env = {name: value for name, value in os.environ.items() if name not in left}
    env |= {"PATH": str(tools), "WINDLASS_URL": server.url, "WINDLASS_TOKEN": server.token}

    def run(*command: str) -> str:
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=BOUND, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run(sys.executable, "-m", "venv", str(made))
    python = str(made / "bin" / "python")
    run(python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", str(SDK))
    where = run(python, "-c", "import windlass_tasks; print(windlass_tasks.__file__)")
    assert pathlib.Path(where.strip()).is_relative_to(made), where
    about = run(python, "-m", "pip", "--disable-pip-version-check", "show", "--files", "windlass-tasks")
    assert re.search(r"^Requires: *$", about, re.M), about
    for file in ("py.typed", "LICENSE-APACHE", "LICENSE-MIT"):
        assert file in about, about
    assert run("windlass", "--version").startswith("windlass ")

    example = re.search(r"```python\n(.*?)```", (SDK / "README.md").read_text(), re.S)
    assert example
    (tmp_path / "greet.py").write_text(example.group(1))
    with open(tmp_path / "greet.log", "wb") as log:
        worker = subprocess.Popen([python, "greet.py"], cwd=tmp_path, env=env, stdout=log, stderr=log)
    try:
        client = server.client()
        until("the task is submitted", lambda: [task for task in client.list() if task["id"] == "greet-ada"])
        assert client.result("greet-ada", 20) == "hello ada"
    finally:
        worker.terminate()
        code = worker.wait(20)
    assert code == 0, (tmp_path / "greet.log").read_text()


@pytest.mark.parametrize("page", [SDK / "README.md", SDK.parent.parent / "docs" / "learn" / "python.md"], ids=["readme", "page"])
def test_the_pages_name_the_installation_that_works(page: pathlib.Path) -> None:
    text = page.read_text()
    commands = re.findall(r"^pip install (.*)$", text, re.M)
    assert commands and all(command.split(" ")[0] == "./sdk/python" for command in commands), commands
    assert not re.search(r"pip install windlass\b(?!-tasks)", text)
