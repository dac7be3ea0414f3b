"""``mpsprobe plugins check``: exit codes, both formats, what is shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from made_projects import COMMAND, make_project

from mpsprobe_devkit.checking import examination
from mpsprobe_devkit.commands.check import check
from mpsprobe_devkit.testing import run_cli


def _check(monkeypatch: pytest.MonkeyPatch, *arguments: str | Path, columns: int = 100) -> Result:
    """Run the command in this process, without timing imports."""
    monkeypatch.setattr(examination, "TIMED_PROCESSES", 0)
    monkeypatch.setenv("COLUMNS", str(columns))
    return CliRunner().invoke(check, [str(one) for one in arguments])


def test_a_sound_plugin(tmp_path: Path) -> None:
    result = run_cli("plugins", "check", make_project(tmp_path))
    assert (result.code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0].startswith("under-test 1.0  (folder ")
    assert "  command  hello-under-test" in lines
    assert any(line.startswith("  import   ") and line.endswith(" ms") for line in lines)
    assert lines[-1] == "Sound: nothing is wrong with it."


def test_what_is_wrong_is_shown_in_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = make_project(tmp_path, "print('hello')\n@hookimpl\ndef mpsprobe_probe(): return []\n")
    result = _check(monkeypatch, project)
    assert result.exit_code == 1
    assert result.output.partition("\n\n")[2] == (
        "Import\n"
        "  warning  import-prints  entry point mine\n"
        "           importing under_test.plugin prints 'hello'\n"
        "           → Remove the print, or log at the level DEBUG.\n"
        "\n"
        "Hooks\n"
        "  error    unknown-hook  src/under_test/plugin.py:5\n"
        "           there is no hook 'mpsprobe_probe'; did you mean 'mpsprobe_probes'?\n"
        "           → Correct the name; a hook of a later mpsprobe is marked @hookimpl(optionalhook=True).\n"
        "\n"
        "1 error, 1 warning\n"
    )


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_lines_fit_the_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    names = ", ".join(f"CommandDeclaration('command-{n}', 'under_test.command:hello', 'x' * 200)" for n in range(30))
    code = f"import pydantic\n@hookimpl\ndef mpsprobe_commands(): return [{names}]\n"
    result = _check(monkeypatch, make_project(tmp_path, code), columns=columns)
    long = [line for line in result.output.splitlines()[1:] if len(line) > columns and " " in line.strip()]
    assert not [line for line in long if not line.lstrip().startswith(("error", "warning"))]
    assert "and 22 more" in " ".join(result.output.split())


def test_warnings_fail_only_if_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = make_project(tmp_path, "print('hello')\n" + COMMAND)
    assert _check(monkeypatch, project).exit_code == 0
    assert _check(monkeypatch, project, "--fail-on", "error").exit_code == 0
    assert _check(monkeypatch, project, "--fail-on", "warning").exit_code == 1


def test_json_has_all_of_it(tmp_path: Path) -> None:
    project = make_project(tmp_path, "print('{\"spoilt\": 1}')\nimport sys; sys.stderr.write('x')\n" + COMMAND)
    found = run_cli("plugins", "check", project, "--format", "json", process=False).json()
    assert found["summary"] == {"errors": 0, "warnings": 1}
    assert found["contributes"] == {"command": ["hello-under-test"]}
    assert found["entry_points"] == {"mine": "under_test.plugin"}
    assert (found["kind"], found["distribution"], found["version"]) == ("folder", "under-test", "1.0")
    assert found["import_ms"] > 0
    [finding] = found["findings"]
    assert (finding["code"], finding["level"]) == ("import-prints", "warning")
    assert set(finding) == {"code", "level", "message", "where", "hint"}


def test_wrong_use_is_exit_code_2(tmp_path: Path) -> None:
    result = run_cli("plugins", "check", "mpsprobe-exporter", process=False)
    assert result.code == 2
    assert "unknown plugin 'mpsprobe-exporter'; did you mean 'mpsprobe-exporters'" in result.stderr
    assert run_cli("plugins", "check", process=False).code == 2
    project = make_project(tmp_path)
    for limit in ("nan", "0", "-1", "soon"):
        assert CliRunner().invoke(check, [str(project), "--time-limit", limit]).exit_code == 2


@pytest.mark.parametrize(
    ("code", "off", "found"),
    [
        ("import time\ntime.sleep(60)", "nobody", "import-hangs"),
        ("import os\nos._exit(0)", "breaks-it", "import-exits"),
    ],
    ids=["hangs", "ends it"],
)
def test_a_plugin_that_breaks_the_command_line_can_be_checked(
    code: str, off: str, found: str, plugin_folder: Path
) -> None:
    from mpsprobe_devkit.testing import install_plugin

    install_plugin(plugin_folder, "breaks-it", code)
    result = run_cli(
        "-p",
        f"no:{off}",
        "plugins",
        "check",
        "breaks-it",
        "--time-limit",
        "1",
        "--format",
        "json",
        plugin_folders=[plugin_folder],
        variables={"MPSPROBE_PLUGIN_TIMEOUT": "1"},
    )
    assert result.code == 1, result.stderr
    assert found in {one["code"] for one in json.loads(result.stdout)["findings"]}


def test_a_name_of_many_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    result = _check(monkeypatch, "x\x1b[31m" + "y" * 5000)
    assert result.exit_code != 0
    assert "\x1b" not in result.output


def test_a_folder_that_is_no_package_is_told_apart_from_an_unknown_name(tmp_path: Path) -> None:
    (tmp_path / "plugins").mkdir()
    result = run_cli("plugins", "check", "plugins", cwd=tmp_path, process=False)
    assert result.code == 2
    assert "the folder 'plugins' has no pyproject.toml" in result.stderr
    assert "name the .py file" in result.stderr
