"""``mpsprobe coverage --workloads FILE``: several workloads, judged by processes side by side, as one report."""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from mpsprobe.answers.lookup import find, keep
from mpsprobe.answers.question import Question
from mpsprobe.environment import check_version, collect_environment
from mpsprobe.errors import MpsprobeError, PluginError, UsageError
from mpsprobe.plugins.registry import Registry
from mpsprobe.progress import SilentProgress
from mpsprobe.protocols import RunOptions
from mpsprobe.schemas import CoverageReport, JudgedWorkload, MatrixReport, SeveralReport
from mpsprobe.suggestions import first_line, printable, type_name
from mpsprobe_coverage.commands.judge import Judging, judged
from mpsprobe_coverage.commands.options import TORCH, WILD, is_pattern
from mpsprobe_coverage.pool import Limits, Pool, raise_where_out_of_memory, serve

MOST_JOBS = 4
"""Processes without ``--jobs``: each has PyTorch in its memory, about half a GB, and more for a large model."""
EACH = 25
"""Workloads that one process judges before a new one takes over, which has none of their memory."""
_MODULE = "mpsprobe_coverage.commands.several"


def usual_jobs() -> int:
    """The number of processes where nobody says one."""
    return max(1, min(MOST_JOBS, os.cpu_count() or 1))


def names(typed: Sequence[str], files: Sequence[str], registry: Registry) -> list[str]:
    """Every workload that is asked for, once, in order.

    Args:
        typed: names and patterns.
        files: with one of them in each line, and comments after ``#``.

    Raises:
        UsageError: a file cannot be read or names nothing, or nothing fits a pattern.
    """
    asked = [*typed, *(line for path in files for line in _lines(path))]
    return list(dict.fromkeys(fitting for name in asked for fitting in _fitting(name, registry)))


def _lines(path: str) -> Iterator[str]:
    shown = printable(path)
    try:
        if Path(path).is_char_device():  # which may never end
            raise UsageError(f"{shown} is a device, not a file", "--workloads takes a file of names.")
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"cannot read {shown}: {error.strerror}", "--workloads takes a file of names.") from error
    except ValueError as error:
        raise UsageError(f"{shown} is not text", "--workloads takes a file with a name in each line.") from error
    lines = [line.strip() for line in text.splitlines()]
    kept = [line.partition(" #")[0].strip() for line in lines if line and not line.startswith("#")]
    if not kept:
        raise UsageError(f"{shown} names no workload", "Write a name in each line; a comment begins with #.")
    yield from kept


def _fitting(name: str, registry: Registry) -> list[str]:
    if not is_pattern(name):
        return [name]
    space, colon, _ = name.partition(":")
    known = registry.workload_space(space) if colon and not WILD.intersection(space) else registry.workloads()
    known = known or {}
    parts = (
        (f"{declaration.name}/{part}" for declaration in known.values() for part in declaration.parts)
        if "/" in name
        else ()
    )
    fitting = [part for part in (*known, *parts) if fnmatchcase(part, name)]
    if not fitting:
        hint = "A pattern is for names of 'mpsprobe workloads list' and 'list --hf'; others are named one by one."
        raise UsageError(f"no workload fits '{printable(name)}'", hint)
    return fitting


def judge(
    asked: Sequence[Question], judging: Judging, atlas: bool | None, jobs: int, timeout: int, progress: SilentProgress
) -> SeveralReport:
    """The report on all of ``asked``; after Ctrl-C on those that are done.

    Args:
        atlas: as ``find`` takes it.
        jobs: processes side by side.
        timeout: seconds that one workload may take.
    """
    for question in asked:
        question.around = asked[0].around
    found_before: dict[int, JudgedWorkload] = {}
    for index, question in enumerate(asked):
        if (row := _known(question, atlas)) is not None:
            found_before[index] = row
    left = [index for index in range(len(asked)) if index not in found_before]
    rows = found_before | (_worked_out(asked, left, judging, jobs, timeout, progress) if left else {})
    rows_there = [rows[index] for index in range(len(asked)) if index in rows]
    made = next((row.report.environment for row in rows_there if row.report is not None), None)
    return SeveralReport(
        environment=made or collect_environment(), workloads=rows_there, complete=len(rows_there) == len(asked)
    )


def _known(question: Question, atlas: bool | None) -> JudgedWorkload | None:
    """The row of a workload whose answer is known, or whose answer nobody can find out here."""
    try:
        answer = find(question, atlas)
        report = answer.report() if answer is not None else None
    except PluginError:
        raise
    except MpsprobeError as error:
        return JudgedWorkload(name=question.workload, error=error.message, hint=error.hint)
    if not isinstance(report, (CoverageReport, MatrixReport)):
        return None
    return JudgedWorkload(name=question.workload, report=report)


def _worked_out(
    asked: Sequence[Question], left: Sequence[int], judging: Judging, jobs: int, timeout: int, progress: SilentProgress
) -> dict[int, JudgedWorkload]:
    """The rows of those numbered in ``left``; after Ctrl-C of those that are done."""
    if judging.framework == TORCH:
        check_version("torch", "mpsprobe-coverage", "coverage")
    shared = {**asdict(judging), "asked": [asked[0].options, asked[0].cached, asked[0].around]}
    rows: dict[int, JudgedWorkload] = {}
    progress.start(len(left), f"judging {len(left)} workloads")
    try:
        with Pool(_MODULE, shared, Limits(timeout), min(jobs, len(left)), each=EACH) as pool:
            for answer in pool.answers([asked[index].workload for index in left]):
                name = asked[left[answer.number]].workload
                if answer.text is None:
                    row = JudgedWorkload(name=name, error=answer.error, hint=answer.hint)
                else:
                    row = JudgedWorkload.model_validate_json(answer.text)
                rows[left[answer.number]] = row
                progress.advance(f"judged {printable(name)}")
    except KeyboardInterrupt:
        pass
    finally:
        progress.stop()
    return rows


def _prepared(shared: dict[str, Any]) -> Callable[[str], str]:
    """Of a process that judges one workload after the other: what answers a name with its row, as JSON."""
    options, cached, around = shared.pop("asked")
    judging = Judging(**{**shared, "options": RunOptions(**shared["options"])})
    if judging.framework == TORCH and judging.options.backend == RunOptions().backend:
        importlib.import_module("torch")  # most of what a start takes

    def row(name: str) -> str:
        question = Question("coverage", name, options, cached=cached)
        question.around = around  # as the parent will ask again: its path has the folder of its script
        return _row(question, judging).model_dump_json()

    return row


def _row(question: Question, judging: Judging) -> JudgedWorkload:
    """The row of one workload; whatever it raises is in the row."""
    started = time.monotonic()
    row: dict[str, Any]
    try:
        report = judged(question.workload, judging, SilentProgress())
        keep(question, report)
        row = {"report": report}
    except MpsprobeError as error:
        raise_where_out_of_memory(error)
        row = {"error": error.message, "hint": error.hint}
    except BaseException as error:  # noqa: BLE001 - one workload of many; Ctrl-C does not come here
        raise_where_out_of_memory(error)
        row = {"error": f"{type_name(error)}: {first_line(error)}"}
    return JudgedWorkload(name=question.workload, seconds=time.monotonic() - started, **row)


if __name__ == "__main__":
    serve(_prepared)
