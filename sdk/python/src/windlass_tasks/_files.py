"""The files that this package writes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO


def private(path: str | Path) -> BinaryIO:
    """Creates a file that only its owner can read, whatever the umask is. Raises `FileExistsError`, also for a link."""
    return open(path, "xb", opener=lambda path, flags: os.open(path, flags, 0o600))
