"""A fan-out: one task for each file of a folder, and one that waits for all and adds up what they found.

python fan_out.py                     runs the worker
python fan_out.py submit count /etc   counts the lines of the files of a folder
"""

from __future__ import annotations

import sys
from pathlib import Path

import windlass_tasks as windlass

app = windlass.App()


@app.task("count-lines", slots=4)
def count_lines(job: windlass.Job[Path, None]) -> int:
    with job.props.open("rb") as file:
        return sum(1 for _ in file)


@app.task("count-folder", slots=2)
def count_folder(job: windlass.Job[Path, list[str]]) -> windlass.Next[dict[str, int]]:
    if job.data is None:
        files = sorted(path for path in job.props.iterdir() if path.is_file())
        if not files:
            return job.complete({"files": 0, "lines": 0})
        # All children, the ids, and the wait are stored in one write. At most 3 run at once, whatever the slots are.
        limits = [{"key": f"folder={job.id}", "at_once": 3}]
        ids = [job.submit(count_lines, file, labels={"folder": job.id}, limits=limits) for file in files]
        return job.wait_for(*ids, data=ids)
    failed = [one.task for one in job.waited if one.outcome != "completed"]
    if failed:
        return job.fail(f"{len(failed)} of {len(job.waited)} files could not be counted; the first: {failed[0]}")
    # The results are read page by page: their number does not matter.
    return job.complete({"files": len(job.waited), "lines": sum(one.value for one in job.waited.results(int))})


if __name__ == "__main__":
    if sys.argv[1:2] == ["submit"]:
        client = app.client()
        client.submit(count_folder, Path(sys.argv[3]), id=sys.argv[2], if_exists="same")
        print(client.result(sys.argv[2]))
    else:
        app.run()
