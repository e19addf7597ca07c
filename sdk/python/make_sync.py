"""Makes each src/windlass_tasks/_sync*.py of its _aio*.py: the same client, whose calls block."""

import pathlib
import re

FOLDER = pathlib.Path(__file__).parent / "src" / "windlass_tasks"
CHANGES = [
    (r"asyncio\.sleep", "time.sleep"),
    (r"asyncio\.TimeoutError", "TimeoutError"),
    (r"\bimport asyncio\n", ""),
    (r"\bAsyncStream\b", "SyncStream"),
    (r"\bAsync([A-Z]\w+)\b", r"\1"),
    (r"\b_aio(\w*)\b", r"_sync\1"),
    (r"__aenter__", "__enter__"),
    (r"__aexit__", "__exit__"),
    (r"\basync ", ""),
    (r"\bawait ", ""),
]


def _sorted(line: re.Match[str]) -> str:
    return line[1] + ", ".join(sorted(line[2].split(", ")))


def made(source: pathlib.Path) -> str:
    """Returns what is made of a file."""
    _, rest = source.read_text().split("\n", 1)
    for pattern, new in CHANGES:
        rest = re.sub(pattern, new, rest)
    rest = re.sub(r"(from collections\.abc import )(.*)", _sorted, rest)
    return f'"""The client whose calls block, made of `{source.name}` by `make_sync.py`: do not edit it."""\n{rest}'


def all_made() -> dict[pathlib.Path, str]:
    """Returns the text of each file that is made."""
    sources = sorted(FOLDER.glob("_aio*.py"))
    return {FOLDER / source.name.replace("_aio", "_sync"): made(source) for source in sources}


if __name__ == "__main__":
    for path, text in all_made().items():
        path.write_text(text)
