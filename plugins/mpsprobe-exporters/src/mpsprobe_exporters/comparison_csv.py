"""A comparison as rows: one for each quantity, operator, fallback and verdict that was compared."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from mpsprobe_exporters.profile_rows import KEY
from mpsprobe_exporters.reports.comparison import failure_lines

if TYPE_CHECKING:
    from mpsprobe.schemas import ComparisonReport, ConfigurationKey

MEASURED = ("name", "unit", "old", "new", "ratio", "low", "high", "test", "samples", "old_count", "new_count")
QUANTITY = (*MEASURED, "p_value", "adjusted_p_value", "difference", "regression", "note")
COLUMNS = (*KEY, "release", "kind", *QUANTITY)


def rows(report: ComparisonReport) -> Iterable[tuple[object, ...]]:
    """The header, then what was compared. ``release`` is of a matrix; ``difference`` of verdicts is ``worse``, …"""
    yield COLUMNS
    for cell in report.cells:
        for one in cell.quantities:
            yield _row(cell, kind=one.quantity, **{name: getattr(one, name) for name in QUANTITY})
        for operator in cell.operators:
            shared = {"kind": "operator", "name": operator.operator}
            difference = "not tested" if operator.presence == "both" else operator.presence
            for unit, old, new, ratio in (
                ("calls", operator.old_calls, operator.new_calls, None),
                ("ns", operator.old_ns, operator.new_ns, operator.ratio),
            ):
                note = f"self time in one step, {operator.clock}" if unit == "ns" else "in one step"
                yield _row(cell, **shared, unit=unit, old=old, new=new, ratio=ratio, difference=difference, note=note)
        for left in cell.fallbacks:
            shared = {"kind": "fallback", "name": left.operator, "difference": left.presence}
            yield _row(cell, **shared, old=left.old_verdict, new=left.new_verdict, regression=left.regression)
            for unit in ("calls", "ns", "bytes"):
                old, new = getattr(left, f"old_{unit}"), getattr(left, f"new_{unit}")
                if old is not None or new is not None:
                    yield _row(cell, **shared, unit=unit, old=old, new=new)
        if cell.old_failure is not None or cell.new_failure is not None:
            failures = (cell.old_failure, cell.new_failure)
            old_end, new_end = ("" if one is None else f"{one.error}: {one.message}" for one in failures)
            yield _row(cell, kind="failure", old=old_end, new=new_end, regression=cell.regression)
    for lonely in report.unpaired:
        yield _row(lonely, kind="unpaired", difference=lonely.presence)
    yield from _coverage(report)
    for condition in report.conditions:
        yield _row(None, kind="condition", name=condition.what, old=condition.old, new=condition.new)


def _coverage(report: ComparisonReport) -> Iterable[tuple[object, ...]]:
    for one in report.verdicts:
        fields = {"release": one.release, "old": one.old, "new": one.new, "difference": one.change}
        yield _row(None, kind="verdict", name=one.operator, regression=one.regression, **fields)
    for known in report.advisories:
        fields = {"release": known.release, "difference": known.presence, "note": known.title}
        yield _row(None, kind="advisory", name=known.id, regression=known.regression, **fields)
    for failure, line in zip(report.failures, failure_lines(report), strict=False):
        yield _row(None, kind="failure", release=failure.release, regression=failure.regression, note=line)


def _row(key: ConfigurationKey | None, **fields: Any) -> tuple[object, ...]:
    """Values in the order of ``COLUMNS``; empty where there is none."""
    found = {**({name: getattr(key, name) for name in KEY} if key is not None else {}), **fields}
    return tuple(map(found.get, COLUMNS))
