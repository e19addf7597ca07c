"""An agent: asks a model what to do, calls tools, and waits for a person before it does something that cannot be undone.

python agent.py                                       runs the worker
python agent.py submit trip "Book a flight to Oslo"   begins
windlass get trip                                     shows the conversation so far
windlass signal trip approve --payload true --wait    lets it go on; `false` refuses
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import windlass_tasks as windlass

app = windlass.App()


@dataclass
class Conversation:
    messages: list[dict[str, Any]] = field(default_factory=list)
    approved: bool | None = None
    """What a person has said about the last call; `None` when nobody was asked."""


def model(goal: str, messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Stands for a language model: returns a call of a tool, or an answer."""
    done = [message["tool"] for message in messages if message["role"] == "tool"]
    if "search" not in done:
        return {"role": "call", "tool": "search", "input": goal}
    if "book" not in done:
        return {"role": "call", "tool": "book", "input": "OS-117"}
    return {"role": "answer", "text": f"done: {messages[-1]['output']}"}


TOOLS: dict[str, Callable[[str, str], str]] = {
    "search": lambda text, key: "flight OS-117, 240 EUR",
    # `key` is the same when the call is repeated after a crash: a good service books once for each key.
    "book": lambda flight, key: f"booked {flight}",
}
NEEDS_APPROVAL = {"book"}


@app.task("agent", slots=8, signals=True)
def agent(job: windlass.Job[str, Conversation]) -> windlass.Next[str]:
    state = job.data or Conversation()
    for signal in job.signals:
        if signal.name == "approve" and state.messages and state.messages[-1]["role"] == "call":
            # Anybody who may send signals can send any payload. What is neither `true` nor `false` decides nothing.
            if not isinstance(signal.payload, bool):
                job.reply(signal, "refused: send true or false")
                continue
            state.approved = signal.payload
            job.reply(signal, "thanks", data=state)
    while True:
        last = state.messages[-1] if state.messages else {"role": "none"}
        if last["role"] == "answer":
            return job.complete(last["text"])
        if last["role"] != "call":
            # A call of a model costs money: what it says is stored before anything follows.
            state.messages.append(model(job.props, state.messages))
            job.checkpoint(state, progress=min(0.9, len(state.messages) / 5))
            continue
        call = last
        if call["tool"] in NEEDS_APPROVAL and state.approved is None:
            job.log(f"waits for a person: {call['tool']} {call['input']}")
            return job.pause(state)  # no process waits; a signal wakes the task
        if state.approved is False:
            return job.fail(f"{call['tool']} was refused")
        key = f"{job.id}-{len(state.messages)}"
        output = TOOLS[call["tool"]](call["input"], key)
        state.messages.append({"role": "tool", "tool": call["tool"], "output": output})
        state.approved = None
        job.checkpoint(state)


if __name__ == "__main__":
    if sys.argv[1:2] == ["submit"]:
        print(app.client().submit(agent, sys.argv[3], id=sys.argv[2], if_exists="same"))
    else:
        app.run()
