"""A worker whose values pass through a codec."""

from __future__ import annotations

from typing import Any

from test_client import Base64

import windlass_tasks as windlass

app = windlass.App(codec=Base64(), ttl=15)


@app.task("sealed", signals=True)
async def sealed(job: windlass.Job[dict[str, str], Any]) -> Any:
    await job.checkpoint([job.props["password"]])
    while not job.signals:
        await job.wait()
    await job.reply(job.signals[0], job.signals[0].payload.upper())
    return job.props["password"]


if __name__ == "__main__":
    app.run()
