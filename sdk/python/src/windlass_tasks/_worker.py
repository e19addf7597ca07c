"""The worker: registers, exchanges and reports (docs/reference/workers.md), and keeps the handlers in processes."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import json
import logging
import os
import re
import secrets
import signal
import socket
from collections.abc import Mapping
from typing import Any

from . import _answers
from ._aio import AsyncAnswer, AsyncLink
from ._answers import RUN
from ._children import Run
from ._forms import Json
from ._hosts import Hosts
from ._pages import Pages
from ._run import clock, sound
from ._streams import Address
from ._task import Offer
from ._troubles import Again, Lost, Over, Overtaken, Refusal, TooLarge, WrongItem
from ._version import VERSION

logger = logging.getLogger("windlass_tasks")

_PAUSE = 0.1
_PART = 0.8
"""The part of the TTL after which handlers are stopped."""
_ITEMS = 1000
_BYTES = 2 << 20
"""The most items and bytes of a report."""
_SENT = 20
"""How many exchanges may wait for the word that they have renewed the lease."""
_LINES = 4096
_LINE = 4096
_LINES_BYTES = 256 << 10
"""The most lines and bytes of the log of a task that wait for a server, and the bytes that are kept of a line: as in a node."""
_REGISTERED: Mapping[str, type] = {"worker": str, "ttl_ms": int, "wait_ms": int, "seq": int}
"""The fields of the answer to a registration."""


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


def work(app: Offer) -> int:
    """Runs the handlers of an app until a signal, and returns the exit code."""
    worker = Worker(app)
    try:
        return asyncio.run(worker.run())
    except Refusal as why:
        logger.error("the worker has ended: %s", why)
        return 1


class Worker:
    """One lease, its claims, and the requests about them."""

    def __init__(self, app: Offer) -> None:
        self.app = app
        client = app.async_client()
        self.token, self.urls = client._token, [address.url for address in client._servers]
        self.links = {what: AsyncLink(Address.read(self.urls[0]), self.token) for what in ("exchange", "report")}
        self.secret = secrets.token_hex(16)
        self.hosts, self.pages = Hosts(app, self), Pages(self)
        self.features: list[Any] = []
        """What else the server can do."""
        self.runs: dict[tuple[str, int], Run] = {}
        self.past: collections.OrderedDict[tuple[str, int], tuple[int, int, int]] = collections.OrderedDict()
        """Claims whose run has ended: the run, the number of log lines, and the last request that was sent before."""
        self.items: dict[Item, None] = {}
        self.progress: dict[Run, Item] = {}
        """The newest progress of each run that no server has answered."""
        self.reported: list[list[Item]] = []
        """The items of the last report: lines of a log that follow each other are one there."""
        self.work, self.idle, self.registering = asyncio.Event(), asyncio.Event(), asyncio.Lock()
        self.closing, self.closed, self.hurried, self.again, self.drain = False, False, False, True, False
        self.not_before = 0.0
        self.batch, self.leases = _ITEMS, 0
        self.name, self.ttl, self.wait = "", app.ttl, app.ttl / 4
        self.seq, self.settled, self.open, self.sent = 0, 0, set[int](), collections.OrderedDict[int, float]()
        self.until = 0.0
        self.exchanging: asyncio.Task[Any] | None = None
        self.asked: list[str] = []
        """The `pause_kinds` of the last exchange."""
        self.ending: asyncio.Task[None] | None = None
        self.ended: asyncio.Future[int]

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        self.ended = ended = loop.create_future()

        def signalled() -> None:
            if self.closing and not ended.done():
                logger.warning("a second signal: the handlers are aborted")
                ended.set_result(1)
            self.end(0)

        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, signalled)
        try:
            await self.hosts.start()
            if self.closing:  # A signal has come while the handlers were imported.
                return await self.ended
            loops = [asyncio.ensure_future(part()) for part in (self.exchange_on, self.report_on, self.watch_on)]
            done, _ = await asyncio.wait([ended, *loops], return_when=asyncio.FIRST_COMPLETED)
            self.closed = True
            for part in loops:
                part.cancel()
            await asyncio.wait(loops, timeout=2.0)
            code: int = next(part.result() for part in done)
            return code
        finally:
            self.hosts.kill_all()
            if self.name:
                await self.leave()

    def end(self, code: int) -> None:
        """Ends the worker with this exit code when its handlers have ended, unless it ends already."""
        if not self.closing:
            self.closing = True
            self.ending = asyncio.ensure_future(self.close(code))

    async def close(self, code: int) -> None:
        """Stops the handlers, waits for their ends to be stored, and ends the worker."""
        logger.info("the worker ends: its handlers are stopped, and their tasks released")
        self.hurry()  # The next exchange asks for no more tasks.
        for run in list(self.runs.values()):
            self.stop(run, {"reason": "shutdown", "grace_ms": run.claim["grace_ms"]})
        # Without a server nothing can be reported: when the lease is over, the tasks are taken over.
        while self.runs and (clock() < self.until or any(run.phase != "ended" for run in self.runs.values())):
            self.idle.clear()
            await asyncio.wait([asyncio.ensure_future(self.idle.wait())], timeout=0.2)
        if not self.ended.done():
            self.ended.set_result(code)

    def paused(self) -> list[str]:
        """Returns the kinds of which the worker wants no tasks now."""
        return sorted(self.app.tasks) if self.closing else self.hosts.paused()

    def hurry(self) -> None:
        """Ends the open exchange, if the next one asks for tasks of other kinds."""
        if self.exchanging is not None and self.paused() != self.asked and self.exchanging.cancel():
            self.hurried = True

    async def leave(self) -> None:
        path, body = f"/v1/workers/{self.name}/leave", json.dumps({"secret": self.secret}).encode()
        for url in self.urls[:2]:
            link = AsyncLink(Address.read(url), self.token)
            try:
                await link.call("POST", path, body, {"Content-Type": "application/json"}, 2.0)
                return
            except (OSError, ValueError, asyncio.TimeoutError):
                continue  # The lease ends by itself.
            finally:
                link.close()

    # Requests

    async def post(self, what: str, path: str, body: str, timeout: float, needs: Mapping[str, type]) -> Json:
        """Sends a request, and judges its answer: an object that has these fields."""
        lease = self.leases
        await asyncio.sleep(max(0.0, self.not_before - clock()))
        link = self.links[what]
        if link.address.url != self.urls[0]:
            link.close()
            link = self.links[what] = AsyncLink(Address.read(self.urls[0]), self.token)
        try:
            headers = {"Content-Type": "application/json"}
            answer, read = await link.call("POST", path, body.encode(), headers, timeout, self.patience(0.0))
            if answer.status < 300:
                # A value that cannot be read fails its own run: the others of the answer go on.
                found = _answers.shaped(_answers.parts(read, 3), needs)
                self.trouble, self.overtaken = "", 0
                return found
        except (OSError, ValueError, asyncio.TimeoutError) as error:
            await self._next_server(link, f"{link.address.url}: {str(error) or type(error).__name__}")
            raise Again from error
        problem = _answers.problem(read) or {}
        said = problem.get("detail") or problem.get("code") or "a text that is not that of a windlass server"
        await self._refused(link, answer, problem, f"{link.address.url} answered {answer.status}: {said}", lease)
        raise Again

    trouble = ""
    overtaken = 0
    """Requests in a row that were overtaken. A server that refuses ten is asked again after a pause."""

    async def _next_server(self, link: AsyncLink, why: str) -> None:
        if not self.trouble:
            logger.warning("%s; trying again", why)
        self.trouble = why
        if self.urls[0] == link.address.url:  # An exchange and a report that fail at once change the server once.
            self.urls.append(self.urls.pop(0))
        await asyncio.sleep(_PAUSE)

    async def _refused(self, link: AsyncLink, answer: AsyncAnswer, problem: Json, detail: str, lease: int) -> None:
        status, code = answer.status, problem.get("code", "")
        pause = _answers.pause(answer.headers, _PAUSE)
        if not problem and status in (400, 401, 403, 410):  # That of a proxy, which knows nothing of the lease.
            return await self._next_server(link, detail)
        field = problem.get("field") or problem.get("detail") or ""
        if status == 400 and (wrong := re.match(r"(?:body: )?items\[(\d+)\]", str(field))):
            raise WrongItem(int(wrong.group(1)), detail)
        if status in (400, 401, 403):
            raise Refusal(detail)
        if status == 410:
            if lease == self.leases and not self.again:
                logger.error("%s; the handlers are aborted, and the worker registers again", detail)
                self.again = True
                self.lose_all()
            raise Over
        if status == 413:
            raise TooLarge
        if status == 503 and len(self.urls) > 1:
            return await self._next_server(link, detail)
        if status == 409 and code == "lost":
            raise Lost
        if code == "stale" and lease == self.leases:
            self.overtaken += 1
            if self.overtaken < 10:
                raise Overtaken
        if status == 409 and code == "exists":
            self.name = ""
        elif status != 409:
            logger.warning("%s; trying again in %g s", detail, pause)
        self.not_before = max(self.not_before, clock() + (_PAUSE if status == 409 else pause))
        if status not in (409, 429, 503):
            await self._next_server(link, detail)
        return None

    def numbered(self) -> tuple[int, int]:
        """Returns the number of a new request, and up to which number all are settled."""
        self.seq += 1
        self.open.add(self.seq)
        return self.seq, min(self.open) - 1

    def is_answered(self, seq: int) -> None:
        self.open.discard(seq)
        while len(self.sent) > _SENT:
            self.sent.popitem(last=False)
        settled = min(self.open, default=self.seq + 1) - 1
        while self.past and next(iter(self.past.values()))[2] <= settled and len(self.past) > 1000:
            self.past.popitem(last=False)

    async def register(self) -> None:
        """Registers, with the same name until a server has answered."""
        async with self.registering:
            while self.again:
                self.name = self.name or f"{socket.gethostname()[:200]}-{os.getpid()}-{secrets.token_hex(4)}".replace("/", "-")
                kinds = {
                    task.kind: {
                        "slots": task.slots,
                        "reads": task.data_version,
                        "grace_ms": round(task.grace * 1000),
                        "signals": task.signals,
                    }
                    for task in self.app.tasks.values()
                }
                body = {
                    "protocol": [1],
                    "name": self.name,
                    "secret": self.secret,
                    "kinds": kinds,
                    "labels": self.app.labels,
                    "ttl_ms": round(self.app.ttl * 1000),
                    "sdk": f"windlass-python/{VERSION}",
                    "host": socket.gethostname(),
                    "pid": os.getpid(),
                }
                sent = clock()
                try:
                    answer = await self.post("exchange", "/v1/workers", json.dumps(body), self.patience(0.0), _REGISTERED)
                except (Again, Over, Overtaken, TooLarge):
                    continue
                self.name, self.ttl, self.wait = answer["worker"], answer["ttl_ms"] / 1000, answer["wait_ms"] / 1000
                self.features = answer["features"] if isinstance(answer.get("features"), list) else []
                self.seq, self.leases, self.again = max(self.seq, answer["seq"]), self.leases + 1, False
                self.open.clear()
                self.sent.clear()
                self.use_servers(answer)
                self.renewed(sent)
                logger.info("the worker %s has registered at %s for %s", self.name, self.urls[0], ", ".join(sorted(kinds)))

    def patience(self, wait: float) -> float:
        return wait + min(10.0, self.ttl / 6)

    def renewed(self, sent: float) -> None:
        self.until = max(self.until, sent + _PART * self.ttl)
        self.hosts.renew(self.until)

    def use_servers(self, answer: Json) -> None:
        servers = answer.get("servers")
        if isinstance(servers, list) and servers:
            self.urls = [self.urls[0], *(url for url in servers if url != self.urls[0] and _is_url(url))]

    async def exchange_on(self) -> int:
        failed = True
        while not self.closed:
            if self.again:
                await self.register()
            self.exchanging = asyncio.ensure_future(self.exchange(failed))
            try:
                await self.exchanging
                failed = False
            except Overtaken:
                failed = True
            except (Again, Over, TooLarge):
                failed = True
                await asyncio.sleep(_PAUSE)
            except asyncio.CancelledError:
                if self.closed or not self.hurried:
                    raise
                self.hurried, failed = False, True
        return 0

    async def exchange(self, failed: bool) -> None:
        wait = 0.0 if failed else self.wait
        seq, settled = self.numbered()
        self.sent[seq] = clock()
        held = [run.held() for run in self.runs.values()]
        body = {"secret": self.secret, "seq": seq, "settled": settled, "held": held, "wait_ms": int(wait * 1000)}
        self.asked = self.paused()
        if self.asked:
            body["pause_kinds"] = self.asked
        try:
            path = f"/v1/workers/{self.name}/exchange"
            answer = await self.post("exchange", path, json.dumps(body), self.patience(wait), {"renewed_seq": int})
            if (sent := self.sent.get(answer["renewed_seq"])) is not None:
                self.renewed(sent)
            self.drain = answer.get("drain") is True
            self.use_servers(answer)
            for lost in _answers.entries(answer, "lost", {"id": str, "fence": int}):
                self.lose(lost["id"], lost["fence"])
            for stop in _answers.entries(answer, "stop", {**RUN, "reason": str, "grace_ms": int}):
                if run := self.named(stop):
                    run.is_stopped = True
                    self.stop(run, stop)
            for sent_ in _answers.entries(answer, "signals", {**RUN, "order": int}):
                if run := self.named(sent_):
                    run.signalled(_whole(sent_))
            self.start(answer)
        finally:
            self.is_answered(seq)

    def named(self, name: Json) -> Run | None:
        run = self.runs.get((name["id"], name["fence"]))
        return run if run and run.claim["run"] == name["run"] else None

    # Runs

    def start(self, answer: Json) -> None:
        for found in _answers.entries(answer, "claims", RUN):
            claim, unreadable = _answers.claim(found)
            key = (claim["id"], claim["fence"])
            known, past = self.runs.get(key), self.past.get(key)
            last = max(known.claim["run"] if known else 0, past[0] if past else 0)
            if claim["run"] <= last:
                continue
            for other in [one for one in self.runs if one[0] == claim["id"] and one[1] <= claim["fence"]] if known else ():
                self.drop(self.runs[other])
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

    def read(self, run: Run, ticket: int, start: int) -> None:
        """Reads results of the tasks that a run has waited for."""
        self.pages.read(run, ticket, start)

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

    async def report_on(self) -> int:
        while True:
            if not self.items or self.again:
                self.work.clear()
                if not self.items:
                    await self.work.wait()
                else:
                    await asyncio.sleep(_PAUSE)
                continue
            try:
                if await self.report():
                    await asyncio.sleep(_PAUSE)
            except Overtaken:
                continue
            except TooLarge:
                self.too_large()
            except WrongItem as wrong:
                if wrong.at >= len(self.reported):
                    raise Refusal(str(wrong)) from wrong
                for item in self.reported[wrong.at]:
                    self.refuse(item, str(wrong))
            except (Again, Over):
                await asyncio.sleep(_PAUSE)

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

    async def report(self) -> bool:
        """Sends a report. Returns whether one of its items is to be sent again."""
        groups = self.reported = grouped(self.chosen())
        sent = [item for group in groups for item in group if item.what == "progress"]
        for item in sent:
            item.is_sent = True
        seq, settled = self.numbered()
        parts = []
        for item, *more in groups:
            number = f'"n":{item.run.n},"took":{item.took},' if item.is_numbered else ""
            text = f"[{','.join([item.text, *(one.text for one in more)])}]" if item.what == "log" else item.text
            parts.append(f'{{{item.run.name_text},{number}"{item.what}":{text}}}')
        wanted = "false" if self.closing or self.drain or self.hosts.reduced else "true"
        body = f'{{"secret":"{self.secret}","seq":{seq},"settled":{settled},"claims_wanted":{wanted},"items":[{",".join(parts)}]}}'
        try:
            lease = self.leases
            path = f"/v1/workers/{self.name}/report"
            answer = await self.post("report", path, body, self.patience(0.0), {"results": list})
            if lease != self.leases:
                return True  # The answer is about the lease before.
            answered = zip(groups, answer["results"], strict=False)
            results = [self.result(item, result) for group, result in answered for item in group]
            self.start(answer)
            self.batch = min(_ITEMS, self.batch * 2)
            return any(results) or len(answer["results"]) < len(groups)
        finally:
            self.is_answered(seq)
            for item in sent:
                item.is_sent = False
                if item in self.items and self.progress.get(item.run) is not item:
                    self.done(item)  # A newer one has come meanwhile.

    def result(self, item: Item, result: Json) -> bool:
        result, _ = _answers.without_missing(result if isinstance(result, dict) else {})
        run, what = item.run, result.get("result")
        if item not in self.items:
            return False
        if what not in ("applied", "refused", "lost"):
            return True
        if what == "lost":
            self.lose(run.claim["id"], run.claim["fence"])
            return False
        self.done(item)
        if item.is_last:
            if what == "refused":
                logger.error("task %s: what the handler has returned is not stored: %s", run.claim["id"], result.get("error"))
            self.drop(run)
        elif item.is_numbered:
            run.n += what == "applied"
            self.hosts.send(run, ["answer", run.key, item.ticket, None if what == "applied" else result.get("error")])
        return False

    def done(self, item: Item) -> None:
        del self.items[item]
        item.run.items -= 1
        if self.progress.get(item.run) is item:
            del self.progress[item.run]
        if item.what == "log":
            item.run.log.remove(item)
            item.run.log_bytes -= item.size

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

    async def watch_on(self) -> int:
        """Aborts handlers whose grace, lease or patience is over."""
        while True:
            await asyncio.sleep(0.05 if self.runs else 0.5)
            now = clock()
            if now >= self.until and any(run.phase != "ended" for run in self.runs.values()):
                logger.error("the lease was not renewed in time: the handlers are aborted")
                for run in [run for run in self.runs.values() if run.phase != "ended"]:
                    self.hosts.abort(run)
                self.hosts.kill_busy()
                self.until = now + 1.0
            for run in list(self.runs.values()):
                stall = run.task.stall_after
                if run.phase == "stopping" and run.stop_at <= now:
                    self.hosts.abort(run)
                elif run.phase == "running" and run.host and run.host.is_ready and stall and now - run.sign > stall:
                    logger.warning("task %s: its handler has stalled, and is aborted", run.claim["id"])
                    self.hosts.abort(run, f"the handler has stalled: no sign of progress for {stall:g} s")


def grouped(items: list[Item]) -> list[list[Item]]:
    """Puts the lines of a log that follow each other together."""
    groups: list[list[Item]] = []
    for item in items:
        if groups and item.what == "log" and groups[-1][0].what == "log" and groups[-1][0].run is item.run:
            groups[-1].append(item)
        else:
            groups.append([item])
    return groups


def _is_url(url: Any) -> bool:
    try:
        return bool(Address.read(url))
    except (ValueError, AttributeError, TypeError):
        return False


def _whole(sent: Json) -> Json:
    """Returns a signal as a process of handlers gets it: with the reason in place of what cannot be read."""
    whole, missing = _answers.without_missing(sent)
    return {**whole, "unreadable": "; ".join(missing.values())} if missing else whole
