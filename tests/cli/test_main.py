"""The process and the main group: exit codes, what a user sees when something goes wrong, missing commands."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import mpsprobe
from mpsprobe.cli.main import _make_printable, main
from mpsprobe.streams import ReaderGone, write_stdout
from mpsprobe_devkit.testing import CommandResult, install_plugin, run_cli
from mpsprobe_devkit.testing.commands import command_environment, command_path
from tests.thin import thin

COMMAND = thin(commands="[CommandDeclaration('probe-me', 'probe_me_command:command', 'A command made for a test.')]")
BODY = """
import signal, time
import click
from mpsprobe.errors import WorkloadError
from mpsprobe.output import write_stdout

@click.command()
@click.option("--times", type=int, default=1)
@click.option("--words", "-w", "said", multiple=True)
@click.option("--fail")
def command(times, said, fail):
    if fail == "own":
        raise WorkloadError("no such thing", "Do this.")
    if fail == "bug":
        raise ZeroDivisionError("by zero")
    if fail == "findings":
        click.get_current_context().exit(1)
    if fail and fail.startswith("exit"):
        raise SystemExit({"exit": None, "exit-1": 1, "exit-text": "stopped"}[fail])
    if fail == "interrupt":
        signal.raise_signal(signal.SIGINT)
        time.sleep(60)
    for _ in range(times):
        write_stdout(" ".join(said) or "line")
    return 5
"""
BUG = """\
Error: the command 'probe-me' of probe-me 1.0 failed: ZeroDivisionError: by zero
This is for the authors of probe-me. With --debug or MPSPROBE_DEBUG=1 it shows where.
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    install_plugin(tmp_path, "probe-me", COMMAND, modules={"probe_me_command.py": BODY})
    return tmp_path


def _run(folder: Path, *arguments: str, **variables: str) -> CommandResult:
    return run_cli(*arguments, plugin_folders=[folder], cwd=folder, variables=variables, process=False)


def _settings(folder: Path, text: str) -> None:
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")


def test_version() -> None:
    result = run_cli("--version")
    assert (result.code, result.stdout) == (0, f"mpsprobe, version {mpsprobe.__version__}\n")


def test_exit_codes_and_messages(folder: Path) -> None:
    for fail, code, stderr in (
        ("own", 2, "Error: no such thing\nDo this.\n"),
        ("bug", 2, BUG),
        ("findings", 1, ""),
        ("exit", 0, ""),
        ("exit-1", 1, ""),
        ("exit-text", 2, "Error: stopped\n"),
        ("none", 0, ""),
    ):
        result = _run(folder, "probe-me", "--fail", fail)
        assert (result.code, result.stderr) == (code, stderr)
        assert result.stdout == ("line\n" if fail == "none" else "")


