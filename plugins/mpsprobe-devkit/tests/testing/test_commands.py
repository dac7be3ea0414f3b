"""Running the installed command in tests."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from mpsprobe_devkit.testing import CommandResult, install_plugin, run_cli
from mpsprobe_devkit.testing.commands import command_environment, command_path

DECLARES = """
from mpsprobe import hookimpl
from mpsprobe.declarations import CommandDeclaration

@hookimpl
def mpsprobe_commands():
    return [CommandDeclaration("tell", "telling_command:command", "Tells what it was given.")]
"""
BODY = """
import os, sys
import click

@click.command()
@click.option("--word")
def command(word):
    os.environ["LEFT"] = "left"
    sys.path.append("left")
    print(word, sys.stdin.read(), os.getcwd(), os.environ["TELL"], os.environ.get("MPSPROBE_X"), sys.argv[1:])
    sys.stderr.buffer.write("zwölf\\r\\n".encode())
    os.chdir("..")
    raise SystemExit(3)
"""


def test_in_this_process_a_command_says_what_it_says_in_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_plugin(tmp_path, "telling", DECLARES, modules={"telling_command.py": BODY})
    monkeypatch.setenv("MPSPROBE_X", "not passed on")
    apart, here = (
        run_cli(
            *("tell", "--word", "the word"),
            cwd=tmp_path,
            stdin="from a pipe",
            variables={"TELL": "given"},
            plugin_folders=[tmp_path],
            process=process,
        )
        for process in (True, False)
    )
    assert here == apart
    assert (here.code, here.stderr) == (3, "zwölf\n")
    words = f"the word from a pipe {tmp_path.resolve()} given None ['tell', '--word', 'the word']\n"
    assert here.stdout == words
    assert "telling_command" not in sys.modules and "left" not in sys.path
    assert not {"TELL", "LEFT"} & set(os.environ) and Path.cwd() != tmp_path.parent


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
