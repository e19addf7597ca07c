"""Measures windlass beside other task queues for Python, in alternating rounds."""

import argparse
import ast
import importlib.metadata
import json
import math
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class System:
    """A system with one of its modes."""

    name: str
    peer: str
    mode: str
    jobs: tuple[str, ...]
    count: int = 0
    """The no-ops of `rate`: enough for some seconds."""
    many: int = 4
    """The workers that `lateness` and `kills` use, or their level of concurrency."""
    fsync: str = "always"
    """The `appendfsync` of Redis."""


ALL = ("rate", "lateness", "kills")
SYSTEMS = [
    System("windlass, async def", "windlass", "async", (*ALL, "pauses"), 40_000),
    System("windlass, def in processes", "windlass", "def", (*ALL, "pauses"), 8_000),
    System("windlass, def in threads", "windlass", "thread", ("rate", "lateness"), 20_000),
    System("Celery", "celery", "prefork", ALL, 800),
    System("rq, SimpleWorker", "rq", "simple", ("rate", "lateness"), 1_000),
    System("rq, Worker", "rq", "fork", ALL, 400),
    System("dramatiq", "dramatiq", "threads", ALL, 6_000, 1),
    System("huey", "huey", "process", ALL, 5_000),
    System("procrastinate", "procrastinate", "async", ALL, 4_000),
    System("Celery, everysec", "celery", "prefork", ("rate",), 2_000, fsync="everysec"),
    System("rq, SimpleWorker, everysec", "rq", "simple", ("rate",), 2_000, fsync="everysec"),
    System("dramatiq, everysec", "dramatiq", "threads", ("rate",), 8_000, 1, fsync="everysec"),
]
PAUSES = 100
KILLED = 1000
HEADS = {
    "rate 1": "no-ops a second, 1 worker process",
    "rate 4": "no-ops a second, 4 worker processes",
    "p50": "submit to start, p50, ms",
    "p99": "submit to start, p99, ms",
    "most": "submit to start, the greatest, ms",
    "unfinished": "unfinished 120 s after a kill",
    "doubled": "started twice after a kill",
    "seconds": "from a kill until all are done, s",
    "pause p50": "pause to stop, p50, ms",
    "pause p99": "pause to stop, p99, ms",
    "pause most": "pause to stop, the greatest, ms",
}
Figures = dict[tuple[str, str], list[float]]


def main() -> None:
    options = arguments()
    figures: Figures = {}
    left_out: list[str] = []
    load = [os.getloadavg()[0]]
    for job in options.only or (*ALL, "pauses"):
        for turn in range(options.kills if job == "kills" else options.rounds):
            chosen = [one for one in SYSTEMS if job in one.jobs and (not options.systems or one.peer in options.systems)]
            for system in chosen if turn % 2 == 0 else reversed(chosen):
                for workers in (1, 4) if job == "rate" else (system.many,):
                    note = f"{system.name}, {job}, {workers}, round {turn + 1}"
                    try:
                        measured = measure(options, system, job, workers)
                    except (RuntimeError, subprocess.TimeoutExpired) as why:
                        left_out.append(f"{note}: {why}")
                        print(f"==> {note}: LEFT OUT: {why}", file=sys.stderr)
                        continue
                    print(f"==> {note}: {measured}", file=sys.stderr)
                    load.append(os.getloadavg()[0])
                    for name, value in renamed(job, workers, measured).items():
                        figures.setdefault((system.name, name), []).append(value)
    if options.json:
        rows = [{"system": system, "measure": HEADS[name], "values": values} for (system, name), values in figures.items()]
        print(json.dumps({"rows": rows, "conditions": conditions(options, load), "left_out": left_out}, indent=2))
    else:
        print(table(figures))
        print("\n".join(f"- {line}" for line in conditions(options, load)))
        print("\n**could not be run**\n")
        print("\n".join(f"- {line}" for line in left_out) or "- nothing was left out")


def arguments() -> argparse.Namespace:
    root = HERE.parents[2]
    read = argparse.ArgumentParser(prog="cargo xtask bench peers python", description=__doc__)
    read.add_argument("systems", nargs="*", help="systems, such as celery; all by default")
    read.add_argument("--quick", action="store_true", help="1 round with a tenth of the no-ops, without kills")
    read.add_argument("--json", action="store_true", help="print the values as JSON")
    read.add_argument("--rounds", type=int, help="rounds of each measure (3)")
    read.add_argument("--kills", type=int, help="rounds of kills; most of them take 120 s for each system (1)")
    read.add_argument("--only", action="append", choices=[*ALL, "pauses"], help="a measure; all by default")
    read.add_argument("--sdk", type=Path, default=root / "sdk/python/src", help="the sources of the SDK")
    read.add_argument("--program", type=Path, required=True, help="the program windlass; by default it is built")
    read.add_argument("--folder", type=Path, required=True, help=argparse.SUPPRESS)
    options = read.parse_args()
    options.folder, options.sdk, options.program = (one.resolve() for one in (options.folder, options.sdk, options.program))
    options.rounds = options.rounds or (1 if options.quick else 3)
    options.kills = (0 if options.quick else 1) if options.kills is None else options.kills
    unknown = set(options.systems) - {one.peer for one in SYSTEMS}
    if unknown:
        read.error(f"{', '.join(sorted(unknown))}: the systems are {', '.join(sorted({one.peer for one in SYSTEMS}))}")
    return options


