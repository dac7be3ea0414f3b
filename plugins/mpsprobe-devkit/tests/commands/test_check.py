"""``mpsprobe plugins check``: exit codes, both formats, what is shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from made_projects import COMMAND, make_project

from mpsprobe_devkit.commands.check import check
from mpsprobe_devkit.testing import install_plugin, run_cli


def test_a_sound_plugin(tmp_path: Path) -> None:
    result = run_cli("plugins", "check", make_project(tmp_path))
    assert (result.code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0].startswith("under-test 1.0  (folder ")
    assert "  command  hello-under-test" in lines
    assert any(line.startswith("  import   ") and line.endswith(" ms") for line in lines)
    assert lines[-1] == "Sound: nothing is wrong with it."


def test_what_is_wrong_is_shown_in_groups_and_as_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    project = str(make_project(tmp_path, "print('hello')\n@hookimpl\ndef mpsprobe_exporters(): return 3\n" + COMMAND))
    result = CliRunner().invoke(check, [project])
    assert result.exit_code == 1
    shown = [line for line in result.output.partition("\n\n")[2].splitlines() if not line.startswith("  import")]
    assert shown == [
        "Loading",
        "  warning  prints",
        "           importing under_test.plugin prints 'hello'",
        "           → Remove the print, or log at the level DEBUG.",
        "",
        "Hooks",
        "  error    hook-failed  src/under_test/plugin.py:5",
        "           its hook mpsprobe_exporters returned an int, not a list of ExporterDeclaration",
        "           → docs/plugins/hooks.md says what each hook returns, mpsprobe/declarations.py what each",
        "           field is.",
        "",
        "  command  hello-under-test",
        "",
        "1 error, 1 warning",
        "--fail-on: hook-failed: its hook mpsprobe_exporters returned an int, not a list of ExporterDeclaration",
    ]
    found = json.loads(CliRunner().invoke(check, [project, "--format", "json"]).stdout)
    assert found["summary"] == {"errors": 1, "warnings": 1}
    assert found["contributes"] == {"command": ["hello-under-test"]}
    assert (found["kind"], found["distribution"], found["version"]) == ("folder", "under-test", "1.0")
    assert found["import_ms"] > 0
    assert {"code", "level", "message", "where", "hint"} == set(found["findings"][0])


def test_warnings_fail_only_if_asked_and_long_lists_are_shortened(tmp_path: Path) -> None:
    names = ", ".join(f"CommandDeclaration('command-{n}', 'under_test.command:hello', 'x')" for n in range(30))
    code = f"print('hello')\n@hookimpl\ndef mpsprobe_commands(): return [{names}]\n"
    project = str(make_project(tmp_path, code))
    result = CliRunner().invoke(check, [project])
    assert result.exit_code == 0 and "and 22 more" in " ".join(result.output.split())
    assert CliRunner().invoke(check, [project, "--fail-on", "warning"]).exit_code == 1


def test_wrong_use_is_exit_code_2(tmp_path: Path) -> None:
    result = run_cli("plugins", "check", "mpsprobe-exporter", process=False)
    assert result.code == 2 and "did you mean 'mpsprobe-exporters'" in result.stderr
    for limit in ("nan", "0", "-1", "soon"):
        assert CliRunner().invoke(check, [str(make_project(tmp_path / limit)), "--time-limit", limit]).exit_code == 2
    assert "\x1b" not in run_cli("plugins", "check", "x\x1b[31m" + "y" * 5000, process=False).stderr
    (tmp_path / "plugins").mkdir()
    result = run_cli("plugins", "check", "plugins", cwd=tmp_path, process=False)
    assert result.code == 2 and "has no pyproject.toml" in result.stderr and "name the .py file" in result.stderr


@pytest.mark.parametrize(
    ("code", "found"), [("import time\ntime.sleep(60)", "hangs"), ("import os\nos._exit(0)", "ends-process")]
)
def test_a_plugin_that_breaks_the_command_line_can_be_checked(code: str, found: str, plugin_folder: Path) -> None:
    install_plugin(plugin_folder, "breaks-it", code)
    result = run_cli(
        *("-p", "no:breaks-it", "plugins", "check", "breaks-it", "--time-limit", "1", "--format", "json"),
        plugin_folders=[plugin_folder],
    )
    assert result.code == 1, result.stderr
    assert found in {one["code"] for one in json.loads(result.stdout)["findings"]}
