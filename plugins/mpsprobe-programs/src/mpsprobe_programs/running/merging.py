"""One report of a program and of the processes that it started (``accelerate launch``, workers of multiprocessing)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any, TypeVar

from mpsprobe.schemas import SEVERITY, CoverageReport, OperatorFinding, ProgramInfo
from mpsprobe.schemas.record import Record

_ADDED = ("calls", "input_bytes", "output_bytes", "data_bytes")
_COUNTED = ("phases", "composed_by")
_UNITED = ("dtypes", "shapes", "modules", "call_sites", "operators")
_Of = TypeVar("_Of", bound=Record)


def merge(reports: Sequence[CoverageReport]) -> CoverageReport:
    """What all processes did, in the frame of the first report.

    Args:
        reports: at least one; of one run of a program, so for the same device and release.
    """
    if len(reports) == 1:
        return reports[0]
    from mpsprobe_coverage.scanner.findings import SHAPES_SHOWN, summarise  # imports torch

    first = reports[0]
    workloads = [one.workload for one in reports]
    operators = _merged((one.operators for one in reports), _finding)
    operators.sort(key=lambda one: (-SEVERITY[one.verdict], -one.calls, one.operator))
    operators = [one.model_copy(update={"shapes": one.shapes[:SHAPES_SHOWN]}) for one in operators]
    advisories = _merged((one.advisories for one in reports), lambda match: match.id)
    sizes = [one.summary.parameters_bytes for one in reports if one.summary.parameters_bytes is not None]
    update = {
        "workload": first.workload.model_copy(
            update={
                "architecture": ", ".join(_distinct(one.architecture for one in workloads if one.architecture)),
                "dtype": ", ".join(_distinct(part for one in workloads for part in one.dtype.split(", ") if part)),
                # Workers mostly hold copies of one model.
                "parameters": max(one.parameters for one in workloads),
                "notes": _distinct(note for one in workloads for note in one.notes),
            }
        ),
        "summary": summarise(operators, max(sizes, default=None), advisories=len(advisories)),
        "operators": operators,
        "not_judged": _merged((one.not_judged for one in reports), lambda note: (note.operator, note.reason)),
        "data_dependence": _merged(
            (one.data_dependence for one in reports), lambda note: (note.operator, note.assumed)
        ),
        "first_refused_tensor": next((one.first_refused_tensor for one in reports if one.first_refused_tensor), None),
        "macos_conditions": _merged((one.macos_conditions for one in reports), lambda one: (one.macos, one.what)),
        "advisories": advisories,
        # What ended a worker is the cause of what ended the program that waited for it.
        "failure": next((one.failure for one in reversed(reports) if one.failure), None),
        "program": _program([one.program for one in reports if one.program is not None]),
    }
    return first.model_copy(update=update)


def _program(programs: Sequence[ProgramInfo]) -> ProgramInfo:
    update = {
        "stayed_on_cpu": _merged((one.stayed_on_cpu for one in programs), lambda one: (one.module, one.call_site)),
        "computed_on_cpu": _merged((one.computed_on_cpu for one in programs), lambda one: one.call_site),
        "threads": sum(one.threads for one in programs),
        "cuda": _merged((one.cuda for one in programs), lambda hint: (hint.what, hint.instead)),
        "notes": _distinct(note for one in programs for note in one.notes),
    }
    return programs[0].model_copy(update=update)


def _finding(one: OperatorFinding) -> object:
    return one.operator, one.verdict, one.reason, one.source, one.evidence, one.native_since, one.needs_macos


def _merged(lists: Iterable[Iterable[_Of]], key: Callable[[_Of], object]) -> list[_Of]:
    """The records of all lists, those with the same key as one."""
    groups: dict[object, list[_Of]] = {}
    for one in (record for records in lists for record in records):
        groups.setdefault(key(one), []).append(one)
    return [reduce(_added, group) for group in groups.values()]


def _added(one: _Of, other: _Of) -> _Of:
    update: dict[str, Any] = {}
    for name in type(one).model_fields.keys() & {*_ADDED, *_COUNTED, *_UNITED}:
        mine, others = getattr(one, name), getattr(other, name)
        if name in _ADDED:
            update[name] = mine + others
        elif name in _COUNTED:
            update[name] = dict(Counter(mine) + Counter(others))
        else:
            update[name] = _distinct([*mine, *others])
    return one.model_copy(update=update)


def _distinct(items: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(items))