def measure(options: argparse.Namespace, system: System, job: str, workers: int) -> dict[str, float]:
    """Runs `measure.py` in a new folder, and returns its figures."""
    folder = options.folder / "measure"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    count = {"rate": max(100, system.count // (10 if options.quick else 1)), "kills": KILLED, "pauses": PAUSES}.get(job, 0)
    command = [sys.executable, "measure.py", system.peer, job, system.mode, str(workers), str(count)]
    path = os.pathsep.join([str(options.sdk), str(HERE)])
    variables = {"PEER_FOLDER": str(folder), "PEER_WINDLASS": str(options.program), "PEER_FSYNC": system.fsync}
    variables |= {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    ran = subprocess.run(command, cwd=HERE, env={**os.environ, **variables}, capture_output=True, text=True, timeout=400)
    if ran.returncode:
        raise RuntimeError((ran.stderr.strip().splitlines() or [f"exit code {ran.returncode}"])[-1])
    return json.loads(ran.stdout.strip().splitlines()[-1])


def renamed(job: str, workers: int, measured: dict[str, float]) -> dict[str, float]:
    """The figures by the names of `HEADS`."""
    if job == "rate":
        return {f"rate {workers}": measured["rate"]}
    return {f"pause {name}" if job == "pauses" else name: value for name, value in measured.items()}


def table(figures: Figures) -> str:
    """A table for each measure: the median with the least and the greatest, and the ratio windlass/system."""
    text = []
    base = SYSTEMS[0].name
    for name, head in HEADS.items():
        rows = [(system.name, figures[system.name, name]) for system in SYSTEMS if (system.name, name) in figures]
        if not rows:
            continue
        text += [f"| {head} | median (least to greatest) | {base} / system |", "|---|---|---|"]
        ours = figures.get((base, name))
        for system, values in rows:
            text.append(f"| {system} | {spread(values)} | {ratio(ours, values) if ours and system != base else '–'} |")
        text.append("")
    return "\n".join(text)


def spread(values: list[float]) -> str:
    middle = figure(statistics.median(values))
    return middle if len(values) == 1 or math.isinf(min(values)) else f"{middle} ({figure(min(values))} to {figure(max(values))})"


def ratio(ours: list[float], theirs: list[float]) -> str:
    """The median of the ratios of the rounds. A time that was not reached, and a zero, have no ratio."""
    ratios = [one / other for one, other in zip(ours, theirs, strict=False) if other and math.isfinite(one / other)]
    return figure(statistics.median(ratios)) if ratios and statistics.median(ratios) > 0 else "–"


def figure(value: float) -> str:
    """Three digits."""
    if math.isinf(value):
        return "not within 120 s"
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.1 else f"{value:.4f}"


def conditions(options: argparse.Namespace, load: list[float]) -> list[str]:
    """The date, the versions, the load of the machine, and the settings of each system."""
    first = [subprocess.run([one, "--version"], capture_output=True, text=True).stdout.strip() for one in
             (str(options.program), "redis-server", "postgres")]  # fmt: skip
    packages = ("celery", "rq", "dramatiq", "huey", "procrastinate")
    peers = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    chosen = {one.peer: None for one in SYSTEMS if not options.systems or one.peer in options.systems}
    return [
        f"{time.strftime('%Y-%m-%d')}, Python {platform.python_version()}, {os.cpu_count()} processors, "
        f"load {min(load):.1f} to {max(load):.1f}, {options.rounds} rounds, {options.kills} of kills",
        "; ".join([*first, peers]),
        "Redis syncs its log after each write (appendfsync always), except for `everysec`",
        *(f"{peer}: {text}" for peer in chosen for text in settings(peer)),
    ]


def settings(peer: str) -> list[str]:
    """The `SETTINGS` of a system, whose file cannot be imported without a server."""
    for one in ast.parse((HERE / f"{peer}_peer.py").read_text()).body:
        if isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == "SETTINGS":
            return [f"{job}: {text}" if job else text for job, text in ast.literal_eval(one.value).items()]
    raise RuntimeError(f"{peer}_peer.py has no SETTINGS")


if __name__ == "__main__":
    main()
