"""A process of ``mpsprobe coverage --workloads``: judges one workload after the other, as its parent asks."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from typing import Any

from mpsprobe.answers.lookup import keep
from mpsprobe.answers.question import Question
from mpsprobe.errors import MpsprobeError
from mpsprobe.progress import SilentProgress
from mpsprobe.protocols import RunOptions
from mpsprobe.schemas import JudgedWorkload
from mpsprobe.suggestions import first_line, type_name
from mpsprobe_coverage.commands.judge import Judging, judged
from mpsprobe_coverage.commands.options import TORCH
from mpsprobe_coverage.pool import serve


def prepared(shared: dict[str, Any]) -> Callable[[str], str]:
    """What answers the name of a workload with its row, as JSON."""
    options, cached, around = shared.pop("asked")
    judging = Judging(**{**shared, "options": RunOptions(**shared["options"])})
    if judging.framework == TORCH and judging.options.backend == RunOptions().backend:
        importlib.import_module("torch")  # most of what a start takes

    def row(name: str) -> str:
        question = Question("coverage", name, options, cached=cached)
        question.around = around  # as the parent will ask again: its path has the folder of its script
        return judge(question, judging).model_dump_json()

    return row


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
    serve(prepared)
