"""The client whose calls block, made of `_aio.py` by `make_sync.py`: do not edit it."""

from __future__ import annotations

from types import TracebackType

from ._sync_commands import Commands
from ._sync_space import Schedules, Space
from ._sync_tasks import Tasks


class Client(Tasks, Commands, Schedules, Space):
    """Submits tasks, sends commands, reads: everything that the HTTP API of a windlass server has.

    `url` is the address of a server, or of several with spaces between them; `WINDLASS_URL`, and
    `http://localhost:7474` without that. `token` is `WINDLASS_TOKEN` by default; the Unix socket needs none.
    A request is sent again for `timeout` seconds in all, to the next server if there are several, when none has answered, one
    is busy, or a proxy has no answer of one: this is safe, because a request that changes tasks has a key. Another request is
    sent again only if no server has got it. A client may be shared by threads, event loops, and the children of a fork: each
    request has a connection of its own, and each process and event loop opens its own. `codec` changes the values of every
    request (`Codec`); a handler or a `Kind` with a codec has its props encoded by its own.

    Methods return the JSON of the answer, as docs/reference/json.md describes it, and raise `ApiError`. `Unavailable` says
    that no server has answered, and `Unreadable` that Python does not read a value of the answer."""

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
