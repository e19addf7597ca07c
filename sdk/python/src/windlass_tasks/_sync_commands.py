"""The client whose calls block, made of `_aio_commands.py` by `make_sync.py`: do not edit it."""

from __future__ import annotations

import datetime as dt
import time
import uuid
from collections.abc import Iterator
from typing import Any

from . import _answers, _given
from ._sync_calls import LATER, Calls, Wait, part
from ._sync_link import Link
from ._answers import GATEWAY
from ._codec import decoded, encoded
from ._errors import SignalError, Unreadable
from ._forms import Json, times
from ._streams import SyncStream
from ._waited import shown

_IDLE = 45.0
"""The longest silence of a stream of changes, which has a comment every 15 s."""


def _noted(note: str | None) -> Json:
    """Returns the field of a note, without the field of none."""
    return {} if note is None else {"note": note}


class Commands(Calls):
    """Sends commands and signals, and follows the changes."""

    def command(self, id: str, command: str, *, wait: float | dt.timedelta | None = None, **fields: Any) -> Json:
        """Sends a command: `run`, `sleep` (with `until`), `pause`, `release`, `checkpoint`, `complete`, `kill`.

        With `wait` the answer has its `outcome`, if there was one in that time."""
        body = {"id": str(uuid.uuid4()), "command": command, **times(fields, "command")}
        return self._await_outcome(f"/tasks/{part(id)}/commands", body, wait, {})

    def _await_outcome(self, path: str, body: Any, wait: float | dt.timedelta | None, query: Json) -> Json:
        left, needs = 0.0 if wait is None else _given.seconds("wait", wait, forever=True), {"id": str}
        sent = self._object("POST", path, body, needs, again=True, **query)
        end = time.monotonic() + left
        while sent.get("outcome") is None and time.monotonic() < end:
            waits = Wait(end)
            sent = self._object("GET", f"/commands/{part(sent['id'])}", needs=needs, wait=waits.wait, within=waits.within)
            if sent.get("outcome") is None:
                time.sleep(waits.pause())
        return sent

    def pause(self, id: str, *, wait: float | dt.timedelta | None = None, note: str | None = None) -> Json:
        """Pauses a task. With `wait`, until its handler has stopped and the pause is stored. `note` says why."""
        return self.command(id, "pause", wait=wait, **_noted(note))

    def resume(self, id: str, *, wait: float | dt.timedelta | None = None, note: str | None = None) -> Json:
        """Resumes a paused task, or wakes a sleeping one."""
        return self.command(id, "run", wait=wait, **_noted(note))

    def kill(self, id: str, *, wait: float | dt.timedelta | None = None, note: str | None = None) -> Json:
        """Ends a task as killed."""
        return self.command(id, "kill", wait=wait, **_noted(note))

    def signal(self, id: str, name: str, payload: Any = None, *, wait: float | dt.timedelta | None = 30.0) -> Any:
        """Sends a signal, waits for the reply of the handler, and returns it. With `wait=None` it does not wait.

        Raises `SignalError` when the handler has not replied, `Masked` for a masked reply, and `TimeoutError`: the signal stays
        in the queue then."""
        body = encoded(self._codec, payload, "payload")
        query = {"id": str(uuid.uuid4())}
        sent = self._await_outcome(f"/tasks/{part(id)}/signals/{part(name)}", body, wait, query)
        outcome = sent.get("outcome")
        if wait is None:
            return None
        if outcome is None:
            raise TimeoutError(f"task {id} has not replied to the signal {name}: {sent['id']} waits in its queue")
        if outcome.get("outcome") != "answered":
            raise SignalError(id, name, outcome)
        return decoded(self._codec, shown(id, f"a reply to {name}", outcome.get("reply")))

    def commands(self, id: str) -> Json:
        """Returns the commands of a task, with their outcomes."""
        return self._object("GET", f"/tasks/{part(id)}/commands")

    def changes(self, after: int | str | None = None) -> Iterator[Json]:
        """Yields the changes of the namespace as they come, without an end, over every failure of a server.

        `after` is the `seq` of a change; 0 for the oldest that is kept, and now without it. When changes in between are no
        longer kept, `{"what": "reset", "seq": …}` comes: list the tasks then."""
        pause = 0.05
        while True:
            headers = {"Accept": "text/event-stream"}
            path = "/v1/changes" if after is None else f"/v1/changes?after={after}"
            link, home, delay = Link(self._servers[0], self._token), SyncStream.home(), pause
            try:
                answer = link.send("GET", path, None, headers, _IDLE)
                if answer.status != 200:
                    read, delay = answer.body(), _answers.pause(answer.headers, pause)
                    if answer.status in (*LATER, *GATEWAY) or (answer.status >= 500 and _answers.problem(read) is None):
                        raise ConnectionError(f"the server is busy: {answer.status}")
                    self._read(answer, read, path)
                name, seq = "", after
                for line in answer.lines(_IDLE):
                    field, _, value = line.partition(": ")
                    if field == "id":
                        seq = value
                    elif field == "event":
                        name = value
                    elif field == "data" and name in ("reset", "change"):
                        change = {"what": "reset", "seq": seq} if name == "reset" else _answers.value(value.encode())
                        after, pause = seq, 0.05  # What is cut off comes again.
                        yield change
                        if SyncStream.is_over(home):
                            break  # This is the child of a fork: it opens a connection of its own.
            except Unreadable:
                raise
            except (OSError, ValueError, TimeoutError):
                pass
            finally:
                if SyncStream.is_over(home):
                    link.forget()
                else:
                    link.close()
            self._next_server(link.address)
            time.sleep(delay)
            pause = min(pause * 2, 2.0)
