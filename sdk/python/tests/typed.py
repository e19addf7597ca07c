# pyright: reportUnnecessaryTypeIgnoreComment=error
"""What type checkers see: each line with a comment is wrong for mypy and for pyright, and the others are right for both.

Nothing runs this file: `cargo xtask python` checks it, and an error that is not seen is an unused comment."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TypedDict

from typing_extensions import NotRequired, assert_type

import windlass_tasks as windlass

app = windlass.App()
client = windlass.Client()
HOUR = dt.timedelta(hours=1)


@dataclass
class Import:
    pages: int


class Mail(TypedDict):
    to: str
    copy: NotRequired[str]


@dataclass
class Size:
    width: int


@app.task("import")
def import_pages(job: windlass.Job[Import, int]) -> windlass.Next[int]:
    job.submit(import_pages, Import(1), start_at=HOUR)
    job.submit(import_pages, Import(1), start=HOUR)  # type: ignore[call-overload]
    job.submit(import_pages, Mail(to="a"))  # type: ignore[misc]
    job.checkpoint("one")  # type: ignore[arg-type]
    assert_type(job.now(), dt.datetime)
    for one in job.waited.results(Size):
        assert_type(one.value, Size)
    for any_one in job.waited.results():
        any_one.value.width.whatever()
    return job.complete(job.props.pages)


@app.task("mail")
async def mail(job: windlass.Job[Mail, None]) -> windlass.Next[str]:
    sizes = [one.value.width async for one in job.waited.results(Size)]
    assert_type(sizes, list[int])
    if job.wait_expired:
        return job.fail("nobody has approved")
    job.wait_for("a", within=HOUR)
    job.wait_for_signal("approve", within="an hour")  # type: ignore[arg-type]
    return job.wait_for_signal("approve", within=HOUR)


@app.task("nightly")
def nightly(job: windlass.Job[None, None]) -> None: ...


resize = windlass.Kind("resize", Size)


def submits() -> None:
    client.submit(import_pages, Import(1), id="a", priority=1, labels={"a": "b"}, limits=[{"key": "api", "at_once": 3}])
    client.submit(mail, Mail(to="a", copy="b"))
    client.submit(nightly)
    client.submit(nightly, None, if_exists="same")
    client.submit(resize, Size(1))
    client.submit("anything", {"a": 1}, retry=5)
    client.submit(import_pages)  # type: ignore[arg-type]
    client.submit(import_pages, {"pages": 1})  # type: ignore[misc]
    client.submit(mail, {"too": "a"})  # type: ignore[misc]
    client.submit(resize, Import(1))  # type: ignore[misc]
    client.submit(import_pages, Import("one"))  # type: ignore[arg-type]
    client.submit(import_pages, Import(1), priority="high")  # type: ignore[call-overload]
    client.submit(import_pages, Import(1), prority=1)  # type: ignore[call-overload]
    client.submit("anything", labels=["a"])  # type: ignore[call-overload]
    client.submit_many([import_pages.new(Import(1)), resize.new(Size(1), start_at=60)])
    import_pages.new(Mail(to="a"))  # type: ignore[arg-type]
    resize.new(Import(1))  # type: ignore[arg-type]
    resize.new(Size(1), start=60)  # type: ignore[call-arg]


async def submits_too() -> None:
    asynchronous = windlass.AsyncClient()
    await asynchronous.submit(import_pages, Import(1))
    await asynchronous.submit(import_pages, "one")  # type: ignore[misc]
