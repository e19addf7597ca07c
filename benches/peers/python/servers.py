"""Servers on free ports, with their data in the folder of a measurement."""

import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

PATIENCE = 30.0
"""Seconds that a server has to listen."""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def start(name: str, folder: Path) -> subprocess.Popen[bytes] | None:
    """Starts the server of a system, waits until it listens, and sets the variables by which a system finds it."""
    port = free_port()
    if name == "sqlite":
        return None
    server = {"redis": redis, "postgresql": postgresql, "windlass": windlass}[name](port, folder)
    until = time.monotonic() + PATIENCE
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return server
        except OSError:
            if server.poll() is not None or time.monotonic() > until:
                server.kill()
                raise RuntimeError(f"could not start {name}: it does not listen") from None
            time.sleep(0.02)


def stop(server: subprocess.Popen[bytes] | None) -> None:
    if server is not None:
        server.send_signal(signal.SIGINT)  # The fast shutdown of PostgreSQL.
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def redis(port: int, folder: Path) -> subprocess.Popen[bytes]:
    """Redis with a log that is synced after each write (`always`), or each second."""
    os.environ["PEER_URL"] = f"redis://127.0.0.1:{port}/0"
    command = ["redis-server", "--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder), "--save", ""]
    command += ["--appendonly", "yes", "--appendfsync", os.environ["PEER_FSYNC"]]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def postgresql(port: int, folder: Path) -> subprocess.Popen[bytes]:
    """PostgreSQL with its defaults except for the number of connections. Root starts it as the user `postgres`."""
    os.environ["PEER_URL"] = f"host=127.0.0.1 port={port} user=postgres dbname=postgres"
    programs = Path(os.path.realpath(shutil.which("initdb") or "initdb")).parent
    data = folder / "postgresql"
    data.mkdir()
    who: dict[str, object] = {}
    if os.geteuid() == 0:
        user = pwd.getpwnam("postgres")
        os.chown(data, user.pw_uid, user.pw_gid)
        who = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": [], "cwd": "/"}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    initdb = [programs / "initdb", "--auth=trust", "--username=postgres", "--no-sync", "--pgdata", data]
    subprocess.run(initdb, check=True, **quiet, **who)
    command = [programs / "postgres", "-D", data, "-p", str(port), "-c", "listen_addresses=127.0.0.1"]
    command += ["-c", "unix_socket_directories=", "-c", "max_connections=200"]
    return subprocess.Popen(command, **quiet, **who)


def windlass(port: int, folder: Path) -> subprocess.Popen[bytes]:
    """A server of windlass on SQLite with synchronous FULL, its default."""
    program, store = os.environ["PEER_WINDLASS"], f"sqlite:{folder}/jobs.db"
    token = subprocess.run(
        [program, "--store", store, "token", "new", "peer", "--role", "admin"], check=True, capture_output=True, text=True
    )
    found = re.search(r"wlt_\w+", token.stdout)
    if found is None:
        raise RuntimeError("could not make a token: `windlass token new` printed none")
    os.environ["WINDLASS_URL"], os.environ["WINDLASS_TOKEN"] = f"http://127.0.0.1:{port}", found[0]
    command = [program, "--store", store, "serve", "--listen", f"127.0.0.1:{port}", "--no-socket"]
    with open(folder / "serve.log", "w") as log:
        return subprocess.Popen(command, stdout=log, stderr=log)
