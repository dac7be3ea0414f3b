"""What the source of a plugin says without being run, and what its metadata says."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from made_projects import codes

from mpsprobe_devkit.checking.package import judged_metadata, judged_sources
from mpsprobe_devkit.checking.public import is_public
from mpsprobe_devkit.checking.sources import imports, parsed, python_files
from mpsprobe_devkit.checking.subject import FOLDER, Metadata, Subject

SOURCE = """
import a.b, c
from . import near
from .sibling import name
from ..up import other
try:
    import guarded
except ImportError:
    import instead
try:
    import not_guarded
except ValueError:
    pass
if typing.TYPE_CHECKING:
    import for_types
else:
    import for_all
def function():
    import later
class Class:
    import inside
"""


def test_every_import_is_found_with_what_it_is_for() -> None:
    found = imports(Path("x.py"), ast.parse(SOURCE), "package.sub")
    assert {one.module: (one.guarded, one.at_import) for one in found} == {
        "a.b": (False, True),
        "c": (False, True),
        "package.sub": (False, True),
        "package.sub.sibling": (False, True),
        "package.up": (False, True),
        "guarded": (True, True),
        "instead": (True, True),
        "not_guarded": (False, True),
        "for_types": (True, False),
        "for_all": (False, True),
        "later": (False, False),
        "inside": (False, True),
    }


@pytest.mark.parametrize("content", [b"def broken(:", b"\0", b"\xff\xfe\xfa", b"(" * 5000, "x = 'é'".encode("latin-1")])
def test_a_file_that_is_no_source_has_no_tree(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.py").write_bytes(content)
    assert parsed(tmp_path / "x.py") is None
    assert parsed(tmp_path / "not there.py") is None


def _subject(folder: Path, **files: str) -> Subject:
    package = folder / "mine"
    package.mkdir(exist_ok=True)
    for name, text in files.items():
        (package / f"{name}.py").write_text(text, encoding="utf-8")
    (package / "py.typed").touch()
    metadata = Metadata("pyproject.toml", dependencies=("mpsprobe>=0.1",))
    return Subject(FOLDER, "x", "mine", root=folder, paths=(folder,), packages=("mine",), metadata=metadata)


def test_a_loop_of_links_ends(tmp_path: Path) -> None:
    subject = _subject(tmp_path, plugin="")
    (tmp_path / "mine" / "again").symlink_to(tmp_path / "mine")
    (tmp_path / "mine" / "loop.py").symlink_to(tmp_path / "mine" / "loop.py")
    assert {path.name for path in python_files(subject)} == {"plugin.py", "loop.py"}
    assert list(judged_sources(subject)) == []


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("import mpsprobe.plugins.loading", "imports-private"),
        ("from mpsprobe import userfile", "imports-private"),
        ("from mpsprobe.hookspecs import hookimpl", "imports-private"),
        ("from mpsprobe.output import _mask", "imports-private"),
        ("from mpsprobe import hookimpl, __version__, errors", None),
        ("from mpsprobe.schemas.profile import ProfileReport", None),
        ("import json, click, pydantic", None),  # the last two come with mpsprobe
        ("import yaml_0b7e", "undeclared-dependency"),
        ("import hypothesis.strategies", "undeclared-dependency"),
        ("import mine.other", None),
        ("from . import other", None),
        ("try:\n    import yaml_0b7e\nexcept ImportError:\n    yaml_0b7e = None", None),
    ],
)
def test_what_a_module_may_import(tmp_path: Path, line: str, code: str | None) -> None:
    found = list(judged_sources(_subject(tmp_path, plugin=line + "\n")))
    assert codes(found) == ([code] if code else [])
    assert all(one.where == "mine/plugin.py:1" for one in found)


def test_what_is_public() -> None:
    assert is_public("mpsprobe")
    assert is_public("mpsprobe.schemas.profile")
    assert not is_public("mpsprobe.cli.main")
    assert not is_public("mpsprobe.schemas._secret")
    assert not is_public("mpsprobes")


@pytest.mark.parametrize(
    ("dependencies", "found"),
    [
        (("mpsprobe>=0.1",), []),
        (("mpsprobe[testing]~=0.1",), []),
        (("MpsProbe==0.1.0",), []),
        (("mpsprobe",), ["requires-mpsprobe"]),
        ((), ["requires-mpsprobe"]),
        (("mpsprobe>=0.1", "pluggy>=1; python_version < '3'"), []),
        (("mpsprobe>=0.1", "pluggy>=99"), ["requires-unmet"]),
        (("mpsprobe>=0.1", "not a requirement"), ["bad-pyproject"]),
    ],
)
def test_what_the_dependencies_say(tmp_path: Path, dependencies: tuple[str, ...], found: list[str]) -> None:
    subject = _subject(tmp_path)
    subject.metadata = Metadata(
        "pyproject.toml", frozenset({"description", "readme", "requires-python", "license"}), dependencies
    )
    assert codes(list(judged_metadata(subject))) == found


@pytest.mark.parametrize(
    ("specifier", "code"), [(">=3.99", "incompatible"), ("three", "bad-pyproject"), (">=3.11", "")]
)
def test_which_python_it_needs(tmp_path: Path, specifier: str, code: str) -> None:
    subject = _subject(tmp_path)
    given = frozenset({"description", "readme", "requires-python", "license"})
    subject.metadata = Metadata("pyproject.toml", given, ("mpsprobe>=0.1",), requires_python=specifier)
    assert codes(list(judged_metadata(subject))) == ([code] if code else [])


def test_what_is_not_published_needs_no_description(tmp_path: Path) -> None:
    subject = _subject(tmp_path)
    assert codes(list(judged_metadata(subject))) == ["missing-metadata"]
    private = ("Private :: Do Not Upload",)
    subject.metadata = Metadata("pyproject.toml", dependencies=("mpsprobe>=0.1",), classifiers=private)
    assert list(judged_metadata(subject)) == []
