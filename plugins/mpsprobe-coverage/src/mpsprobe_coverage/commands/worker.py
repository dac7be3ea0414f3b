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
from mpsprobe_coverage.cache.watching import Watch
from mpsprobe_coverage.commands.instant import Question
from mpsprobe_coverage.commands.judge import judged


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
    earlier: Watch | None = None  # around the last function of a user's file
    for line in sys.stdin:
        one = json.loads(line)
        question = Question.of_data(one["question"])
        result, watch = judge(question, options, asked["targets"], asked["explain"], earlier)
        earlier = watch if question.own and watch is not None else earlier
        write_atomically(one["path"], result.model_dump_json())
        print("done", file=answers, flush=True)
    return 0


def judge(
    question: Question, options: RunOptions, targets: Sequence[str], explain: bool, earlier: Watch | None
) -> tuple[JudgedWorkload, Watch | None]:
    """The row of one workload, and what it read; whatever it raises is in the row."""
    started = time.monotonic()
    found: dict[str, Any]
    watch: Watch | None = None
    try:
        with question.watched(earlier) as watch:
            report: Any = judged(question.workload, options, targets, explain, SilentProgress())
        question.keep(report, watch)
        found = {"report": report}
    except MpsprobeError as error:
        found = {"error": error.message, "hint": error.hint}
    except BaseException as error:  # noqa: BLE001 - one workload of many; Ctrl-C does not come here
        found = {"error": f"{type_name(error)}: {first_line(error)}"}
    return JudgedWorkload(name=question.workload, seconds=time.monotonic() - started, **found), watch


if __name__ == "__main__":
    sys.exit(main())
