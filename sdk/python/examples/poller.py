"""A poller: looks at a page again and again, and submits a task when it has changed.

python poller.py                            runs the worker
python poller.py submit http://example.org  begins to poll; the id is made of the URL, so each is polled once
"""

from __future__ import annotations

import hashlib
import sys
import urllib.error
import urllib.request
from dataclasses import dataclass
from datetime import timedelta

import windlass_tasks as windlass

app = windlass.App()


@dataclass
class Page:
    url: str
    every_seconds: float = 60.0


@dataclass
class Seen:
    etag: str | None = None
    digest: str | None = None
    changes: int = 0


@app.task("poll", slots=4)
def poll(job: windlass.Job[Page, Seen]) -> windlass.Next[None]:
    seen = job.data or Seen()
    request = urllib.request.Request(job.props.url)
    if seen.etag:
        request.add_header("If-None-Match", seen.etag)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            digest = hashlib.sha256(answer.read()).hexdigest()
            etag = answer.headers.get("ETag")
    except urllib.error.HTTPError as error:
        if error.code != 304:
            raise  # a failed attempt: the retry policy decides when the next one follows
        return job.sleep(timedelta(seconds=job.props.every_seconds), seen)
    if digest != seen.digest:
        seen.changes += 1
        # The task and the new data are stored in one write: no change is lost, and none is reported twice.
        job.submit("changed", {"url": job.props.url, "number": seen.changes}, id=f"{job.id}#{seen.changes}")
    seen.digest, seen.etag = digest, etag
    return job.sleep(timedelta(seconds=job.props.every_seconds), seen)


@app.task("changed")
async def changed(job: windlass.Job[dict[str, object], None]) -> None:
    print(f"{job.props['url']} has changed for the {job.props['number']}. time", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["submit"]:
        page = Page(sys.argv[2], *map(float, sys.argv[3:4]))
        id = f"poll-{hashlib.sha256(page.url.encode()).hexdigest()[:16]}"
        print(app.client().submit(poll, page, id=id, if_exists="same"))
    else:
        app.run()
