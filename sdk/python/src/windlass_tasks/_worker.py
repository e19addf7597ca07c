"""The worker: registers, exchanges and reports (docs/reference/workers.md), and keeps the handlers in processes."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
from typing import Any

from . import _answers
from ._answers import RUN
from ._children import Run
from ._forms import Json
from ._hosts import Hosts
from ._pages import Pages
from ._run import clock
from ._task import Offer
from ._troubles import Again, Over, Overtaken, Refusal, TooLarge, WrongItem
from ._worker_items import Item, grouped
from ._worker_requests import PAUSE, Requests

logger = logging.getLogger("windlass_tasks")


def work(app: Offer) -> int:
    """Runs the handlers of an app until a signal, and returns the exit code."""
    worker = Worker(app)
    try:
        return asyncio.run(worker.run())
    except Refusal as why:
        logger.error("the worker has ended: %s", why)
        return 1


class Worker(Requests):
    """One lease, its claims, and the requests about them."""

    def __init__(self, app: Offer) -> None:
        super().__init__(app)
        self.hosts, self.pages = Hosts(app, self), Pages(self)
        self.closed, self.hurried, self.drain = False, False, False
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
                await asyncio.sleep(PAUSE)
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

    def read(self, run: Run, ticket: int, start: int) -> None:
        """Reads results of the tasks that a run has waited for."""
        self.pages.read(run, ticket, start)

    async def report_on(self) -> int:
        while True:
            if not self.items or self.again:
                self.work.clear()
                if not self.items:
                    await self.work.wait()
                else:
                    await asyncio.sleep(PAUSE)
                continue
            try:
                if await self.report():
                    await asyncio.sleep(PAUSE)
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
                await asyncio.sleep(PAUSE)

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
            self.is_taken()
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


def _whole(sent: Json) -> Json:
    """Returns a signal as a process of handlers gets it: with the reason in place of what cannot be read."""
    whole, missing = _answers.without_missing(sent)
    return {**whole, "unreadable": "; ".join(missing.values())} if missing else whole
