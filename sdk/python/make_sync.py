"""Makes src/windlass_tasks/_sync.py of src/windlass_tasks/_aio.py: the same client, whose calls block."""

import pathlib
import re

FOLDER = pathlib.Path(__file__).parent / "src" / "windlass_tasks"
CHANGES = [
    (r"asyncio\.sleep", "time.sleep"),
    (r"asyncio\.TimeoutError", "TimeoutError"),
    (r"\bimport asyncio\n", ""),
    (r"\bAsyncStream\b", "SyncStream"),
    (r"\bAsyncClient\b", "Client"),
    (r"\bAsyncLink\b", "Link"),
    (r"\bAsyncAnswer\b", "Answer"),
    (
        r"from collections\.abc import AsyncIterator, Iterable, Mapping, Sequence",
        "from collections.abc import Iterable, Iterator, Mapping, Sequence",
    ),
    (r"\bAsyncIterator\b", "Iterator"),
    (r"__aenter__", "__enter__"),
    (r"__aexit__", "__exit__"),
    (r"\basync ", ""),
    (r"\bawait ", ""),
    (
        r'"""The client of the HTTP API\. .*\n',
        '"""The client whose calls block, made of `_aio.py` by `make_sync.py`: do not edit it."""\n',
    ),
]


def made() -> str:
    text = (FOLDER / "_aio.py").read_text()
    for pattern, new in CHANGES:
        text = re.sub(pattern, new, text)
    return text


if __name__ == "__main__":
    (FOLDER / "_sync.py").write_text(made())
