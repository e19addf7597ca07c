"""An ETL step: copies rows from one database into another in batches, and none twice, whatever fails.

python etl.py                                     runs the worker
python etl.py submit copy source.db target.db     copies the table `events`
"""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from dataclasses import dataclass

import windlass_tasks as windlass

app = windlass.App()
BATCH = 100


@dataclass
class Copy:
    source: str
    target: str


@dataclass
class Position:
    last: int = 0
    rows: int = 0


@app.task("etl", slots=2)
def etl(job: windlass.Job[Copy, Position]) -> windlass.Next[int]:
    position = job.data or Position()
    with closing(sqlite3.connect(job.props.source)) as source, closing(sqlite3.connect(job.props.target)) as target:
        target.execute("CREATE TABLE IF NOT EXISTS events (id INTEGER PRIMARY KEY, text TEXT)")
        target.execute("CREATE TABLE IF NOT EXISTS owner (task TEXT PRIMARY KEY, fence INTEGER)")
        total = source.execute("SELECT max(id) FROM events").fetchone()[0] or 0
        while True:
            query = "SELECT id, text FROM events WHERE id > ? ORDER BY id LIMIT ?"
            rows = source.execute(query, (position.last, BATCH)).fetchall()
            if not rows:
                return job.complete(position.rows)
            with target:
                claim(target, job)
                # The same batch again changes nothing: a crash after this write and before the checkpoint does no harm.
                target.executemany("INSERT OR REPLACE INTO events VALUES (?, ?)", [(id, text.upper()) for id, text in rows])
            position.last, position.rows = rows[-1][0], position.rows + len(rows)
            job.checkpoint(position, progress=position.last / total)


def claim(target: sqlite3.Connection, job: windlass.Job[Copy, Position]) -> None:
    """Refuses to write after a later claim of the task has written: this run was then lost without noticing it."""
    target.execute("INSERT INTO owner VALUES (?, 0) ON CONFLICT DO NOTHING", (job.id,))
    changed = target.execute("UPDATE owner SET fence = ? WHERE task = ? AND fence <= ?", (job.fence, job.id, job.fence))
    if changed.rowcount == 0:
        raise windlass.Fail("another worker has this task")


if __name__ == "__main__":
    if sys.argv[1:2] == ["submit"]:
        client = app.client()
        client.submit(etl, Copy(*sys.argv[3:5]), id=sys.argv[2], if_exists="same")
        print(client.result(sys.argv[2]))
    else:
        app.run()
