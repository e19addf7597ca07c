"""The methods of a client for schedules, and for the namespace: counts, nodes, backups, masks and tokens."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ._aio_calls import AsyncCalls, part
from ._aio_link import AsyncLink
from ._codec import opened
from ._errors import Exists, Unavailable
from ._files import private
from ._forms import SPEC, Json, times, when


class AsyncSchedules(AsyncCalls):
    """Makes, reads and changes schedules."""

    async def schedules(self, limit: int | None = None, cursor: str | None = None) -> Json:
        """Returns a page of the schedules."""
        page = await self._object("GET", "/schedules", needs={"schedules": list}, limit=limit, cursor=cursor)
        for one in page["schedules"]:
            if isinstance(one, dict):
                opened(one.get("spec"), self._codec)
        return page

    async def schedule(self, id: str) -> Json:
        """Returns a schedule with its next times."""
        return await self._schedule("GET", f"/schedules/{part(id)}")

    async def _schedule(self, method: str, path: str, body: Any = None) -> Json:
        """Sends a request whose answer is a schedule. Props of its runs that the codec cannot decode stay as they are."""
        answer = await self._object(method, path, body)
        opened(answer.get("spec"), self._codec)
        return answer

    async def create_schedule(self, id: str, spec: Json, *, paused: bool = False, if_exists: str = "refuse") -> Json:
        """Creates a schedule, such as `{"run": report.new(Report()), "cron": ["30 2 * * *"], "zone": "Europe/Oslo"}`.

        With `if_exists="update"` a schedule of that id gets this spec in place of its own: a field that `spec` lacks is removed.
        A paused schedule stays paused. Otherwise `Exists` is raised."""
        body: Json = {"id": id, "spec": times(spec, "spec"), "paused": paused}
        try:
            return await self._schedule("POST", "/schedules", body)
        except Exists:
            if if_exists != "update":
                raise
        return await self._schedule("PATCH", f"/schedules/{part(id)}", {**dict.fromkeys(SPEC), **body["spec"]})

    async def update_schedule(self, id: str, **fields: Any) -> Json:
        """Changes the given fields of the spec; `None` removes one."""
        return await self._schedule("PATCH", f"/schedules/{part(id)}", times(fields, "spec"))

    async def delete_schedule(self, id: str, *, kill_runs: bool = False) -> None:
        """Deletes a schedule; its runs continue without `kill_runs`."""
        await self.request("DELETE", f"/schedules/{part(id)}", kill_runs=kill_runs or None)

    async def schedule_times(self, id: str, limit: int | None = None) -> Json:
        """Returns the next times of a schedule."""
        return await self._object("GET", f"/schedules/{part(id)}/times", limit=limit)

    async def preview_schedule(self, **fields: Any) -> Json:
        """Returns the times that a new or changed schedule would have."""
        return await self._object("POST", "/schedule-times", times(fields, "schedule"))

    async def change_schedule(self, id: str, action: str, **fields: Any) -> Json:
        """`pause`, `resume`, `trigger`, `backfill` or `skip`, with the fields of that request (docs/operate/server.md)."""
        return await self._schedule("POST", f"/schedules/{part(id)}/{part(action)}", times(fields, "schedule"))


class AsyncSpace(AsyncCalls):
    """Reads and changes what all tasks have in common."""

    async def counts(self) -> Json:
        """Returns how many tasks there are by kind and state."""
        return await self._object("GET", "/counts")

    async def activity(self) -> Json:
        """Returns how many tasks start, complete and fail a second, how late they start, and which kinds fail: of all kinds."""
        return await self._object("GET", "/activity")

    async def failures(self, kind: str | None = None, limit: int | None = None, *, since: str | dt.datetime | None = None) -> Json:
        """Returns the failed tasks in groups by the fingerprint of their last error, those with the most tasks first: those
        that have failed since a time, such as `yesterday` or `1h ago`, if one is given."""
        if not isinstance(since, (str, dt.datetime, type(None))):
            raise TypeError(f"since: {since!r} is not a time in the past: give a datetime, or a text such as '1h ago'")
        past = None if since is None else when(since, "since")
        return await self._object("GET", "/failures", kind=kind, limit=limit, since=past)

    async def scale(self, kind: str) -> Json:
        """Returns how many tasks of a kind could run at once, for an autoscaler."""
        return await self._object("GET", "/scale", kind=kind)

    async def bulk(
        self,
        action: str,
        filter: Mapping[str, Any],
        *,
        all: bool = False,
        tasks: int | None = None,
        key: str | None = None,
        note: str | None = None,
    ) -> Json:
        """Counts the tasks of an action (`pause`, `resume`, `release`, `complete`, `kill`, `retry`, `delete`). With the count and
        the key that this returns, starts a task that does it, and returns its id. An empty filter needs `all`. `note` says why,
        with each command."""
        body = {"filter": dict(filter), "action": action, "all": all or None, "tasks": tasks, "key": key, "note": note}
        return await self._object("POST", "/bulk", {name: one for name, one in body.items() if one is not None})

    async def see(self, what: str, **query: Any) -> Json:
        """Returns `stats`, `limits`, `nodes`, `audit`, `doctor`, `servers`, `time`, `masks`, `tokens` or `openapi.json`."""
        return await self._object("GET", f"/{what}", **query)

    async def node_command(self, node: str, command: str, **fields: Any) -> Json:
        """Sends `freeze`, `unfreeze`, `balance`, `drain` or `stop-task` (with `task`) to a node or worker."""
        return await self._object("POST", f"/nodes/{part(node)}/commands", {"command": command, **fields})

    async def node_answer(self, order: int) -> Json:
        """Returns a node's answer to a command."""
        return await self._object("GET", f"/node-commands/{order}")

    async def purge(self, **fields: Any) -> Json:
        """Deletes ended tasks: `states`, `older_than` (`30d`), `limit`."""
        return await self._object("POST", "/purge", times(fields, "purge"))

    async def backup(self, path: str | Path) -> int:
        """Writes a backup of a store on SQLite to a new file, and returns its size. Raises `FileExistsError`.

        Only the owner can read the file: it has all tasks, and the hashes of the tokens."""
        link = AsyncLink(self._servers[0], self._token)
        try:
            answer = await link.send("GET", "/v1/backup", None, {}, 600.0, self._timeout)
            kind = answer.headers.get("content-type", "")
            if answer.status != 200:
                self._read(answer, await answer.body(), "/v1/backup")
            if not answer.is_bounded or kind.startswith("text/"):
                raise Unavailable(
                    f"{link.address.url}: a proxy in between hides whether the backup is whole, or answers itself ({kind})"
                )
            size = 0
            with private(path) as file:
                try:
                    async for chunk in answer.chunks(600.0):
                        size += file.write(chunk)
                except BaseException:
                    os.unlink(path)  # The file is new, and a part of a backup is of no use.
                    raise
            return size
        finally:
            link.close()

    async def set_mask(self, kind: str, pointers: Sequence[str], **fields: Any) -> None:
        """Hides values of the tasks of a kind from every caller of the API."""
        await self.request("POST", "/masks", {"kind": kind, "pointers": list(pointers), **fields})

    async def remove_mask(self, kind: str) -> None:
        """Removes the mask of a kind."""
        await self.request("DELETE", f"/masks/{part(kind)}")

    async def new_token(self, name: str, role: str, **fields: Any) -> Json:
        """Makes a token, and returns its secret, which nothing shows again."""
        return await self._object("POST", "/tokens", {"name": name, "role": role, **fields})

    async def rotate_token(self, name: str, overlap: str | None = None) -> Json:
        """Gives a token another secret; the one before is valid for `overlap` (`1d`) more."""
        return await self._object("POST", f"/tokens/{part(name)}/rotate", overlap=overlap)

    async def revoke_token(self, name: str) -> None:
        """Revokes a token."""
        await self.request("DELETE", f"/tokens/{part(name)}")
