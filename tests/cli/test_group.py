"""The main group: commands found, missing and misspelt, and plugins that are broken."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpsprobe_devkit.testing import install_plugin, run_cli

ALL = {"MPSPROBE_DISABLE_PLUGINS": "*"}
DECLARES = """
from mpsprobe import hookimpl
from mpsprobe.declarations import CommandDeclaration

@hookimpl
def mpsprobe_commands():
    return [CommandDeclaration({name!r}, {target!r}, "Help line of {name}.")]
"""


def test_help_lists_commands_of_core_and_plugins_without_importing_them(tmp_path: Path) -> None:
    install_plugin(tmp_path, "extra", DECLARES.format(name="frobnicate", target="no_such_module:command"))
    result = run_cli("--help", plugin_folders=[tmp_path], process=False)
    assert result.code == 0
    assert result.stderr == ""
    assert "Help line of frobnicate." in result.stdout
    for name in ("export", "plugins", "workloads"):
        assert f"\n  {name} " in result.stdout


def test_short_help_flag() -> None:
    assert run_cli("-h", variables=ALL).stdout == run_cli("--help", variables=ALL).stdout


@pytest.mark.parametrize(
    ("arguments", "distribution", "install"),
    [
        (("coverage",), "mpsprobe-coverage", "mpsprobe[all]"),
        (("plugins", "check", "x"), "mpsprobe-devkit", "mpsprobe-devkit"),
        (("kernels", "audit"), "mpsprobe-tables", "mpsprobe-tables"),
    ],
)
def test_a_command_without_its_plugin_says_what_to_install(
    tmp_path: Path, arguments: tuple[str, ...], distribution: str, install: str
) -> None:
    # A site folder of nothing but mpsprobe cannot be had here, so the plugin is hidden by an empty one of its name.
    install_plugin(tmp_path, distribution, "", entry_points="")
    result = run_cli(*arguments, plugin_folders=[tmp_path], process=False)
    assert result.code == 2
    error, hint = result.stderr.splitlines()
    assert error.startswith(f"Error: unknown command '{' '.join(arguments[:2])}'")
    assert hint == f'More of them come with plugins: pip install "{install}"'


def test_a_command_of_a_plugin_that_is_off_or_broken_says_so(tmp_path: Path) -> None:
    off = run_cli("-p", "no:coverage", "coverage", process=False)
    assert off.code == 2
    assert "unknown command 'coverage'" in off.stderr
    assert "is installed but blocked" in off.stderr
    install_plugin(tmp_path, "mpsprobe-coverage", "raise ValueError('broken wheel')")
    broken = run_cli("kernels", plugin_folders=[tmp_path], process=False)
    assert broken.code == 2
    assert "mpsprobe-coverage 1.0 is installed but failed" in broken.stderr
    assert "broken wheel" in broken.stderr


@pytest.mark.parametrize(("typed", "near"), [("plugin", "plugins"), ("exprot", "export"), ("WORKLOADS", "workloads")])
def test_an_unknown_command_gets_the_nearest_names(typed: str, near: str) -> None:
    result = run_cli(typed, process=False)
    assert result.code == 2
    assert result.stderr == f"Error: unknown command '{typed}'; did you mean '{near}'?\n"


def test_a_plugin_adds_a_command_to_a_group_of_another(tmp_path: Path) -> None:
    module = DECLARES.format(name="plugins frobnicate", target="adding_command:command")
    command = (
        "import click\n\n@click.command()\n@click.option('--size', type=int)\ndef command(size): print(7 // size)\n"
    )
    (tmp_path / "adding_command.py").write_text(command)
    install_plugin(tmp_path, "adding", module)
    listed = run_cli("plugins", "--help", plugin_folders=[tmp_path], process=False)
    assert "frobnicate" in listed.stdout
    (tmp_path / "pyproject.toml").write_text("[tool.mpsprobe.plugins.frobnicate]\nsize = 1\n")
    assert run_cli("plugins", "frobnicate", plugin_folders=[tmp_path], cwd=tmp_path, process=False).stdout == "7\n"
    variables = {"MPSPROBE_PLUGINS_FROBNICATE_SIZE": "7"}
    assert (
        run_cli("plugins", "frobnicate", plugin_folders=[tmp_path], variables=variables, process=False).stdout == "1\n"
    )
    failing = run_cli("plugins", "frobnicate", "--size", "0", plugin_folders=[tmp_path], process=False)
    assert failing.code == 2 and "the command 'plugins frobnicate' of adding 1.0 failed" in failing.stderr


def test_an_unknown_flag_gets_the_nearest_one() -> None:
    result = run_cli("plugins", "list", "--fromat", "json", variables=ALL, process=False)
    assert result.code == 2
    assert "--format" in result.stderr


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ("no_such_module:command", "cannot be imported: ModuleNotFoundError"),
        ("json:dumps", "is a function, not a Command"),
        ("json:nothing", "does not resolve"),
    ],
)
def test_a_command_that_cannot_be_loaded_names_its_plugin(tmp_path: Path, target: str, problem: str) -> None:
    install_plugin(tmp_path, "extra", DECLARES.format(name="frobnicate", target=target))
    result = run_cli("frobnicate", plugin_folders=[tmp_path], process=False)
    assert result.code == 2
    assert "Traceback" not in result.stderr
    assert problem in result.stderr


def test_two_plugins_with_one_command(tmp_path: Path) -> None:
    for name in ("one", "two"):
        install_plugin(tmp_path, name, DECLARES.format(name="frobnicate", target="m:f"))
    result = run_cli("frobnicate", plugin_folders=[tmp_path], process=False)
    assert result.code == 2
    assert "Error: the command 'frobnicate' is declared by one 1.0 and two 1.0" in result.stderr


def test_a_broken_plugin_is_named_once_and_the_command_goes_on(tmp_path: Path) -> None:
    install_plugin(tmp_path, "broken", "raise RuntimeError('on purpose')")
    result = run_cli("workloads", "list", plugin_folders=[tmp_path], process=False)
    assert result.code == 0
    line = "mpsprobe: plugin 'broken' of broken 1.0 is left out: its import failed: RuntimeError: on purpose\n"
    assert result.stderr.count(line) == 1


@pytest.mark.parametrize("how", ["flag", "variable", "file"])
def test_strict_plugins_can_be_asked_for_everywhere(tmp_path: Path, how: str) -> None:
    install_plugin(tmp_path, "broken", "raise RuntimeError('on purpose')")
    (tmp_path / "pyproject.toml").write_text(f"[tool.mpsprobe]\nstrict-plugins = {str(how == 'file').lower()}\n")
    arguments = ["--strict-plugins"] if how == "flag" else []
    variables = {"MPSPROBE_STRICT_PLUGINS": "1"} if how == "variable" else {}
    result = run_cli(
        *arguments, "workloads", "list", plugin_folders=[tmp_path], variables=variables, cwd=tmp_path, process=False
    )
    assert result.code == 2
    assert result.stdout == ""
    assert "broken 1.0" in result.stderr


@pytest.mark.parametrize("how", ["flag", "variable", "file"])
def test_a_plugin_is_switched_off_before_its_import(tmp_path: Path, how: str) -> None:
    install_plugin(tmp_path, "loud", "open('imported', 'w')")
    (tmp_path / "pyproject.toml").write_text(
        "[tool.mpsprobe]\ndisable-plugins = ['loud']\n" if how == "file" else "[tool]\n"
    )
    arguments = ["-p", "no:loud"] if how == "flag" else []
    variables = {"MPSPROBE_DISABLE_PLUGINS": "loud"} if how == "variable" else {}
    result = run_cli(
        *arguments, "plugins", "list", plugin_folders=[tmp_path], variables=variables, cwd=tmp_path, process=False
    )
    assert result.code == 0
    assert not (tmp_path / "imported").exists()


@pytest.mark.parametrize("value", ["loud", "no:", "yes:loud"])
def test_a_switch_of_another_form_is_refused(value: str) -> None:
    result = run_cli("-p", value, "plugins", "list", process=False)
    assert result.code == 2
    assert "is not of the form no:NAME" in result.stderr
