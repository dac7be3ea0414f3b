"""Running the installed command in tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpsprobe_devkit.testing import CommandResult, run_cli
from mpsprobe_devkit.testing.commands import command_environment, command_path


def test_the_command_is_installed() -> None:
    assert command_path().is_file()


def test_settings_of_this_process_are_not_passed_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MPSPROBE_DEBUG", "1")
    monkeypatch.setenv("PYTHONPATH", "before")
    environment = command_environment({"MPSPROBE_X": "y"}, [tmp_path])
    assert "MPSPROBE_DEBUG" not in environment
    assert environment["MPSPROBE_X"] == "y"
    assert environment["PYTHONPATH"].startswith(str(tmp_path))
    assert environment["PYTHONPATH"].endswith("before")


def test_json_of_a_failed_command_shows_its_errors() -> None:
    with pytest.raises(AssertionError, match="what went wrong"):
        CommandResult(2, "", "what went wrong").json()


def test_standard_input_is_given_and_empty_without() -> None:
    assert run_cli("export", "-", "--to", "x", stdin="{}").code == 2
