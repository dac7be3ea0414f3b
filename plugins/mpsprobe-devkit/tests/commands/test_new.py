"""``mpsprobe plugins new``: what it writes where, what it refuses, and what it asks."""

from __future__ import annotations

import os
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from mpsprobe_devkit.commands import new as plugins_new
from mpsprobe_devkit.scaffold.kinds import KINDS
from mpsprobe_devkit.testing import install_plugin, run_cli

TAKEN = """
from mpsprobe import hookimpl
from mpsprobe.declarations import ExporterDeclaration

@hookimpl
def mpsprobe_exporters():
    return [ExporterDeclaration("neat", "m:f", "Neat.", ".neat")]
"""


def _nothing_in(folder: Path) -> bool:
    return not list(folder.iterdir())


def test_a_package_is_written_and_the_next_command_told(tmp_path: Path) -> None:
    result = run_cli("plugins", "new", "my-thing", "--kind", "exporter", cwd=tmp_path, process=False)
    assert (result.code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    listed = [line.strip() for line in lines[1 : lines.index("")]]
    written = [path.relative_to(tmp_path / "my-thing").as_posix() for path in (tmp_path / "my-thing").rglob("*")]
    assert sorted(listed) == sorted(one for one in written if (tmp_path / "my-thing" / one).is_file())
    assert "  mpsprobe plugins check my-thing --tests" in lines
    assert [one.name for one in tmp_path.iterdir()] == ["my-thing"]


def test_several_kinds_make_one_package(tmp_path: Path) -> None:
    kinds = [part for kind in ("probe", "command", "probe") for part in ("--kind", kind)]
    assert run_cli("plugins", "new", "both", *kinds, cwd=tmp_path, process=False).code == 0
    modules = {path.name for path in (tmp_path / "both" / "src" / "both").iterdir()}
    assert modules == {"__init__.py", "plugin.py", "probe.py", "command.py", "py.typed"}


def test_into_is_where_it_is_written_and_made_if_it_is_missing(tmp_path: Path) -> None:
    result = run_cli("plugins", "new", "x", "--kind", "probe", "--into", "new folder/deep", cwd=tmp_path, process=False)
    assert result.code == 0
    assert (tmp_path / "new folder" / "deep" / "x" / "pyproject.toml").is_file()
    quoted = '"' if sys.platform == "win32" else "'"
    assert f"plugins check {quoted}new folder{os.sep}deep{os.sep}x{quoted} --tests" in result.stdout


@pytest.mark.parametrize("kind", ["folder", "file", "dangling link"])
def test_what_is_there_stays(kind: str, tmp_path: Path) -> None:
    there = tmp_path / "mine"
    if kind == "folder":
        there.mkdir()
    elif kind == "file":
        there.write_text("kept", encoding="utf-8")
    else:
        there.symlink_to(tmp_path / "nowhere")
    result = run_cli("plugins", "new", "mine", "--kind", "probe", cwd=tmp_path, process=False)
    assert result.code == 2
    assert "is there already" in result.stderr
    assert [one.name for one in tmp_path.iterdir()] == ["mine"]
    assert not there.is_dir() or _nothing_in(there)


@pytest.mark.parametrize("name", ["", "../up", "/absolute", "Upper", "json", "torch", "a" * 300, "b\u0430dge", "class"])
def test_a_name_that_cannot_be_is_refused_before_anything_is_written(name: str, tmp_path: Path) -> None:
    result = run_cli("plugins", "new", "--kind", "probe", "--", name, cwd=tmp_path, process=False)
    assert result.code == 2
    assert "Traceback" not in result.stderr and len(result.stderr.splitlines()) == 2
    assert _nothing_in(tmp_path)


def test_an_unknown_kind_gets_the_nearest(tmp_path: Path) -> None:
    result = run_cli("plugins", "new", "x", "--kind", "exprter", cwd=tmp_path, process=False)
    assert result.code == 2
    assert "did you mean 'exporter'?" in result.stderr
    assert _nothing_in(tmp_path)


def test_without_a_terminal_the_kind_has_to_be_said(tmp_path: Path) -> None:
    result = run_cli("plugins", "new", "x", cwd=tmp_path, process=False)
    assert result.code == 2
    assert all(f"  {name} " in result.stderr for name in KINDS)
    assert "--kind" in result.stderr
    assert _nothing_in(tmp_path)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> CliRunner:
    """The command in this process, with someone who answers its questions."""
    monkeypatch.setattr(plugins_new, "_on_terminal", lambda: True)
    monkeypatch.chdir(tmp_path)
    return CliRunner()


def test_on_a_terminal_the_kind_is_asked_for_until_it_is_one(terminal: CliRunner, tmp_path: Path) -> None:
    result = terminal.invoke(plugins_new.new, ["asked"], input="painting\nprobe\n", catch_exceptions=False)
    assert result.exit_code == 0
    assert all(f"  {name} " in result.stderr for name in KINDS)
    assert "'painting' is not one of" in result.stderr
    assert result.stdout.startswith("wrote asked")
    assert (tmp_path / "asked" / "src" / "asked" / "probe.py").is_file()


def test_a_question_without_an_answer_writes_nothing(terminal: CliRunner, tmp_path: Path) -> None:
    assert terminal.invoke(plugins_new.new, ["asked"], input="").exit_code == 1
    assert _nothing_in(tmp_path)


def test_a_name_that_another_plugin_declares_is_refused(tmp_path: Path) -> None:
    plugins, folder = tmp_path / "plugins", tmp_path / "folder"
    plugins.mkdir()
    folder.mkdir()
    install_plugin(plugins, "others", TAKEN, version="2.0")
    refused = run_cli(
        "plugins", "new", "mpsprobe-neat", "--kind", "exporter", cwd=folder, plugin_folders=[plugins], process=False
    )
    assert refused.code == 2
    assert "'neat' is taken by others 2.0" in refused.stderr and "mpsprobe-my-neat" in refused.stderr
    assert _nothing_in(folder)
    other_kind = run_cli(
        "plugins", "new", "neat", "--kind", "probe", cwd=folder, plugin_folders=[plugins], process=False
    )
    assert other_kind.code == 0


def test_a_command_of_mpsprobe_itself_is_no_name_for_one(tmp_path: Path) -> None:
    result = run_cli("plugins", "new", "mpsprobe-diff", "--kind", "command", cwd=tmp_path, process=False)
    assert result.code == 2
    assert "'diff' is taken by mpsprobe" in result.stderr


def test_a_license_is_written_as_spdx_writes_it(tmp_path: Path) -> None:
    assert (
        run_cli("plugins", "new", "x", "--kind", "probe", "--license", "apache-2.0", cwd=tmp_path, process=False).code
        == 0
    )
    project = tomllib.loads((tmp_path / "x" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["license"] == "Apache-2.0"


@pytest.mark.parametrize("text", ["none of them", 'MIT"\nevil = "', "MIT OR", "\x1b[31m"])
def test_a_license_that_nobody_knows_is_refused(text: str, tmp_path: Path) -> None:
    result = run_cli("plugins", "new", "x", "--kind", "probe", "--license", text, cwd=tmp_path, process=False)
    assert result.code == 2
    assert "is not a license that SPDX knows" in result.stderr and "MIT" in result.stderr
    assert _nothing_in(tmp_path)


def test_into_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    result = run_cli("plugins", "new", "x", "--kind", "probe", "--into", "file", cwd=tmp_path, process=False)
    assert result.code == 2
    assert "it is not a folder" in result.stderr
