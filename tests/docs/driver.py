"""Runs commands one after the other in one process: ``python driver.py`` with a list of them on standard input.

``mpsprobe`` is called as its script calls it, in this process, so that torch is imported once for a block and not for
each line; everything else is a process of its own. Written to standard output as JSON: exit code and output of each.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import Any


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


if __name__ == "__main__":
    answers = os.dup(1)
    asked = json.load(sys.stdin)
    found = [_captured(one) for one in asked]
    os.write(answers, json.dumps(found).encode())
