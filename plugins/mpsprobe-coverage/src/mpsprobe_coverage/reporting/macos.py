"""The macOS that a report is for, and what of a run needs a newer one than its release."""

from __future__ import annotations

from functools import cache, partial

from packaging.version import Version

from mpsprobe.errors import UsageError
from mpsprobe.schemas import MacosCondition
from mpsprobe_coverage.knowledge.judging.macos import Condition, conditions_of, first_condition
from mpsprobe_coverage.knowledge.kernels.table import KernelTable
from mpsprobe_coverage.recording.recorder import Recorder


def check_macos(text: str, table: KernelTable) -> Version:
    """``--macos`` as a version.

    Raises:
        UsageError: the release does not run on that macOS.
    """
    macos = Version(text)
    if table.macos_minimum is not None and macos < Version(table.macos_minimum):
        raise UsageError(
            f"torch {table.release} needs macOS {table.macos_minimum} or newer for MPS, not {text}",
            "Judge an older torch release with --torch, or leave --macos out.",
        )
    return macos


def conditions(recorder: Recorder, table: KernelTable) -> list[MacosCondition]:
    """What of the run needs a newer macOS than ``table``'s release itself, the newest first."""
    operators: dict[Condition, dict[str, None]] = {}
    of_operator = cache(partial(conditions_of, table=table))
    for record in recorder.calls():
        if record.judgement.verdict == "native":
            condition = first_condition(of_operator(record.operator), record.inputs, record.outputs)
            if condition is not None:
                operators.setdefault(condition, {})[record.operator] = None
    newest_first = sorted(operators, key=lambda condition: Version(condition.macos), reverse=True)
    return [MacosCondition(macos=c.macos, what=c.what, operators=list(operators[c])) for c in newest_first]
