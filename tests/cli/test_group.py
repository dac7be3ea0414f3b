"""The main group: commands found, missing and misspelt, and plugins that are broken."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpsprobe_devkit.testing import CommandResult, install_plugin, run_cli
from tests.thin import thin

DIVIDES = """
import click

@click.command()
@click.option('--size', type=int)
def command(size): print(7 // size)
"""


def _declares(name: str, target: str) -> str:
    return thin(commands=f"[CommandDeclaration({name!r}, {target!r}, 'Help line of {name}.')]")


def _run(folder: Path, *arguments: str, **variables: str) -> CommandResult:
    return run_cli(*arguments, plugin_folders=[folder], variables=variables, cwd=folder, process=False)


def test_help_lists_commands_of_core_and_plugins_without_importing_them(tmp_path: Path) -> None:
    install_plugin(tmp_path, "extra", _declares("frobnicate", "no_such_module:command"))
    result = _run(tmp_path, "--help")
    assert (result.code, result.stderr) == (0, "")
    assert "Help line of frobnicate." in result.stdout
    for name in ("export", "plugins", "workloads"):
        assert f"\n  {name} " in result.stdout
    assert _run(tmp_path, "-h").stdout == result.stdout


def test_a_command_without_its_plugin_says_what_to_install(tmp_path: Path) -> None:
    for arguments, distribution, install in (
        (("coverage",), "mpsprobe-coverage", "mpsprobe[all]"),
        (("plugins", "check", "x"), "mpsprobe-devkit", "mpsprobe-devkit"),
        (("kernels", "audit"), "mpsprobe-tables", "mpsprobe-tables"),
    ):
        # A site folder of nothing but mpsprobe cannot be had here, so the plugin is hidden by an empty one of its name.
        (folder := tmp_path / distribution).mkdir()
        install_plugin(folder, distribution, "", entry_points="")
        result = _run(folder, *arguments)
        assert result.code == 2
        error, hint = result.stderr.splitlines()
        assert error.startswith(f"Error: unknown command '{' '.join(arguments[:2])}'")
        assert hint == f'More of them come with plugins: pip install "{install}"'


def test_a_command_of_a_plugin_that_is_off_or_broken_says_so(tmp_path: Path) -> None:
    off = _run(tmp_path, "-p", "no:coverage", "coverage")
    assert off.code == 2
    assert "unknown command 'coverage'" in off.stderr and "is installed but blocked" in off.stderr
    install_plugin(tmp_path, "mpsprobe-coverage", "raise ValueError('broken wheel')")
    broken = _run(tmp_path, "kernels")
    assert broken.code == 2
    assert "mpsprobe-coverage 1.0 is installed but failed" in broken.stderr and "broken wheel" in broken.stderr


def test_an_unknown_command_or_flag_gets_the_nearest_one() -> None:
    for typed, near in (("exprot", "export"), ("WORKLOADS", "workloads")):
        result = run_cli(typed, process=False)
        assert (result.code, result.stderr) == (2, f"Error: unknown command '{typed}'; did you mean '{near}'?\n")
    result = run_cli("plugins", "list", "--fromat", "json", process=False)
    assert result.code == 2 and "--format" in result.stderr


def test_a_plugin_adds_a_command_to_a_group_of_another(tmp_path: Path) -> None:
    module = _declares("plugins frobnicate", "adding_command:command")
    install_plugin(tmp_path, "adding", module, modules={"adding_command.py": DIVIDES})
    assert "frobnicate" in _run(tmp_path, "plugins", "--help").stdout
    line = ("plugins", "frobnicate")
    failing = _run(tmp_path, *line, "--size", "0")
    assert failing.code == 2 and "the command 'plugins frobnicate' of adding 1.0 failed" in failing.stderr
    settings = tmp_path / "pyproject.toml"
    settings.write_text("[tool.mpsprobe.plugins.frobnicate]\nsize = 1\n")
    assert _run(tmp_path, *line).stdout == "7\n"
    assert _run(tmp_path, *line, MPSPROBE_PLUGINS_FROBNICATE_SIZE="7").stdout == "1\n"
    settings.write_text("[tool.mpsprobe.plugins.frobnicate]\nsiez = 1\n")
    wrong = _run(tmp_path, *line)
    assert wrong.code == 2 and "unknown setting tool.mpsprobe.plugins.frobnicate.siez" in wrong.stderr


def test_a_command_that_cannot_be_loaded_names_its_plugin(tmp_path: Path) -> None:
    problems = {
        "no_such_module:command": "cannot be imported: ModuleNotFoundError",
        "json:dumps": "is a function, not a Command",
        "json:nothing": "does not resolve",
    }
    commands = f"[CommandDeclaration(f'broken-{{n}}', one, 'x') for n, one in enumerate({[*problems]})]"
    install_plugin(tmp_path, "extra", thin(commands=commands))
    for number, problem in enumerate(problems.values()):
        result = _run(tmp_path, f"broken-{number}")
        assert result.code == 2 and problem in result.stderr and "Traceback" not in result.stderr


def test_two_plugins_with_one_command(tmp_path: Path) -> None:
    for name in ("one", "two"):
        install_plugin(tmp_path, name, _declares("frobnicate", "m:f"))
    result = _run(tmp_path, "frobnicate")
    assert result.code == 2
    assert "Error: the command 'frobnicate' is declared by one 1.0 and two 1.0" in result.stderr


def test_what_becomes_of_a_broken_plugin(tmp_path: Path) -> None:
    install_plugin(tmp_path, "broken", "open('imported', 'w').close()\nraise RuntimeError('on purpose')")
    said = "plugin 'broken' of broken 1.0 is left out: its import failed: RuntimeError: on purpose\n"
    for flag, variable, setting, outcome in (
        ("", "", "strict-plugins = false", "left out"),
        ("--strict-plugins", "", "strict-plugins = false", "fatal"),
        ("", "MPSPROBE_STRICT_PLUGINS=1", "strict-plugins = false", "fatal"),
        ("", "", "strict-plugins = true", "fatal"),
        ("-p no:broken", "", "", "switched off"),
        ("", "MPSPROBE_DISABLE_PLUGINS=broken", "", "switched off"),
        ("", "", "disable-plugins = ['broken']", "switched off"),
    ):
        (tmp_path / "pyproject.toml").write_text(f"[tool.mpsprobe]\n{setting}\n")
        (tmp_path / "imported").unlink(missing_ok=True)
        variables = dict([variable.split("=")]) if variable else {}
        result = _run(tmp_path, *flag.split(), "workloads", "list", **variables)
        assert (result.code, result.stdout == "") == ((2, True) if outcome == "fatal" else (0, False))
        assert result.stderr.count(said) == (outcome != "switched off")
        assert (tmp_path / "imported").exists() == (outcome != "switched off")


@pytest.mark.parametrize("value", ["loud", "no:", "yes:loud"])
def test_a_switch_of_another_form_is_refused(value: str) -> None:
    result = run_cli("-p", value, "plugins", "list", process=False)
    assert result.code == 2 and "is not of the form no:NAME" in result.stderr
