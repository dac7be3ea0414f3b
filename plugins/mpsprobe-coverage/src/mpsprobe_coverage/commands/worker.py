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
from typing import Any

from mpsprobe.answers.lookup import keep
from mpsprobe.answers.question import Question
from mpsprobe.errors import MpsprobeError
from mpsprobe.output import write_atomically
from mpsprobe.progress import SilentProgress
from mpsprobe.protocols import RunOptions
from mpsprobe.schemas import JudgedWorkload
from mpsprobe.suggestions import first_line, type_name
from mpsprobe_coverage.commands.judge import Judging, judged
from mpsprobe_coverage.commands.options import TORCH


def main() -> int:
    """Judge until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to every process; the parent ends this one
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what models print is no answer
    shared = json.loads(sys.stdin.readline())
    options, cached = shared.pop("asked")
    judging = Judging(**{**shared, "options": RunOptions(**shared["options"])})
    if judging.framework == TORCH and judging.options.backend == RunOptions().backend:
        importlib.import_module("torch")  # most of what a start takes
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        wanted = json.loads(line)
        question = Question("coverage", wanted["workload"], options, cached=cached)
        write_atomically(wanted["path"], judge(question, judging).model_dump_json())
        print("done", file=answers, flush=True)
    return 0


def judge(question: Question, judging: Judging) -> JudgedWorkload:
    """The row of one workload; whatever it raises is in the row."""
    started = time.monotonic()
    row: dict[str, Any]
    try:
        report = judged(question.workload, judging, SilentProgress())
        keep(question, report)
        row = {"report": report}
    except MpsprobeError as error:
        row = {"error": error.message, "hint": error.hint}
    except BaseException as error:  # noqa: BLE001 - one workload of many; Ctrl-C does not come here
        row = {"error": f"{type_name(error)}: {first_line(error)}"}
    return JudgedWorkload(name=question.workload, seconds=time.monotonic() - started, **row)


if __name__ == "__main__":
    sys.exit(main())
