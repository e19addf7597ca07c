"""The results of tasks that runs have waited for, read from the server for their handlers."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from . import _answers
from ._aio_link import AsyncLink
from ._children import Run
from ._forms import Json
from ._streams import Address
from ._troubles import Again, Lost, Over, Overtaken, Refusal, TooLarge, WrongItem

if TYPE_CHECKING:
    from ._worker import Worker

FEATURE = "waited"
"""The feature of a server that sends results."""
_AT_ONCE = 4
"""The most pages that are read at once: each may have two MiB."""
_PAUSE = 0.1
_OLD = "the server is older than this package and does not send the results of other tasks: update the server"


class Pages:
    """Reads pages for the handlers of a worker, beside its exchanges and reports."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.links = [f"page-{n}" for n in range(_AT_ONCE)]
        self.room = asyncio.Semaphore(_AT_ONCE)
        self.reading: set[asyncio.Task[None]] = set()

    def read(self, run: Run, ticket: int, start: int) -> None:
        """Begins to read the page that begins at a place, and sends it to the process of the handler."""
        task = asyncio.ensure_future(self._read(run, ticket, start))
        self.reading.add(task)
        task.add_done_callback(self.reading.discard)

    async def _read(self, run: Run, ticket: int, start: int) -> None:
        async with self.room:
            link = self.links.pop()
            try:
                answer = await self._page(run, start, link)
            except Exception as error:
                answer = {"error": f"the results could not be read: {type(error).__name__}: {error}"}
            finally:
                self.links.append(link)
        self.worker.hosts.send(run, ["page", run.key, ticket, answer])

    async def _page(self, run: Run, start: int, link: str) -> Json:
        """Returns `{"page": text}`, or `{"error": why}`. It tries again for as long as the worker holds the run."""
        worker, claim = self.worker, run.claim
        if FEATURE not in worker.features:
            return {"error": _OLD}
        worker.links.setdefault(link, AsyncLink(Address.read(worker.urls[0]), worker.token))
        body = {"secret": worker.secret, "id": claim["id"], "fence": claim["fence"], "run": claim["run"], "from": start}
        text, path = json.dumps(body), f"/v1/workers/{worker.name}/waited"
        while worker.runs.get((claim["id"], claim["fence"])) is run:
            try:
                answer = await worker.post(link, path, text, worker.patience(0.0), {"tasks": list})
            except Lost:
                worker.lose(claim["id"], claim["fence"])
            except (Again, Over, Overtaken):
                await asyncio.sleep(_PAUSE)
            except (Refusal, TooLarge, WrongItem) as error:
                return {"error": f"the results could not be read: {error}"}
            else:
                return {"page": json.dumps(_page(answer))}
        return {"error": "the run has ended"}


def _page(answer: Json) -> Json:
    """Returns a page as a process of handlers gets it: with the reason in place of what cannot be read."""
    found = answer.get("next")
    tasks = []
    for one in _answers.entries(answer, "tasks", {"task": str, "outcome": str}):
        whole, missing = _answers.without_missing(one)
        tasks.append({**whole, "unreadable": "; ".join(missing.values())} if missing else whole)
    return {"tasks": tasks, "next": found if isinstance(found, int) else None}
