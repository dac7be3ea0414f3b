"""Runs the blocks of a page that are to be run, and compares what they print."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

from tests.docs.pages import CACHED, EXAMPLES, Block, typed
from tests.forking import run_command, run_module, run_python, run_script

PROGRAMS = {"mpsprobe", "python", "cat", "ls"}
VARIABLES = {"COLUMNS": "100", "PYTHONUTF8": "1", "OMP_NUM_THREADS": "1", "PYTEST_ADDOPTS": "-p no:randomly"}
"""The tests of a page run in its order."""
CALL = "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))"


def play(story: list[Block], folder: Path) -> None:
    """Write the files of ``story`` into ``folder``, next to the examples, and run its blocks there in order."""
    shutil.copytree(EXAMPLES, folder, ignore=shutil.ignore_patterns("__pycache__", "mpsprobe-*"))
    for block in story:
        if (name := block.value("file")) is not None:
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.text + "\n", encoding="utf-8")
        elif block.language == "python":
            ended = run_python(block.text, cwd=folder, variables=VARIABLES)
            assert ended.code == 0, f"{block.place}: {ended.stderr}"
        else:
            _run(block, folder)


def _run(block: Block, folder: Path) -> None:
    wanted = list(typed(block))
    assert wanted, f"{block.place} has no command"
    own = {"XDG_CACHE_HOME": str(folder / "cache"), "MPSPROBE_NO_CACHE": "0"} if CACHED in block.words else {}
    for one in wanted:
        words = shlex.split(one.line)
        variables = VARIABLES | own
        while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
            name, _, variables[name] = words.pop(0).partition("=")
        assert words and words[0] in PROGRAMS, f"{block.place}: {one.line} cannot be run"
        how = {"cwd": folder, "variables": variables, "together": True}
        if words[0] == "mpsprobe":
            ended = run_command(*words[1:], **how)
        elif words[0] == "python":
            ended = run_module(*words[2:], **how) if words[1] == "-m" else run_script(*words[1:], **how)
        else:
            ended = run_python(CALL, *words, **how)
        assert ended.code == one.code, f"{block.place}: {one.line}\n{ended.stdout}"
        assert_in_order(one.printed, ended.stdout)


def assert_in_order(said: str, printed: str) -> None:
    """Each part of ``said`` between ``…`` occurs in ``printed``, one after the other; runs of blanks count as one."""
    rest = " ".join(printed.split())
    for part in said.split("…"):
        if wanted := " ".join(part.split()):
            before, found, rest = rest.partition(wanted)
            assert found, f"'{wanted}' is not in: {before}"
