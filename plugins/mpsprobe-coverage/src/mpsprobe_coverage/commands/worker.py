"""A process of ``mpsprobe coverage --workloads``: judges one workload after the other, as its parent asks.

Its standard input has lines of JSON: the options of all, then for each a name and the file for its result. To its
standard output it writes a line when it is ready, and one for each file that it has written; nothing else is printed
there.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from typing import Any

from mpsprobe.errors import MpsprobeError
from mpsprobe.output import write_atomically
from mpsprobe.progress import SilentProgress
from mpsprobe.protocols import RunOptions
from mpsprobe.schemas import JudgedWorkload
from mpsprobe.suggestions import first_line, type_name
from mpsprobe_coverage.commands.coverage import judged


def main() -> int:
    """Judge until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to every process; the parent ends this one
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what models print is no answer
    asked = json.loads(sys.stdin.readline())
    options = RunOptions(**asked["options"])
    if options.backend == RunOptions().backend:
        importlib.import_module("torch")  # most of what a start takes
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        one = json.loads(line)
        result = judge(one["name"], options, asked["targets"], asked["explain"])
        write_atomically(one["path"], result.model_dump_json())
        print("done", file=answers, flush=True)
    return 0


def judge(name: str, options: RunOptions, targets: Sequence[str], explain: bool) -> JudgedWorkload:
    """The row of one workload; whatever it raises is in it."""
    started = time.monotonic()
    found: dict[str, Any]
    try:
        found = {"report": judged(name, options, targets, explain, SilentProgress())}
    except MpsprobeError as error:
        found = {"error": error.message, "hint": error.hint}
    except (Exception, SystemExit) as error:  # noqa: BLE001 - one workload of many
        found = {"error": f"{type_name(error)}: {first_line(error)}"}
    return JudgedWorkload(name=name, seconds=time.monotonic() - started, **found)


if __name__ == "__main__":
    sys.exit(main())
