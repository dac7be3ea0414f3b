"""Finding plugins, also among metadata that cannot be read, and those of one file each; what they need."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from mpsprobe.errors import UsageError
from mpsprobe.plugins import discovery
from mpsprobe.plugins.discovery import CORE, FoundPlugin, find_plugins
from mpsprobe.plugins.plugin_files import find_in_folders, folders_from_environment, inline_metadata
from mpsprobe.plugins.registry import Registry
from mpsprobe.plugins.requirements import incompatibility, is_installed, specifier_of_ours, unmet
from mpsprobe_devkit.testing import install_plugin, run_cli
from tests.thin import thin

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
    ours = find_plugins()
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
    for specifiers in ([], ["no specifier"], ["==0.1.*", ">=0.1.dev1"], ["==0.1.0", ">= 0.1"], [">=0.1.0.0"]):
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


HEAD = """
class Net:
    framework = "none"
    def __init__(self, name): self.name = name
    def build(self, options): return None
    def describe(self): return {"file": __file__}

def __getattr__(name):
    import click
    return click.Command("say", callback=lambda: click.echo("said by NAME"))
"""
PLUGIN = thin(
    HEAD,
    workloads="[WorkloadDeclaration('of-NAME', 'NAME:Net', 'From a file.')]",
    commands="[CommandDeclaration('say-NAME', 'NAME:say', 'Says it.')]",
)


def _write(folder: Path, name: str, text: str | None = None) -> Path:
    path = folder / f"{name}.py"
    path.write_text(PLUGIN.replace("NAME", name) if text is None else text, encoding="utf-8")
    return path


def test_each_file_is_a_plugin_with_targets_in_itself(tmp_path: Path) -> None:
    _write(tmp_path, "one_of_mine")
    _write(tmp_path, "other-of-mine")
    _write(tmp_path, "_no_plugin", "1 / 0")
    (tmp_path / "notes.txt").write_text("1 / 0", encoding="utf-8")
    (tmp_path / "folder.py").mkdir()
    arguments = ("--plugins-dir", tmp_path, "-p", "no:hf")
    found = run_cli(*arguments, "plugins", "list", "--format", "json").json()
    mine = [one for one in found if one["file"]]
    names = ("one_of_mine", "other-of-mine")
    found = [(one["name"], one["distribution"], one["status"]) for one in mine]
    assert found == [(name, f"{name}.py", "ok") for name in names]
    assert run_cli(*arguments, "say-one_of_mine").stdout == "said by one_of_mine\n"
    shown = run_cli(*arguments, "workloads", "show", "of-other-of-mine")
    assert "other-of-mine.py" in shown.stdout, shown.stderr
    variables = {"MPSPROBE_PLUGINS_DIR": str(tmp_path)}
    assert run_cli("say-other-of-mine", variables=variables).stdout == "said by other-of-mine\n"
    assert run_cli("-p", "no:one_of_mine", "say-one_of_mine", variables=variables).code == 2


def test_folders_add_up_and_a_name_counts_once(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
        _write(folder, "the_same_name")
    _write(second, "only_here")
    *found, again = find_in_folders([str(first), str(second), str(first)])
    assert [(one.name, one.problem) for one in found] == [("the_same_name", None), ("only_here", None)]
    assert again.name == "the_same_name" and "has the same name" in (again.problem or "")


def test_a_file_that_cannot_be_one_says_why(tmp_path: Path) -> None:
    for name, text, problem in (
        ("json", "", "its name is that of the module"),
        ("torch", "", "its name is that of the module"),
        ("a.b", "", "makes it no module"),
        ("too_new", "# /// script\n# dependencies = ['mpsprobe>=99']\n# ///\n1 / 0", "needs mpsprobe >=99"),
        ("lacks", "# /// script\n# dependencies = ['no-such-dist>=2']\n# ///\n1 / 0", "needs no-such-dist>=2"),
        ("no_toml", "# /// script\n# dependencies = [\n# ///\n", "cannot be read"),
        ("no_list", "# /// script\n# dependencies = 5\n# ///\n", "should be a list"),
        ("twice", "# /// script\n# ///\n\n# /// script\n# ///\n", "more than one block"),
        ("not_closed", "# /// script\n# dependencies = []\n", "is not closed"),
        ("syntax", "def f(:", "SyntaxError"),
        ("binary", "\0", "its import failed"),
    ):
        (folder := tmp_path / f"of-{name}").mkdir()
        _write(folder, name, text)
        messages: list[str] = []
        [plugin] = Registry([], folders=[str(folder)], tell=messages.append).plugins()
        assert plugin.status in {"failed", "incompatible"} and problem in (plugin.reason or "")
        [message] = messages
        assert f"'{name}' of {name}.py is left out" in message


def test_a_folder_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        find_in_folders([str(tmp_path / "no")])
    assert run_cli("--plugins-dir", tmp_path / "no", "plugins", "list", process=False).code == 2
    result = run_cli("plugins", "list", variables={"MPSPROBE_PLUGINS_DIR": str(tmp_path / "no")}, process=False)
    assert result.code == 2 and "does not exist" in result.stderr
    monkeypatch.setenv("MPSPROBE_PLUGINS_DIR", os.pathsep.join(["a", "", "b c"]))
    assert folders_from_environment() == ["a", "b c"]


def test_a_downloaded_folder_does_not_choose_what_runs(tmp_path: Path) -> None:
    _write(tmp_path, "runs_by_itself", "open('ran', 'w').close()")
    for value in ("'.'", "['.']"):
        (tmp_path / "pyproject.toml").write_text(f"[tool.mpsprobe]\nplugins-dir = {value}\n", encoding="utf-8")
        result = run_cli("plugins", "list", cwd=tmp_path, process=False)
        assert result.code == 2 and "plugins-dir is not read" in result.stderr
        assert not (tmp_path / "ran").exists()


def test_inline_metadata_as_the_standard_has_it() -> None:
    text = "#!/usr/bin/env python\n# /// script\r\n# requires-python = '>=3.11'\n#\n# [tool.x]\n# a = 1\n# ///\n1\n"
    assert inline_metadata(text) == {"requires-python": ">=3.11", "tool": {"x": {"a": 1}}}
    assert inline_metadata("# /// other\n# x = 1\n# ///\n") == {}
    assert inline_metadata("") == {}
