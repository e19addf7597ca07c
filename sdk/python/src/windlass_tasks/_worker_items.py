"""What a worker reports of its runs, until a server has answered."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import json
import logging
import secrets

from ._children import Run
from ._hosts import Hosts
from ._task import Offer

logger = logging.getLogger("windlass_tasks")
_ITEMS = 1000
_BYTES = 2 << 20
"""The most items and bytes of a report."""
_LINES = 4096
_LINE = 4096
_LINES_BYTES = 256 << 10
"""The most lines and bytes of the log of a task that wait for a server, and the bytes that are kept of a line: as in a node."""


@dataclasses.dataclass(eq=False)
class Item:
    """A report of a run. The numbered ones are sent one after the other until they are answered."""

    run: Run
    what: str
    text: str
    ticket: int = 0
    took: int = 0
    size: int = 0
    """The bytes of a line of the log."""
    is_sent: bool = False
    """Whether it is in the report that is on its way."""

    @property
    def is_last(self) -> bool:
        return self.what in ("return", "aborted")

    @property
    def is_numbered(self) -> bool:
        return self.what not in ("progress", "log")


class Items:
    """The runs of a worker, and what is still to be reported of them."""

    hosts: Hosts

    def __init__(self, app: Offer) -> None:
        self.app = app
        self.secret = secrets.token_hex(16)
        self.runs: dict[tuple[str, int], Run] = {}
        self.past: collections.OrderedDict[tuple[str, int], tuple[int, int, int]] = collections.OrderedDict()
        """Claims whose run has ended: the run, the number of log lines, and the last request that was sent before."""
        self.items: dict[Item, None] = {}
        self.progress: dict[Run, Item] = {}
        """The newest progress of each run that no server has answered."""
        self.reported: list[list[Item]] = []
        """The items of the last report: lines of a log that follow each other are one there."""
        self.work, self.idle = asyncio.Event(), asyncio.Event()
        self.batch, self.seq = _ITEMS, 0

    def drop(self, run: Run) -> None:
        """Forgets a run, but not that it was started."""
        key = (run.claim["id"], run.claim["fence"])
        if self.runs.get(key) is run:
            del self.runs[key]
            self.past[key] = (run.claim["run"], run.lines, self.seq)
            self.past.move_to_end(key)
        for item in [item for item in self.items if item.run is run] if run.items else ():
            self.done(item)
        if not self.runs:
            self.idle.set()

    def add(self, run: Run, what: str, text: str, ticket: int = 0, took: int = 0) -> None:
        """Adds a report of a run."""
        if run.is_lost or run.phase == "ended":
            return
        size = 0
        if what == "progress" and (last := self.progress.get(run)) is not None and not last.is_sent:
            last.text = text  # Nobody asks how far the handler was before.
            return
        if what == "log":
            size = min(len(json.loads(text).encode()), _LINE)
            run.lines += 1
            text = f'{{"n":{run.lines},"text":{text}}}'
        item = Item(run, what, text, ticket, max(took, run.took), size)
        if item.is_last:
            run.phase = "ended"
        run.items += 1
        self.items[item] = None
        if what == "progress":
            self.progress[run] = item
        if what == "log":
            run.log.append(item)
            run.log_bytes += item.size
            while len(run.log) > _LINES or run.log_bytes > _LINES_BYTES:
                self.done(run.log[0])  # The gap in the numbers counts as gone.
        self.work.set()

    def done(self, item: Item) -> None:
        del self.items[item]
        item.run.items -= 1
        if self.progress.get(item.run) is item:
            del self.progress[item.run]
        if item.what == "log":
            item.run.log.remove(item)
            item.run.log_bytes -= item.size

    def chosen(self) -> list[Item]:
        """Returns the items of the next report: of each run at most one that has a number."""
        chosen: list[Item] = []
        busy, size = set[int](), 0
        for item in self.items:
            if item.is_numbered and item.run.key in busy:
                continue
            size += len(item.text)
            if chosen and (len(chosen) >= self.batch or size > _BYTES):
                break
            if item.is_numbered:
                busy.add(item.run.key)
            chosen.append(item)
        return chosen

    def is_taken(self) -> None:
        """A server has taken a report: the next one may be twice as large."""
        self.batch = min(_ITEMS, self.batch * 2)

    def too_large(self) -> None:
        """The report was too large: the next one is half as large; a single item is refused."""
        items = [item for group in self.reported for item in group]
        if len(items) > 1:
            self.batch = len(items) // 2
            return
        self.refuse(items[0], "it is larger than the server takes")

    def refuse(self, item: Item, why: str) -> None:
        """Gives up a report that no server takes: the handler gets an error, or its task."""
        if item not in self.items:
            return  # It was dropped while it was on its way.
        logger.error("task %s: a report of the handler (%s) is not stored: %s", item.run.claim["id"], item.what, why)
        if item.what == "return":
            item.text = json.dumps({"message": "error", "error": f"what the handler has returned is not stored: {why}"})
        elif not item.is_last:
            self.done(item)
            if item.is_numbered:
                self.hosts.send(item.run, ["answer", item.run.key, item.ticket, why])


def grouped(items: list[Item]) -> list[list[Item]]:
    """Puts the lines of a log that follow each other together."""
    groups: list[list[Item]] = []
    for item in items:
        if groups and item.what == "log" and groups[-1][0].what == "log" and groups[-1][0].run is item.run:
            groups[-1].append(item)
        else:
            groups.append([item])
    return groups
