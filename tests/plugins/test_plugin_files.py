"""Plugins of one file each, in a folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mpsprobe.errors import UsageError
from mpsprobe.plugins.plugin_files import find_in_folders, folders_from_environment, inline_metadata
from mpsprobe.plugins.registry import Registry
from mpsprobe_devkit.testing import run_cli
from tests.thin import thin

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
