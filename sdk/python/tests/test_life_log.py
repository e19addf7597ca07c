"""`windlass_tasks.testing`: the log of a life."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import threading
from typing import Any

import pytest

import windlass_tasks as windlass
from windlass_tasks import testing

app = windlass.App()
logger = logging.getLogger("handlers.pages")
START = dt.datetime(2030, 1, 1, tzinfo=dt.timezone.utc)
HOUR = dt.timedelta(hours=1)


@app.task("logs")
def logs(job: windlass.Job[str, Any]) -> None:
    logger.info("page %d", 3)
    logger.debug("not shown")
    thread = threading.Thread(target=logger.warning, args=("from a thread",))
    thread.start()
    thread.join(20)
    try:
        raise ValueError("no\nsuch page")
    except ValueError:
        logger.exception("failed")
    logging.getLogger("windlass_tasks").error("that of the worker")
    logger.info("%d", "no number")


@app.task("logs-too")
async def logs_too(job: windlass.Job[str, Any]) -> None:
    logger.info("page %d", 3)
    await asyncio.to_thread(logger.warning, "from a thread")


def test_what_a_handler_logs_is_in_the_log_of_its_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    root = logging.getLogger()
    before = (root.level, list(root.handlers))
    log = testing.run(logs, "").log
    assert log[:4] == ["INFO handlers.pages: page 3", "WARNING handlers.pages: from a thread", "ERROR handlers.pages: failed",
                       "Traceback (most recent call last):"]  # fmt: skip
    assert log[-2:] == ["ValueError: no", "such page"]
    assert testing.run(logs_too, "").log == log[:2]
    assert (root.level, list(root.handlers)) == before


def test_an_app_may_keep_its_records_out_of_the_logs_of_tasks() -> None:
    for level, wanted in ((None, []), (logging.ERROR, ["ERROR root: b"])):
        other = windlass.App(log_level=level)

        @other.task("logs")
        def handler(job: windlass.Job[Any, Any]) -> None:
            logging.warning("a")
            logging.error("b")

        assert testing.run(handler, None).log == wanted
