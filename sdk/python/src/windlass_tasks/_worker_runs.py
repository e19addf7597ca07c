"""The runs of a worker: which begin, and which end."""

from __future__ import annotations

import json
import logging

from . import _answers
from ._answers import RUN
from ._children import Run
from ._forms import Json
from ._run import clock, sound
from ._worker_items import Items

logger = logging.getLogger("windlass_tasks")


class Runs(Items):
    """Begins and ends runs, as servers say."""

    closing = False

    def named(self, name: Json) -> Run | None:
        run = self.runs.get((name["id"], name["fence"]))
        return run if run and run.claim["run"] == name["run"] else None

    def start(self, answer: Json) -> None:
        if clock() >= self.hosts.until:
            return  # The answer may have come late: another worker may have the tasks by now.
        for found in _answers.entries(answer, "claims", RUN):
            claim, unreadable = _answers.claim(found)
            key = (claim["id"], claim["fence"])
            known, past = self.runs.get(key), self.past.get(key)
            last = max(known.claim["run"] if known else 0, past[0] if past else 0)
            # An answer may come late: a smaller run of the claim, or an earlier claim of the task, is over.
            newer = (one for known_runs in (self.runs, self.past) for one in known_runs if one[0] == key[0] and one[1] > key[1])
            if claim["run"] <= last or any(newer):
                continue
            # A server that has not heard of the earlier run may start this one: one handler of a task runs at a time.
            for other in [one for one in self.runs if one[0] == claim["id"] and one[1] <= claim["fence"]]:
                if self.runs[other].phase == "ended":
                    self.drop(self.runs[other])
                else:
                    self.lose(*other)
            if claim["kind"] not in self.app.tasks:
                if len(self.app.tasks) > 1:
                    unreadable = unreadable or f"this worker has no handler of the kind {claim['kind']}"
                claim["kind"] = next(iter(self.app.tasks))
            claim["received"] = clock()  # From then on `Job.now` counts, in the process of the handler.
            run = Run(claim, self.app.tasks[claim["kind"]], past[1] if past else 0)
            self.runs[key] = run
            if unreadable:
                self.unreadable(run, unreadable)
            elif self.closing:
                self.add(run, "return", '{"message":"release"}')
            else:
                self.hosts.assign(run)

    def unreadable(self, run: Run, why: str) -> None:
        """Fails a run of which this process cannot read a value: the retry policy of the task decides what follows."""
        logger.error("task %s: its handler is not run: %s", run.claim["id"], why)
        self.add(run, "return", json.dumps({"message": "error", "error": sound(why)}))

    def stop(self, run: Run, stop: Json) -> None:
        stop, missing = _answers.without_missing(stop)
        if missing:
            self.hosts.abort(run, "; ".join(f"the {name} that ends the run cannot be read: {why}" for name, why in missing.items()))
        elif run.phase == "running":
            run.phase = "stopping"
            run.stop_at = clock() + min(stop["grace_ms"], run.claim["grace_ms"]) / 1000
            self.hosts.stop(run, stop)

    def lose(self, id: str, fence: int) -> None:
        if run := self.runs.get((id, fence)):
            logger.warning("task %s: its claim is over; its handler is aborted", id)
            run.is_lost = True
            self.hosts.abort(run)
            self.drop(run)

    def lose_all(self) -> None:
        for id, fence in list(self.runs):
            self.lose(id, fence)
        self.hosts.kill_busy()
