"""The source files of the handlers: a process that starts later must not run other code than its worker."""

from __future__ import annotations

import hashlib
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from typing import Any

_OURS = __name__.partition(".")[0]
_LIBRARIES = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_STANDARD = tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib"))
_MOST = 5000
"""The most files beside those of the modules that are kept in view."""


class Sources:
    """The files of the handlers' packages, of this package, and of all modules that are no library, as they were.

    A module on the path of the worker that a handler imports later is known from when the first process has imported it. If it was
    beside the others when the worker began, it is known as it was then."""

    def __init__(self, modules: Iterable[str]) -> None:
        self._seen = {path: (_stat(path), _digest(path)) for path in sorted(set(_files(_packages(modules))))}
        self._beside = {path: _digest(path) for path in _beside(self._seen)}
        self._path = tuple(os.path.join(os.path.abspath(folder), "") for folder in sys.path)
        self._later = set[str]()

    def known(self) -> frozenset[str]:
        """Returns the files that were imported, as far as is known."""
        return frozenset(self._seen)

    def changed(self) -> str | None:
        """Returns a file whose content is not what it was."""
        for path, (stat, digest) in self._seen.items():
            now = _stat(path)
            # A module that was imported later and is gone runs nowhere.
            if now == stat or (not now and path in self._later):
                continue
            if _digest(path) != digest:
                return path
            self._seen[path] = now, digest
        return None

    def add(self, files: Iterable[Any]) -> str | None:
        """Adds files that a process has imported. Returns one that had another content when it was seen before."""
        other = None
        for path, text in files:
            if not path.startswith(self._path):
                continue  # A module that a handler has made, such as in a folder for a moment.
            digest = bytes.fromhex(text)
            if path not in self._seen:
                self._later.add(path)
                self._seen[path] = ((), self._beside.get(path, digest))
            if digest and digest != self._seen[path][1]:
                other = other or path
        return other


class Loaded:
    """The source files that the modules of this process have, apart from those that are known."""

    def __init__(self, known: frozenset[str], modules: Iterable[str]) -> None:
        self._known, self._count, self._packages = set(known), 0, _packages(modules)

    def later(self) -> list[tuple[str, str]]:
        """Returns the files that were imported since the last call, each with the digest of its content."""
        if len(sys.modules) == self._count:
            return []
        self._count = len(sys.modules)
        found = sorted(set(_files(self._packages)) - self._known)
        self._known.update(found)
        return [(path, _digest(path).hex()) for path in found]


def _packages(modules: Iterable[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules} | {_OURS}


def _files(packages: set[str]) -> Iterator[str]:
    """Yields the files of all modules but libraries; of libraries those of these packages."""
    for name, module in list(sys.modules.items()):
        path = _file(module)
        if path is None or (_is_library(path) and name.partition(".")[0] not in packages):
            continue
        if file := _on_disk(os.path.abspath(path)):
            yield file


def _is_library(path: str) -> bool:
    return path.startswith(_STANDARD) or any(part in path for part in _LIBRARIES)


def _file(module: object) -> str | None:
    """Returns the file of a module. One that loads itself when it is first used is not loaded by this."""
    try:
        path = object.__getattribute__(module, "__dict__").get("__file__")
    except AttributeError:
        return None
    return path if isinstance(path, str) else None


def _on_disk(path: str) -> str | None:
    """Returns the file of a module, or the archive that has it: `app.pyz/tasks.py` is in the file `app.pyz`."""
    while not os.path.isfile(path):
        above = os.path.dirname(path)
        if above == path or os.path.isdir(above):
            return None
        path = above
    return path


def _beside(seen: Iterable[str]) -> Iterator[str]:
    """Yields the source files that no module has so far, in the folders of those that one has."""
    seen, count = set(seen), 0
    for folder in sorted({os.path.dirname(path) for path in seen}):
        if _is_library(folder + os.sep):
            continue
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            continue
        for name in names:
            path = os.path.join(folder, name)
            if name.endswith(".py") and path not in seen and count < _MOST:
                count += 1
                yield path


def _stat(path: str) -> tuple[int, ...]:
    """What differs in any case when the content does."""
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _digest(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).digest()
    except OSError:
        return b""
