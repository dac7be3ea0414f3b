"""``mpsprobe plugins list`` and ``show``."""

from __future__ import annotations

from pathlib import Path

import mpsprobe
from mpsprobe_devkit.testing import install_plugin, run_cli

SOUND = """
from mpsprobe import hookimpl
from mpsprobe.declarations import WorkloadDeclaration

@hookimpl
def mpsprobe_workloads():
    return [WorkloadDeclaration(f"net-{n}", "m:f", "x") for n in range(2)]
"""
ALL = {"MPSPROBE_DISABLE_PLUGINS": "*"}


def test_list_shows_each_plugin_with_its_state(tmp_path: Path) -> None:
    install_plugin(tmp_path, "sound", SOUND, version="3.1")
    install_plugin(tmp_path, "broken", "1 / 0")
    install_plugin(tmp_path, "off", "1 / 0")
    found = run_cli(
        "-p", "no:off", "plugins", "list", "--format", "json", plugin_folders=[tmp_path], process=False
    ).json()
    by_name = {one["name"]: one for one in found}
    assert by_name["sound"] == {
        "name": "sound",
        "distribution": "sound",
        "version": "3.1",
        "target": "sound_plugin",
        "file": None,
        "requires": [],
        "status": "ok",
        "reason": None,
        "problems": [],
        "hooks": ["mpsprobe_workloads"],
        "contributes": {"workload": ["net-0", "net-1"]},
    }
    assert by_name["broken"]["status"] == "failed"
    assert "ZeroDivisionError" in by_name["broken"]["reason"]
    assert by_name["off"]["status"] == "blocked"
    assert by_name["core"]["version"] == mpsprobe.__version__
    table = run_cli("-p", "no:off", "plugins", "list", plugin_folders=[tmp_path], process=False)
    assert table.code == 0
    lines = [line.split() for line in table.stdout.splitlines()]
    assert lines[0] == ["NAME", "DISTRIBUTION", "VERSION", "STATUS", "CONTRIBUTES"]
    assert ["sound", "sound", "3.1", "ok", "2", "workloads"] in lines


def test_list_works_when_every_plugin_is_broken(tmp_path: Path) -> None:
    for number in range(5):
        install_plugin(tmp_path, f"broken-{number}", "raise SystemExit(7)")
    result = run_cli("plugins", "list", "--format", "json", plugin_folders=[tmp_path], process=False)
    assert sum(one["status"] == "failed" for one in result.json()) == 5
    assert result.stderr.count("its import failed: SystemExit: 7") == 5


def test_a_plugin_that_prints_does_not_spoil_json(tmp_path: Path) -> None:
    install_plugin(tmp_path, "chatty", "print('hello')\n")
    assert run_cli("plugins", "list", "--format", "json", plugin_folders=[tmp_path], process=False).json()


def test_show_finds_by_name_and_by_distribution() -> None:
    shown = run_cli("plugins", "show", "core", variables=ALL, process=False)
    assert shown.stdout == run_cli("plugins", "show", "mpsprobe", variables=ALL, process=False).stdout
    assert "commands      diff, doctor, export, import, plugins, profile, workloads" in shown.stdout
    [found] = run_cli("plugins", "show", "core", "--format", "json", variables=ALL, process=False).json()
    names = ["diff", "doctor", "export", "import", "plugins", "profile", "workloads"]
    assert found["contributes"] == {"command": names}


def test_an_unknown_plugin_gets_the_nearest_names() -> None:
    result = run_cli("plugins", "show", "cor", variables=ALL, process=False)
    assert result.code == 2
    assert "unknown plugin 'cor'; did you mean 'core'" in result.stderr


def test_flags_of_the_commands_for_authors_have_variables_and_settings(tmp_path: Path) -> None:
    variables = {"MPSPROBE_PLUGINS_NEW_KIND": "command"}
    made = run_cli("plugins", "new", "by-a-variable", cwd=tmp_path, variables=variables, process=False)
    assert made.code == 0, made.stderr
    assert "wrote by-a-variable/ (command)" in made.stdout
    (tmp_path / "pyproject.toml").write_text('[tool.mpsprobe.plugins.new]\nkind = ["probe"]\n', encoding="utf-8")
    made = run_cli("plugins", "new", "by-a-setting", cwd=tmp_path, process=False)
    assert "wrote by-a-setting/ (probe)" in made.stdout, made.stderr
    (tmp_path / "pyproject.toml").write_text('[tool.mpsprobe.plugins.new]\nknd = "probe"\n', encoding="utf-8")
    made = run_cli("plugins", "new", "by-a-typo", cwd=tmp_path, process=False)
    assert made.code == 2
    assert "unknown setting tool.mpsprobe.plugins.new.knd" in made.stderr
