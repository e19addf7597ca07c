"""The source files that all processes of a worker have in common."""

from __future__ import annotations

import hashlib
import importlib
import pathlib
import sys
import types
import zipfile

import pytest

from windlass_tasks._sources import Loaded, Sources


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A folder on the path with one module that is loaded."""
    monkeypatch.setattr(sys, "modules", {name: one for name, one in sys.modules.items() if name.startswith("_")})
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "at_first.py").write_text("")
    importlib.import_module("at_first")
    return tmp_path


def imported(path: pathlib.Path) -> list[tuple[str, str]]:
    """What a process says that has imported a file."""
    return [(str(path), hashlib.sha256(path.read_bytes()).hexdigest())]


def test_a_file_that_was_imported_later_is_known_from_then_on(folder: pathlib.Path) -> None:
    sources = Sources(["at_first"])
    assert str(folder / "at_first.py") in sources.known() and sources.changed() is None
    later = folder / "sub" / "later.py"
    later.parent.mkdir()
    later.write_text("one")
    assert sources.add(imported(later)) is None
    assert str(later) in sources.known() and sources.changed() is None
    later.write_text("one and more")
    assert sources.changed() == str(later)
    assert sources.add(imported(later)) == str(later), "a process that was there has imported other code"
    later.unlink()
    assert sources.changed() is None, "what is gone runs nowhere"
    (folder / "at_first.py").unlink()
    assert sources.changed() == str(folder / "at_first.py")


def test_a_file_that_was_there_at_first_is_known_as_it_was(folder: pathlib.Path) -> None:
    beside = folder / "beside.py"
    beside.write_text("one")
    sources = Sources(["at_first"])
    beside.write_text("one and more")
    assert sources.changed() is None, "nothing has imported it"
    assert sources.add(imported(beside)) == str(beside)
    beside.write_text("one")
    assert sources.changed() is None


def test_modules_that_a_handler_makes_are_no_sources(folder: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    sources = Sources(["at_first"])
    made = tmp_path_factory.mktemp("made") / "made.py"
    made.write_text("one")
    assert sources.add(imported(made)) is None
    made.write_text("one and more")
    assert sources.add(imported(made)) is None and sources.changed() is None


def test_an_archive_is_the_source_of_its_modules(folder: pathlib.Path) -> None:
    archive = folder / "app.pyz"
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("package/inside.py", "")
    module = types.ModuleType("package.inside")
    module.__file__ = str(archive / "package" / "inside.py")
    sys.modules["package.inside"] = module
    sources = Sources(["package.inside"])
    assert str(archive) in sources.known() and sources.changed() is None
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("package/inside.py", "changed = 1")
    assert sources.changed() == str(archive)


def test_a_process_says_what_it_has_imported_once(folder: pathlib.Path) -> None:
    loaded = Loaded(frozenset({str(folder / "at_first.py")}), ["at_first"])
    assert str(folder / "at_first.py") not in dict(loaded.later())
    later = folder / "imported_later.py"
    later.write_text("")
    importlib.invalidate_caches()
    importlib.import_module("imported_later")
    assert loaded.later() == imported(later)
    assert loaded.later() == []
