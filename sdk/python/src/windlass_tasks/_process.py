"""The beginning of a process of handlers."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import io
import logging
import os
import signal
import socket
import sys
from typing import Any

from . import _token
from ._frames import frames
from ._host import ENDS, Host
from ._places import LoopHost, ProcessHost, ThreadHost
from ._task import Task, made

_PLACES: dict[str, type[Host]] = {"process": ProcessHost, "thread": ThreadHost, "loop": LoopHost}


def main(link: socket.socket, where: dict[str, tuple[str, str]], place: str, known: frozenset[str]) -> None:
    """Runs handlers until the worker's process ends. `where` has the module and the name of each kind's handler, and `known`
    the source files of which the worker knows the content."""
    os.setpgid(0, 0)  # The commands that handlers start end with them.
    _keep_files()
    for number in ENDS:
        signal.signal(number, lambda *_: None)  # The worker decides. An ignored signal would be ignored by commands, too.
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True)  # What a handler prints is not lost when its process is killed.
    if not logging.getLogger().handlers:
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    tasks: dict[str, Task[Any, Any]] = {}
    for kind, (module, name) in where.items():
        importlib.import_module(module)
        found = made.get((kind, module.replace("__main__", "__mp_main__"), name))
        if found is None:
            differs = f"importing {module} does not make {name} the handler of {kind}: decorate it in a module"
            link.sendall(frames([["differs", differs]]))
            raise SystemExit(f"windlass: {differs}")
        tasks[kind] = found
    _token.keep()
    _PLACES[place](link, tasks, known).serve()


def _keep_files() -> None:
    """Keeps the files that the worker has opened for this process from the commands of handlers."""
    for name in os.listdir("/dev/fd"):
        if name.isdecimal() and int(name) > 2:
            with contextlib.suppress(OSError):
                os.set_inheritable(int(name), False)
