"""The documentation tells the truth: its commands parse, those marked to run do, and links lead somewhere.

A block opened with ```` ```console run ```` is run in a copy of docs/examples. After ``$`` stands a command, whose exit
code is 0 unless a comment says ``# exits with N``; below it stand parts of what it prints, in that order, with
``…`` for anything in between.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from mpsprobe.cli.group import main_group
from mpsprobe.testing.commands import run_cli
from tests.house.tree import ROOT, files, shown

PAGES = [path for path in files() if path.suffix == ".md" and "tests" not in path.relative_to(ROOT).parts]
EXAMPLES = ROOT / "docs" / "examples"
INLINE = re.compile(r"`(mpsprobe [^`\n]+)`")
LINK = re.compile(r"\[[^\]]+\]\(([^)#\s]+)(?:#[^)]*)?\)")
EXIT = re.compile(r"#\s*exits with (\d+)")


class Run(NamedTuple):
    """One command of a page, what it is said to print, and the exit code it is said to have."""

    command: str
    printed: str
    code: int


def _blocks(page: Path) -> Iterator[tuple[str, list[str]]]:
    """(what stands after the fence, lines) of each fenced block."""
    info, lines = "", None
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("```"):
            if lines is None:
                info, lines = line[3:].strip(), []
            else:
                yield info, lines
                lines = None
        elif lines is not None:
            lines.append(line)
    assert lines is None, f"{shown(page)} has a block that is not closed"


def _runs(page: Path) -> list[list[Run]]:
    """The blocks of ``page`` that are run."""
    found = []
    for info, lines in _blocks(page):
        if info == "console run":
            parts = "\n".join(lines).split("$ ")[1:]
            found.append([_run(part) for part in parts])
    return found


def _run(part: str) -> Run:
    command, _, printed = part.partition("\n")
    code = EXIT.search(command)
    return Run(command.partition(" #")[0].strip(), printed, int(code.group(1)) if code else 0)


def _command_lines() -> list[str]:
    """Every ``mpsprobe …`` of the pages, in blocks of commands and in running text."""
    found = set()
    for page in PAGES:
        for info, lines in _blocks(page):
            if info.partition(" ")[0] in {"console", "sh", "bash", "shell"}:
                typed = (line.removeprefix("$ ") for line in lines)
                found |= {line.partition(" #")[0].strip() for line in typed if line.startswith("mpsprobe ")}
        found |= set(INLINE.findall(page.read_text(encoding="utf-8")))
    return sorted(text for text in found if not re.search(r"[…|\[<]|\b[A-Z]{2,}\b", text))


def _parse(group: click.Command, arguments: list[str], parent: click.Context | None) -> None:
    """Read ``arguments`` as the command line does, down to the last command, and run none of it."""
    with group.make_context("mpsprobe", list(arguments), parent=parent, resilient_parsing=False) as context:
        if isinstance(group, click.Group):
            rest = [*context._protected_args, *context.args]
            assert rest, "a group without a command"
            name, command, rest = group.resolve_command(context, rest)
            assert command is not None, name
            _parse(command, rest, context)


@pytest.mark.parametrize("line", _command_lines())
def test_every_command_parses(line: str) -> None:
    try:
        _parse(main_group, shlex.split(line)[1:], None)
    except click.exceptions.Exit as asked:  # --help
        assert asked.exit_code == 0
    except (click.MissingParameter, click.exceptions.NoArgsIsHelpError):
        assert len(line.split()) <= 3, "a text may name a command alone, but what looks whole should be"


def test_there_are_commands_to_look_at() -> None:
    assert len(_command_lines()) > 10
    assert sum(len(_runs(page)) for page in PAGES) > 5


@pytest.mark.parametrize("page", [page for page in PAGES if _runs(page)], ids=shown)
def test_what_a_page_runs_prints_what_it_says(page: Path, tmp_path: Path) -> None:
    for number, block in enumerate(_runs(page)):
        folder = tmp_path / str(number)
        shutil.copytree(EXAMPLES, folder, ignore=shutil.ignore_patterns("__pycache__"))
        for run in block:
            program, *arguments = shlex.split(run.command)
            if program == "python":
                ended = subprocess.run(
                    [sys.executable, *arguments],
                    cwd=folder,
                    capture_output=True,
                    text=True,
                    encoding="utf-8",
                    check=False,
                )
                code, stdout, stderr = ended.returncode, ended.stdout, ended.stderr
            else:
                assert program == "mpsprobe"
                result = run_cli(*arguments, cwd=folder, variables={"COLUMNS": "100"})
                code, stdout, stderr = result.code, result.stdout, result.stderr
            assert code == run.code, stderr
            _assert_in_order(run.printed, stdout)


def _assert_in_order(said: str, printed: str) -> None:
    """Each part of ``said`` between ``…`` occurs in ``printed``, one after the other; runs of blanks count as one."""
    rest = " ".join(printed.split())
    for part in said.split("…"):
        if wanted := " ".join(part.split()):
            before, found, rest = rest.partition(wanted)
            assert found, f"'{wanted}' is not in: {before}"


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_links_lead_somewhere(page: Path) -> None:
    targets = [target for target in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in target]
    assert not [target for target in targets if not (page.parent / target).exists()]
