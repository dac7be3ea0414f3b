"""Runs the commands of blocks: reads a line of JSON for each block, writes a line with exit codes and outputs.

``mpsprobe`` is called as its script calls it, everything else is a process of its own. Each block gets a fresh copy of
this process (a fork), in which torch is imported already: that takes five seconds of processor time, and what a command
prints takes a tenth of one. Without a fork (Windows, macOS, where it is not safe) the process takes one block and ends.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

LONGEST_S = 600
CAN_FORK = sys.platform == "linux"
WARM_UP = "import torch\n\n\ndef make():\n    return torch.nn.Linear(2, 2), torch.ones(1, 2)\n"


def _run(program: str, arguments: list[str]) -> int:
    if program != "mpsprobe":
        program = sys.executable if program == "python" else program
        return subprocess.run([program, *arguments], stdin=subprocess.DEVNULL, check=False).returncode
    from mpsprobe.cli.main import main

    return main(arguments)


def _captured(command: dict[str, Any]) -> dict[str, Any]:
    """Run one with both outputs in one file, as a terminal shows them."""
    before = dict(os.environ)
    os.environ.update(command["variables"])
    with tempfile.TemporaryFile() as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
        try:
            code = _run(command["program"], command["arguments"])
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os.environ.clear()
            os.environ.update(before)
        file.seek(0)
        return {"code": code, "output": file.read().decode("utf-8", "replace")}


def _block(asked: dict[str, Any], answers: int) -> None:
    os.chdir(asked["folder"])
    found = [_captured(one) for one in asked["commands"]]
    with os.fdopen(os.dup(answers), "w", encoding="utf-8") as pipe:
        pipe.write(json.dumps(found) + "\n")


def _serve(answers: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        here = Path.cwd()
        Path(folder, "warm_up.py").write_text(WARM_UP, encoding="utf-8")
        line = {"program": "mpsprobe", "variables": {}}
        arguments = ["coverage", "warm_up.py:make", "--torch", "2.13.0", "-o", "warm_up.html"]
        os.chdir(folder)
        _captured({**line, "arguments": arguments})
        os.chdir(here)
    for asked in sys.stdin:
        child = os.fork()
        if child == 0:
            signal.alarm(LONGEST_S)
            _block(json.loads(asked), answers)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status:  # the block ended the process: said as a line too, or whoever asked would wait for ever
            os.write(answers, json.dumps({"ended": os.waitstatus_to_exitcode(status)}).encode() + b"\n")


if __name__ == "__main__":
    kept = os.dup(1)
    if CAN_FORK:
        _serve(kept)
    else:
        _block(json.loads(sys.stdin.readline()), kept)
