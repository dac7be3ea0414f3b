"""``mpsprobe doctor``: what plugins find, the worst first."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpsprobe_devkit.testing import CommandResult, install_plugin, run_cli

PLUGIN = """
from mpsprobe import hookimpl
from mpsprobe.declarations import DoctorFinding

@hookimpl
def mpsprobe_doctor(environment):
    yield DoctorFinding("note", f"this is {environment['platform']}")
    yield DoctorFinding("LEVEL", "it hurts " + "here and there " * 12, "Do this.")
"""


def _doctor(folder: Path, *arguments: str) -> CommandResult:
    off = ("-p", "no:coverage", "-p", "no:devices")
    return run_cli(*off, "doctor", *arguments, plugin_folders=[folder], variables={"COLUMNS": "70"}, process=False)


def test_findings_are_shown_the_worst_first_and_wrapped(tmp_path: Path) -> None:
    install_plugin(tmp_path, "healer", PLUGIN.replace("LEVEL", "warning"))
    install_plugin(tmp_path, "ill", "1 / 0")
    shown = _doctor(tmp_path)
    assert shown.code == 0, shown.stderr
    assert all(len(line) <= 70 for line in shown.stdout.splitlines())
    assert shown.stdout.index("warning  it hurts") < shown.stdout.index("note     ")
    assert "         Do this." in shown.stdout
    found = _doctor(tmp_path, "--format", "json").json()
    mine = [one for one in found["findings"] if one["distribution"] == "healer"]
    assert [one["level"] for one in mine] == ["warning", "note"]
    assert mine[1]["message"] == f"this is {found['environment']['platform']}"
    assert any("'ill' of ill 1.0 is left out" in one["message"] for one in found["findings"])


@pytest.mark.parametrize(
    ("level", "arguments", "code"),
    [
        ("warning", ["--fail-on", "warning"], 1),
        ("warning", ["--fail-on", "error"], 0),
        ("error", ["--fail-on", "warning"], 1),
        ("error", [], 0),
        ("ok", ["--fail-on", "error"], 0),
    ],
)
def test_the_exit_code_is_asked_for(tmp_path: Path, level: str, arguments: list[str], code: int) -> None:
    install_plugin(tmp_path, "healer", PLUGIN.replace("LEVEL", level))
    assert _doctor(tmp_path, *arguments).code == code


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("None", "returned a NoneType, not a list of DoctorFinding"),
        ("['x']", "returned a str in its list, not a DoctorFinding"),
        ("[DoctorFinding('bad', 'x')]", "the level 'bad', which is none of ok, note, warning, error"),
        ("[DoctorFinding('ok', 5)]", "a DoctorFinding has an int as its message, which should be str"),
        ("1 / 0", "ZeroDivisionError"),
    ],
)
def test_a_wrong_answer_is_told_and_the_rest_is_shown(tmp_path: Path, answer: str, problem: str) -> None:
    head, _, _ = PLUGIN.partition("def ")
    install_plugin(tmp_path, "ill", f"{head}def mpsprobe_doctor(): return {answer}")
    result = _doctor(tmp_path, "--format", "json")
    assert problem in result.stderr
    assert any(problem in one["message"] for one in result.json()["findings"])


def test_without_plugins_it_says_why() -> None:
    shown = run_cli("-p", "no:*", "doctor", process=False).stdout
    assert "No plugin looks at anything." in shown and "is installed but blocked: switched off by -p" in shown