def test_a_bug_of_our_own_is_told_as_one(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("mpsprobe.cli.plugins.aligned", lambda rows, width: 1 / 0)
    assert main(["-p", "no:*", "plugins", "list"]) == 2
    assert capsys.readouterr().err == (
        "Error: unexpected ZeroDivisionError: division by zero\n"
        "This is a bug. With --debug or MPSPROBE_DEBUG=1 it shows where.\n"
    )


def test_a_second_call_in_one_process_has_its_own_flags(tmp_path: Path) -> None:
    assert run_cli("--debug", "plugins", "list", "-x", process=False).code == 2
    _settings(tmp_path, "[tool.mpsprobe")
    assert "Traceback" not in run_cli("plugins", "list", cwd=tmp_path, process=False).stderr


def test_debug_shows_where(folder: Path) -> None:
    by_flag = _run(folder, "--debug", "probe-me", "--fail", "own")
    by_variable = _run(folder, "probe-me", "--fail", "bug", MPSPROBE_DEBUG="1")
    for result in (by_flag, by_variable):
        assert result.code == 2 and "Traceback" in result.stderr and "probe_me_command.py" in result.stderr


def test_flags_come_before_variables_before_the_file_before_defaults(folder: Path) -> None:
    def said(*arguments: str, **variables: str) -> list[str]:
        result = _run(folder, "probe-me", *arguments, **variables)
        assert result.code == 0, result.stderr
        return result.stdout.splitlines()

    assert said(MPSPROBE_PROBE_ME_SAID="the parameter, not the flag") == ["line"]
    table = "[tool.mpsprobe.not-installed]\nx = 1\n[tool.mpsprobe.probe-me]\ntimes = 2\n"
    _settings(folder, table + "words = ['in', 'the file']")
    assert said() == ["in the file"] * 2
    assert said(MPSPROBE_PROBE_ME_TIMES="3", MPSPROBE_PROBE_ME_WORDS="variable") == ["variable"] * 3
    assert said("--times", "4", MPSPROBE_PROBE_ME_TIMES="3") == ["in the file"] * 4
    _settings(folder, table + "words = 'one'")
    assert said() == ["one"] * 2


def test_a_wrong_setting_is_a_clear_error(folder: Path) -> None:
    for text, problem in (
        ("[tool.mpsprobe.probe-me]\ntime = 2", "unknown setting tool.mpsprobe.probe-me.time\nDid you mean 'times'?"),
        ("[tool.mpsprobe.probe-me]\ntimes = 'many'", "'many' is not a valid integer"),
        ("[tool.mpsprobe]\nstrict-plugin = true", "tool.mpsprobe.strict-plugin\nDid you mean 'strict-plugins'?"),
        ("[tool.mpsprobe]\ndisable-plugins = 'x'", "should be a list of names"),
        ("[tool.mpsprobe", "is not valid TOML"),
    ):
        _settings(folder, text)
        result = _run(folder, "probe-me")
        assert result.code == 2 and problem in result.stderr and "Traceback" not in result.stderr


def test_ctrl_c_is_quiet(folder: Path) -> None:
    result = run_cli("probe-me", "--fail", "interrupt", plugin_folders=[folder])
    assert (result.code, result.stdout, result.stderr.strip()) == (130, "", "")


def _process(folder: Path, *arguments: str, encoding: str | None = None, **streams: Any) -> Any:
    variables = {} if encoding is None else {"PYTHONIOENCODING": encoding}
    environment = command_environment(variables, plugin_folders=[folder])
    return subprocess.run([command_path(), *arguments], env=environment, check=False, **streams)


@pytest.mark.parametrize("line", ["probe-me", "probe-me --times 100000", "--help"])
def test_a_closed_pipe_is_quiet(folder: Path, line: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing) as gone:
        finished = _process(folder, *line.split(), stdout=gone, stderr=subprocess.PIPE)
    assert (finished.returncode, finished.stderr) == (141, b"")


@pytest.mark.parametrize("command", ["probe-me", "--help", "--nosuch"])
def test_full_disks_behind_the_outputs(command: str, folder: Path) -> None:
    full = Path("/dev/full")
    if not full.exists():  # a device of Linux only; elsewhere the error is made by a closed stream
        full = folder / "probe_me_plugin.py"
    with full.open("r" if full.is_file() else "w") as nowhere:
        finished = _process(folder, command, stdout=nowhere, stderr=subprocess.PIPE)
        silent = _process(folder, command, stdout=nowhere, stderr=nowhere)
    assert (finished.returncode, silent.returncode) == (2, 2)
    problem = b"unknown option" if command == "--nosuch" else b"cannot write to standard output"
    assert (finished.stderr.count(b"Error: "), problem in finished.stderr) == (1, True)
    assert b"Exception ignored" not in finished.stderr


class _ShortWrites(io.RawIOBase):
    """What `python -u` writes to: a write may take a part only. Its reader goes after ``room`` bytes."""

    def __init__(self, room: int) -> None:
        self.taken, self._room = b"", room

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if len(self.taken) >= self._room:
            raise BrokenPipeError
        part = bytes(data[:1000])
        self.taken += part
        return len(part)


def test_unbuffered_output_is_whole_or_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = _ShortWrites(room=25_000)
    stdout = io.TextIOWrapper(raw, "utf-8", newline="\n", write_through=True)  # type: ignore[type-var]
    monkeypatch.setattr(sys, "stdout", stdout)
    _make_printable()
    write_stdout("x" * 20_000)
    assert raw.taken == b"x" * 20_000 + b"\n"
    with pytest.raises(ReaderGone):
        write_stdout("y" * 20_000)
    raw._room = 1 << 20  # what is left in the buffer goes when it is collected


@pytest.mark.parametrize("call", ["os._exit(0)", "sys.modules[os.name]._exit(0)", "os.execl(sys.executable, 'python')"])
def test_a_plugin_that_ends_the_process_gets_a_line(tmp_path: Path, call: str) -> None:
    install_plugin(tmp_path, "probe-end", f"import os, sys\n{call}\n")
    result = run_cli("plugins", "list", plugin_folders=[tmp_path])
    assert result.code == 2 and "was to end the command" in result.stderr and "probe_end" in result.stderr


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8"])
def test_no_character_breaks_the_output(folder: Path, encoding: str) -> None:
    finished = _process(folder, "probe-me", "--words", "✓ 日本", encoding=encoding, capture_output=True)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.strip() == "✓ 日本".encode(encoding, "replace")


DIVIDES = """
import click

@click.command()
@click.option('--size', type=int)
def command(size): print(7 // size)
"""


def _declares(name: str, target: str) -> str:
    return thin(commands=f"[CommandDeclaration({name!r}, {target!r}, 'Help line of {name}.')]")


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


def test_an_unknown_command_gets_the_nearest_one() -> None:
    for typed, near in (("exprot", "export"), ("WORKLOADS", "workloads")):
        result = run_cli(typed, process=False)
        problem = f"Error: unknown command '{typed}'; did you mean '{near}'?"
        assert (result.code, result.stderr) == (2, f"{problem}\nmpsprobe --help lists all.\n")


@pytest.mark.parametrize(
    ("line", "problem", "hint"),
    [
        (
            "plugins list --jsn",
            "unknown option '--jsn'; did you mean '--json'?",
            "mpsprobe plugins list --help shows them",
        ),
        ("profile --lroa 3", "unknown option '--lroa'; did you mean '--lora'", "mpsprobe profile --help-all shows"),
        ("--nosuch", "unknown option '--nosuch'", "mpsprobe --help shows them all."),
        ("plugins list --debug", "'mpsprobe plugins list' has no option '--debug'", "It stands before the command: "),
        ("plugins list x", "got unexpected extra argument (x)", "Usage: mpsprobe plugins list [OPTIONS]"),
        ("diff one.json", "missing argument 'NEW'", "Usage: mpsprobe diff [OPTIONS] OLD NEW"),
        ("profile --dtype", "option '--dtype' requires an argument", "--help after the command"),
        ("profile --lora=3", "option '--lora' does not take a value", "--help after the command"),
        ("--plugins-dir none plugins list", "--plugins-dir: directory 'none' does not exist", "--plugins-dir DIR: "),
        ("profile x --dtype fp61", "unknown dtype 'fp61'", "There are: float32, float16, bfloat16."),
        ("completion tcsh", "unknown shell 'tcsh'", "There are: bash, zsh, fish."),
    ],
)
def test_wrong_use_has_two_lines(line: str, problem: str, hint: str) -> None:
    result = run_cli(*line.split(), process=False)
    problem_line, remedy = result.stderr.splitlines()
    assert (result.code, result.stdout) == (2, "")
    assert problem_line.startswith(f"Error: {problem}") and remedy.startswith(hint)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_completion_asks_mpsprobe(shell: str) -> None:
    result = run_cli("completion", shell, process=False)
    assert (result.code, result.stderr) == (0, "")
    assert f"_MPSPROBE_COMPLETE={shell}_complete" in result.stdout and "_mpsprobe_completion" in result.stdout


LONG = """
import click
from mpsprobe.commands import Command
from mpsprobe.options import often, rare

@click.command(cls=Command, help='What it does.\\n\\f\\nMore of it.')
@rare('One', '--deep', type=int, default=3, help='Rarely.')
@often('Two', '-w', '--wide', '--broad', help='Often\\f, and in full.')
@often('One', '--kind', shortcuts={'--best': 'good'}, help='Of it.')
def command(deep, wide, kind): print(deep, wide, kind)
"""


def test_a_command_of_many_options_shows_few_of_them_by_section(tmp_path: Path) -> None:
    install_plugin(tmp_path, "long", _declares("long", "long_command:command"), modules={"long_command.py": LONG})
    short, whole = (_run(tmp_path, "long", flag).stdout for flag in ("--help", "--help-all"))
    of_short = "  What it does.\n\nOne:\n  --kind TEXT, --best  Of it.\n\nTwo:\n  -w, --wide TEXT      Often\n\n"
    assert short.partition("\n\n")[2] == of_short + "mpsprobe long --help-all shows 3 more.\n"
    assert "More of it." in whole and "-w, --wide, --broad TEXT  Often, and in full." in whole
    assert whole.index("One:") < whole.index("--deep") < whole.index("--kind") < whole.index("Two:")
    assert "Rarely.  [default: 3]" in whole and whole.index("Two:") < whole.index("-h, --help")
    for line, said in (("--best", "3 None good"), ("--kind x --broad y", "3 y x"), ("--best --kind x", "3 None x")):
        assert _run(tmp_path, "long", *line.split()).stdout == f"{said}\n"
    assert _run(tmp_path, "long", MPSPROBE_LONG_KIND="fair").stdout == "3 None fair\n"


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
