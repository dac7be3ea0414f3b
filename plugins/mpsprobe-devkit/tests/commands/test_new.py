"""``mpsprobe plugins new``: what it writes where, what it refuses, and what it asks."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mpsprobe_devkit.commands import new as plugins_new
from mpsprobe_devkit.scaffold.rendering import KINDS
from mpsprobe_devkit.testing import install_plugin, run_cli

TAKEN = """
from mpsprobe import hookimpl
from mpsprobe.declarations import ExporterDeclaration

@hookimpl
def mpsprobe_exporters():
    return [ExporterDeclaration("neat", "m:f", "Neat.", ".neat")]
"""


def new(folder: Path, *arguments: str, **more: Any) -> Any:
    """The command in ``folder``."""
    return run_cli("plugins", "new", *arguments, cwd=folder, process=False, **more)


def test_a_package_is_written_and_the_next_command_told(tmp_path: Path) -> None:
    result = new(tmp_path, "my-thing", *("--kind", "probe", "--kind", "command", "--kind", "probe"))
    assert (result.code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    listed = [line.strip() for line in lines[1 : lines.index("")]]
    written = [path for path in (tmp_path / "my-thing").rglob("*") if path.is_file()]
    assert sorted(listed) == sorted(path.relative_to(tmp_path / "my-thing").as_posix() for path in written)
    assert {"src/my_thing/probe.py", "src/my_thing/command.py"} < set(listed)
    assert "  mpsprobe plugins check my-thing --tests" in lines
    assert [one.name for one in tmp_path.iterdir()] == ["my-thing"]


def test_into_is_where_it_is_written_and_made_if_it_is_missing(tmp_path: Path) -> None:
    result = new(tmp_path, "x", "--kind", "probe", "--into", "new folder/deep", "--license", "apache-2.0")
    project = tomllib.loads((tmp_path / "new folder" / "deep" / "x" / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["license"] == "Apache-2.0"
    assert f"new folder{os.sep}deep{os.sep}x" in result.stdout.partition("check ")[2].partition(" --tests")[0]


REFUSED = {
    ("--kind", "probe", "--", "../up"): "cannot be the name",
    ("--kind", "probe", "--", "b\u0430dge"): "cannot be the name",
    ("x", "--kind", "exprter"): "did you mean 'exporter'?",
    ("x",): "  exporter ",
    ("x", "--kind", "probe", "--license", 'MIT"\nevil = "'): "is not a license that SPDX knows",
    ("x", "--kind", "probe", "--into", "file"): "it is not a folder",
    ("there", "--kind", "probe"): "is there already",
    ("dangling", "--kind", "probe"): "is there already",
    ("mpsprobe-diff", "--kind", "command"): "'diff' is taken by mpsprobe",
}


def test_what_cannot_be_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "there").mkdir()
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    before = sorted(tmp_path.rglob("*"))
    for arguments, says in REFUSED.items():
        result = new(tmp_path, *arguments)
        assert result.code == 2 and says in result.stderr and "Traceback" not in result.stderr, (arguments, result)
        assert sorted(tmp_path.rglob("*")) == before


def test_a_name_that_another_plugin_declares_is_refused(tmp_path: Path) -> None:
    (tmp_path / "plugins").mkdir()
    install_plugin(tmp_path / "plugins", "others", TAKEN, version="2.0")
    refused = new(tmp_path, "mpsprobe-neat", "--kind", "exporter", plugin_folders=[tmp_path / "plugins"])
    assert refused.code == 2
    assert "'neat' is taken by others 2.0" in refused.stderr and "mpsprobe-my-neat" in refused.stderr
    assert new(tmp_path, "neat", "--kind", "probe", plugin_folders=[tmp_path / "plugins"]).code == 0


def test_on_a_terminal_the_kind_is_asked_for_until_it_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins_new, "_on_terminal", lambda: True)
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(plugins_new.new, ["asked"], input="").exit_code == 1
    assert not list(tmp_path.iterdir())
    result = CliRunner().invoke(plugins_new.new, ["asked"], input="painting\nprobe\n", catch_exceptions=False)
    assert result.exit_code == 0 and result.stdout.startswith("wrote asked")
    assert all(f"  {name} " in result.stderr for name in KINDS) and "'painting' is not one of" in result.stderr
    assert (tmp_path / "asked" / "src" / "asked" / "probe.py").is_file()
