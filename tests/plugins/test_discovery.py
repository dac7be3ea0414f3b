"""Finding plugins, also among metadata that cannot be read; what they need, compared with what is there."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from mpsprobe.plugins import discovery
from mpsprobe.plugins.discovery import CORE, FoundPlugin, find_plugins
from mpsprobe.plugins.requirements import incompatibility, is_installed, specifier_of_ours, unmet
from mpsprobe_devkit.testing import install_plugin

NEVER_IMPORTED = "raise RuntimeError('imported')"


def _found(distribution: str) -> list[FoundPlugin]:
    return [one for one in find_plugins() if one.distribution == distribution]


def test_a_plugin_is_found_without_being_imported_and_the_core_comes_first(plugin_folder: Path) -> None:
    modules = [install_plugin(plugin_folder, name, NEVER_IMPORTED, version="2.5") for name in ("zebra", "ant")]
    assert _found("zebra") == [FoundPlugin("zebra", "zebra", "2.5", modules[0])]
    assert not set(modules) & set(sys.modules)
    core, *others = find_plugins()
    names = [one.distribution for one in others]
    assert core == CORE and names == sorted(names)


def test_reading_folders_gives_what_importlib_gives(plugin_folder: Path) -> None:
    text = "[console_scripts]\nx = a:b\n[mpsprobe]\n# a comment\n\n one = a.b \ntwo=c:d [extra]\n[other]\nthree = e\n"
    install_plugin(plugin_folder, "Several.Words-in-it", NEVER_IMPORTED, entry_points=text)
    assert discovery._only_folders()
    ours = sorted(discovery._from_folders(), key=repr)
    assert ours == sorted(discovery._from_importlib(), key=repr)
    theirs = [(one.name, one.target) for one in ours if one.distribution == "Several.Words-in-it"]
    assert sorted(theirs) == [("one", "a.b"), ("two", "c:d")]
    assert {"mpsprobe-coverage", "mpsprobe-exporters", "mpsprobe-hf"} <= {one.distribution for one in ours}
    points = {(point.name, point.value.partition(" ")[0]) for point in entry_points(group="mpsprobe")}
    assert {(one.name, one.target) for one in find_plugins()[1:]} == points


def test_what_comes_first_on_the_path_hides_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in (1, 2):
        folder = tmp_path / str(number)
        folder.mkdir()
        install_plugin(folder, "twice", NEVER_IMPORTED, version=f"{number}.0")
    monkeypatch.syspath_prepend(str(tmp_path / "2"))
    monkeypatch.syspath_prepend(str(tmp_path / "1"))
    assert [one.version for one in _found("twice")] == ["1.0"]


def test_a_plugin_in_a_zip_file_is_found_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lib").mkdir()
    module = install_plugin(tmp_path / "lib", "zipped", NEVER_IMPORTED)
    archive = shutil.make_archive(str(tmp_path / "lib"), "zip", tmp_path / "lib")
    monkeypatch.syspath_prepend(archive)
    assert not discovery._only_folders()
    assert _found("zipped") == [FoundPlugin("zipped", "zipped", "1.0", module)]
    assert _found("mpsprobe-exporters")


@pytest.mark.parametrize("damage", ["[mpsprobe]\nno equals sign\n", b"[mpsprobe]\n\xff\xfe = x\n"])
def test_damaged_metadata_is_told_and_hides_no_other_plugin(plugin_folder: Path, damage: str | bytes) -> None:
    install_plugin(plugin_folder, "damaged", NEVER_IMPORTED, entry_points="")
    file = plugin_folder / "damaged-1.0.dist-info" / "entry_points.txt"
    file.write_bytes(damage if isinstance(damage, bytes) else damage.encode())
    module = install_plugin(plugin_folder, "sound", NEVER_IMPORTED)
    assert _found("sound") == [FoundPlugin("sound", "sound", "1.0", module)]
    [damaged] = _found("damaged")
    assert "entry_points.txt cannot be read" in (damaged.problem or "")
    install_plugin(plugin_folder, "stranger", NEVER_IMPORTED, entry_points="[console_scripts]\nno equals sign\n")
    assert _found("stranger") == [] and find_plugins()[0] == CORE


@pytest.mark.parametrize("text", ["", "Metadata-Version: 2.1\n", "Name:\n\nName: in-the-description\n"])
def test_metadata_without_name_and_version_is_shown_with_question_marks(plugin_folder: Path, text: str) -> None:
    module = install_plugin(plugin_folder, "nameless", NEVER_IMPORTED)
    (plugin_folder / "nameless-1.0.dist-info" / "METADATA").write_text(text, encoding="utf-8")
    [found] = [one for one in find_plugins() if one.name == "nameless"]
    assert (found.target, found.distribution, found.version) == (module, "?", "?")


@given(st.text(alphabet="[]mpsrobe=#:; \n\t.x", max_size=60))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        points = list(discovery._parse("[mpsprobe]\n" + text))
    except ValueError as error:
        assert "name = target" in str(error)
    else:
        assert all("=" not in name and "\n" not in target for name, target in points)


def test_metadata_that_is_no_file(plugin_folder: Path) -> None:
    """A pipe is not waited for: nobody writes into it."""
    kinds: list[Callable[[Path], object]] = [Path.mkdir, *([os.mkfifo] if hasattr(os, "mkfifo") else [])]
    for number, make in enumerate(kinds):
        odd, other = (plugin_folder / f"{name}{number}-1.0.dist-info" for name in ("odd", "other"))
        odd.mkdir()
        other.mkdir()
        (other / "entry_points.txt").write_text("[mpsprobe]\nother = other\n", encoding="utf-8")
        for path in (odd / "entry_points.txt", odd / "METADATA", other / "METADATA"):
            make(path)
    assert {(one.name, one.version) for one in find_plugins() if one.distribution == "?"} == {("other", "?")}


NUMBERS = st.lists(st.integers(0, 12), min_size=1, max_size=3).map(lambda parts: ".".join(map(str, parts)))
CLAUSES = st.builds("{}{}".format, st.sampled_from([">=", "<=", "==", "!=", ">", "<", ">= ", "~="]), NUMBERS)


@given(st.lists(CLAUSES, min_size=1, max_size=3).map(",".join), NUMBERS)
@example(">=0.1,<1", "0.1.0")
@example("==0.1", "0.1.0")
def test_a_version_fits_as_packaging_says(specifier: str, version: str) -> None:
    if "~=" in specifier and any(clause.startswith("~=") and "." not in clause for clause in specifier.split(",")):
        specifier = ">=0"  # '~=1' is not a specifier
    fits = SpecifierSet(specifier).contains(version, prereleases=True)
    assert (incompatibility([specifier], version) is None) == fits


def test_what_does_not_fit_is_told_with_both_versions() -> None:
    assert incompatibility([">=0.1", ">=9,<10"], "0.1.0") == "it needs mpsprobe >=9,<10, and this is mpsprobe 0.1.0"
    for specifiers in ([], ["no specifier"], ["==0.1.*", ">=0.1.dev1"]):
        assert incompatibility(specifiers, "0.1.0") is None
    assert incompatibility([">=0.1"], "0.1.dev3") is not None


def test_what_a_requirement_says_of_mpsprobe() -> None:
    nothing = ["", ">=9", "mpsprobe", "mpsprobe-hf>=9", "mpsprobe_hf>=9", "torch>=9"]
    markers = ["extra == 'test'", "python_version < '3'", "what is this"]
    said = {
        "mpsprobe>=0.1": ">=0.1",
        " mpsprobe (>=0.1,<1)": ">=0.1,<1",
        "MPSProbe[testing] >= 0.1": ">= 0.1",
        "mpsprobe>=9; python_version > '3'": ">=9",
        **dict.fromkeys([*nothing, *(f"mpsprobe>=9; {marker}" for marker in markers)]),
    }
    assert {text: specifier_of_ours(text) for text in said} == said


@given(st.from_regex(r"mpsprobe ?(\[[a-z]{1,5}\])? ?(>=|<|==) ?[0-9](\.[0-9])?", fullmatch=True))
def test_any_requirement_on_mpsprobe_is_read_as_packaging_reads_it(text: str) -> None:
    found = specifier_of_ours(text)
    assert found is not None
    assert SpecifierSet(found) == Requirement(text).specifier


def test_what_is_installed() -> None:
    asked = ("pluggy>=1", "pluggy>=99", "no-such-distribution-anywhere", "not a requirement!!")
    assert [is_installed(one) for one in asked] == [True, False, False, False]
    assert unmet("mpsprobe-coverage") == []
    assert unmet("no-such-distribution-anywhere") == []


def test_a_requirement_that_cannot_be_read_is_passed_over() -> None:
    for requirement in (f"mpsprobe>={'9' * 5000}", f"mpsprobe>=0.1; {'(' * 5000}", "mpsprobe>=0.1; nonsense =="):
        specifier = specifier_of_ours(requirement)
        assert incompatibility([specifier] if specifier else []) is None
