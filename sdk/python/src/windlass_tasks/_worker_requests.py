"""The requests of a worker: its registration, and how it follows what servers answer."""

from __future__ import annotations

import asyncio
import collections
import json
import logging
import os
import re
import secrets
import socket
from collections.abc import Mapping
from typing import Any

from . import _answers
from ._aio_link import AsyncAnswer, AsyncLink
from ._forms import Json
from ._run import clock
from ._streams import Address
from ._task import Offer
from ._troubles import Again, Lost, Over, Overtaken, Refusal, TooLarge, WrongItem
from ._version import VERSION
from ._worker_runs import Runs

logger = logging.getLogger("windlass_tasks")
PAUSE = 0.1
_PART = 0.8
"""The part of the TTL after which handlers are stopped."""
_SENT = 20
"""How many exchanges may wait for the word that they have renewed the lease."""
_REGISTERED: Mapping[str, type] = {"worker": str, "ttl_ms": int, "wait_ms": int, "seq": int}
"""The fields of the answer to a registration."""


class Requests(Runs):
    """Sends requests, and keeps the lease."""

    trouble = ""
    overtaken = 0
    """Requests in a row that were overtaken. A server that refuses ten is asked again after a pause."""

    def __init__(self, app: Offer) -> None:
        super().__init__(app)
        client = app.async_client()
        self.token, self.urls = client._token, [address.url for address in client._servers]
        self.links = {what: AsyncLink(Address.read(self.urls[0]), self.token) for what in ("exchange", "report")}
        self.features: list[Any] = []
        """What else the server can do."""
        self.registering = asyncio.Lock()
        self.again = True
        self.not_before, self.leases = 0.0, 0
        self.name, self.ttl, self.wait = "", app.ttl, app.ttl / 4
        self.settled, self.open, self.sent = 0, set[int](), collections.OrderedDict[int, float]()
        self.until = 0.0

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

    async def _next_server(self, link: AsyncLink, why: str) -> None:
        if not self.trouble:
            logger.warning("%s; trying again", why)
        self.trouble = why
        if self.urls[0] == link.address.url:  # An exchange and a report that fail at once change the server once.
            self.urls.append(self.urls.pop(0))
        await asyncio.sleep(PAUSE)

    async def _refused(self, link: AsyncLink, answer: AsyncAnswer, problem: Json, detail: str, lease: int) -> None:
        status, code = answer.status, problem.get("code", "")
        pause = _answers.pause(answer.headers, PAUSE)
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
        self.not_before = max(self.not_before, clock() + (PAUSE if status == 409 else pause))
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


def _is_url(url: Any) -> bool:
    try:
        return bool(Address.read(url))
    except (ValueError, AttributeError, TypeError):
        return False
