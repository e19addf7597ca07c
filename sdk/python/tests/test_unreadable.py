"""Runs and signals that the process of the handlers cannot read: each fails itself, whichever process has found it."""

from __future__ import annotations

from typing import cast

import pytest
from test_host import Fake, NeverWaits, answered, asks, make

from windlass_tasks._forms import Json
from windlass_tasks._host import Host
from windlass_tasks._run import Run, readable


def unreadable(order: int) -> Json:
    return {"order": order, "unreadable": "it has 5000 digits"}


def test_a_signal_that_cannot_be_read_fails_the_run_at_its_next_call() -> None:
    host, run = make(Run)
    host.hears = answered(run, "never")
    job = run.made()
    run.changed = NeverWaits()
    run.signalled(unreadable(2))
    for call in (lambda: job.wait(60), lambda: job.checkpoint(1), lambda: job.signals):
        with pytest.raises(ValueError, match="a signal cannot be read: it has 5000 digits"):
            call()
    assert ["took", 1, 2] not in host.sent, "it is handled, and lost with the run"


@pytest.mark.parametrize("at", ["props", "signal"])
def test_a_run_that_cannot_be_read_fails_before_its_handler_starts(at: str) -> None:
    name = {"id": "a", "kind": "asks", "fence": 1, "run": 1}
    claim = readable('{"id":"a","props":' + "7" * 5000 + "}", name)
    if at == "signal":
        claim = {**name, "signals": [unreadable(1)]}
    host = Fake()
    run = Run(cast(Host, host), 1, asks, claim)
    with pytest.raises(ValueError, match="cannot be read"):
        run.made()
    assert readable('{"id":"b"}', name) == {"id": "b"}
