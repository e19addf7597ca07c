"""Functions at the start of a process that hang, and callables of other forms than functions."""

from __future__ import annotations

import functools
import re
from typing import Any

import pytest
from conftest import Server, until

import windlass_tasks as windlass
from windlass_tasks import testing

PLACES = ["loop", "process", "thread"]
HANGS = """
import asyncio, datetime as dt, os, pathlib, time
import windlass_tasks as windlass
from windlass_tasks import _children
_children._SLOW = 0.3
app, folder = windlass.App(ttl=15, max_tasks=1), pathlib.Path(os.environ["FOLDER"])
AWAIT = PLACE == "loop"
def hangs():
    while (folder / "hangs").exists(): time.sleep(0.05)
async def hangs_async():
    while (folder / "hangs").exists(): await asyncio.sleep(0.05)
app.on_process_start(hangs_async if AWAIT else hangs)
def done(job: windlass.Job): return "done"
async def done_async(job: windlass.Job): return "done"
stall = dt.timedelta(seconds=1) if STALLS else None
app.task("a", slots=1, place=PLACE, stall_after=stall)(done_async if AWAIT else done)
app.task("b", slots=1, place=PLACE, stall_after=stall)(done_async if AWAIT else done)
if __name__ == "__main__": app.run()
"""


def hanging(server: Server, place: str, stalls: bool) -> str:
    text = HANGS.replace("PLACE", repr(place)).replace("STALLS", str(stalls))
    (server.folder / "app.py").write_text(text)
    return str(server.folder / "app.py")


@pytest.mark.parametrize("place", PLACES)
def test_a_function_at_the_start_of_a_process_that_stalls_ends_it(server: Server, place: str) -> None:
    """Regression: it hung for ever, without a word."""
    app, says = (
        hanging(server, place, True),
        rf"on_process_start: \S+\.hangs{'_async' if place == 'loop' else ''} has not ended in ",
    )
    (server.folder / "hangs").touch()
    assert server.work(app).wait(20) == 1
    log = server.log()
    assert re.search(says + "0 s: its process runs no handler meanwhile", log), log
    assert re.search(f"the worker has ended: the process of the handlers has stalled at its start: {says}1 s", log), log
    (server.folder / "hangs").unlink()
    server.work(app)
    client = server.client()
    assert client.result(client.submit("a")["id"], 20) == "done"
    (server.folder / "hangs").touch()
    id = client.submit("a")["id"]
    until("a process has stalled", lambda: re.search(f"a process of handlers has stalled at its start: {says}1 s", server.log(1)))
    (server.folder / "hangs").unlink()
    assert client.result(id, 20) == "done"
    task = client.get(id)
    assert (task["attempts"], task["errors_total"]) == (0, 0)


def test_a_function_that_takes_long_is_named_and_goes_on_without_a_bound(server: Server) -> None:
    (server.folder / "hangs").touch()
    server.work(hanging(server, "process", False))
    until("it is named twice", lambda: len(re.findall(r"hangs has not ended in \d+ s", server.log())) > 1)
    assert server.workers[0].poll() is None
    (server.folder / "hangs").unlink()
    client = server.client()
    assert client.result(client.submit("b")["id"], 20) == "done"


# Callables


class Async:
    """An object that is called as an `async def`."""

    def __init__(self, app: windlass.App) -> None:
        self.app = app

    async def __call__(self) -> None: ...


class Doubles:
    async def __call__(self, job: windlass.Job[int, None]) -> int:
        await job.wait(0)
        return 2 * job.props


class Triples:
    def __call__(self, job: windlass.Job[int, None]) -> int:
        return 3 * job.props


async def times(job: windlass.Job[int, None], *, by: int) -> int:
    return by * job.props


def logged(handler: Any) -> Any:
    """A decorator around any handler."""

    @functools.wraps(handler)
    def call(job: Any) -> Any:
        return handler(job)

    return call


async def plain(job: windlass.Job[int, None]) -> int:
    return job.props


CALLABLES: list[tuple[Any, str, int]] = [
    (Doubles(), "loop", 8),
    (Triples(), "process", 12),
    (functools.partial(times, by=5), "loop", 20),
    (logged(plain), "loop", 4),
    (logged(Triples().__call__), "process", 12),
]


@pytest.mark.parametrize("handler, place, result", CALLABLES, ids=["object", "def", "partial", "wrapped", "wrapped def"])
def test_a_handler_is_what_it_returns(handler: Any, place: str, result: int) -> None:
    task = windlass.App().task("a")(handler)
    assert (task.place, task.props) == (place, int)
    assert testing.run(task, 4).result == result
    assert testing.live(task, 4).result == result


def test_a_handler_in_the_wrong_place_is_told() -> None:
    with pytest.raises(TypeError, match="place='process' is for def"):
        windlass.App().task("a", place="process")(Doubles())

    blocks = windlass.App().task("b", place="process")(logged(plain))
    assert testing.run(blocks, 1).errors == [
        "TypeError: the handler has returned what is awaited: write async def, or give place='loop'"
    ]

    @functools.wraps(plain)
    def returns(job: Any) -> int:
        return 1

    (error,) = testing.run(windlass.App().task("c")(returns), 1).errors
    assert "returns nothing to await: write async def, or give place='process'" in error


def test_an_object_that_is_awaited_is_refused_where_nothing_awaits_it() -> None:
    """Regression: it was called, and what it returned thrown away."""
    app = windlass.App()
    app.task("a")(Triples())
    app.on_process_start(Async(app))
    with pytest.raises(ValueError, match=r"Async.__call__ is never awaited, because no handler is an async def: write def"):
        app.run()


OBJECTS = """
import asyncio, functools, os, pathlib
import windlass_tasks as windlass
app, made = windlass.App(ttl=15), []
class Connects:
    async def __call__(self):
        made.append(asyncio.get_running_loop())
async def connect(name): made.append(name)
app.on_process_start(Connects())
app.on_process_start(functools.partial(connect, name="partial"))
app.on_process_start(lambda: connect("lambda"))
class Sees:
    async def __call__(self, job: windlass.Job): return [made[0] is asyncio.get_running_loop(), *made[1:]]
app.task("loop")(Sees())
def sees(job: windlass.Job): return made
app.task("process", slots=1)(sees)
app.task("thread", place="thread")(sees)
if __name__ == "__main__": app.run()
"""


def test_what_is_awaited_at_the_start_is_awaited_in_the_event_loop_alone(server: Server) -> None:
    (server.folder / "app.py").write_text(OBJECTS)
    server.work(str(server.folder / "app.py"))
    client = server.client()
    for kind, found in (("loop", [True, "partial", "lambda"]), ("process", []), ("thread", [])):
        assert client.result(client.submit(kind, retry=1)["id"], 20) == found
    assert "never awaited" not in server.log()


def test_a_lambda_that_is_awaited_is_refused_where_nothing_awaits_it(server: Server) -> None:
    text = OBJECTS.replace('app.task("loop")(Sees())', "").replace("app.on_process_start(Connects())", "")
    text = text.replace('app.on_process_start(functools.partial(connect, name="partial"))', "")
    (server.folder / "app.py").write_text(text)
    assert server.work(str(server.folder / "app.py")).wait(20) == 1
    assert re.search(r"on_process_start: \S*<lambda> is never awaited, because no handler is an async def", server.log())
