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


@app.task("echo", signals=True)
def echo(job: windlass.Job[Any, Any]) -> Any:
    return [job.props, *(signal.payload for signal in job.signals)]


@app.task("forward")
def forward(job: windlass.Job[Any, Any]) -> windlass.Next[Any]:
    job.submit(echo, job.props, id="by-submit")
    job.effect({"op": "submit", "id": "by-effect", "kind": "echo", "props": job.props})
    job.effect({"op": "submit", "id": "by-new", **echo.new(job.props)})
    job.effect({"op": "send", "task": "other", "command": "complete", "result": job.props})
    job.submit("schedule", {"run": echo.new(job.props), "cron": ["@yearly"]}, id="by-schedule")
    return job.complete(job.props)


if __name__ == "__main__":
    app.run()
