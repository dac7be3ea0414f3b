"""Comma-separated values as RFC 4180 has them: one row for each operator, CRLF after each row."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mpsprobe_exporters import profile_rows
from mpsprobe_exporters.plain_text import one_line
from mpsprobe_exporters.profile_rows import KEY
from mpsprobe_exporters.reports import checkpoint, coverage, largest, matrix, memory, ranking, several, upgrade
from mpsprobe_exporters.reports.comparison import failure_lines
from mpsprobe_exporters.supported import supported_report

if TYPE_CHECKING:
    from mpsprobe.schemas import ComparisonReport, ConfigurationKey, CoverageReport
    from mpsprobe.schemas.report import Report

# What a spreadsheet takes for the start of a formula.
FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")  # the last four are the full-width ones

MEASURED = ("name", "unit", "old", "new", "ratio", "low", "high", "test", "samples", "old_count", "new_count")
QUANTITY = (*MEASURED, "p_value", "adjusted_p_value", "difference", "regression", "note")
COMPARED = (*KEY, "release", "kind", *QUANTITY)


class CsvExporter:
    """The columns of coverage or a checkpoint with a key, those of a profile or a comparison; lists joined by ``; ``.

    What is no operator stands after the operators, under a verdict of its own: ``not_judged``,
    ``data_dependence``, ``composed_otherwise``, ``advisory`` (a known wrong result), ``memory`` and ``failure``; of a
    program ``stayed_on_cpu``, ``computed_on_cpu`` and ``written_for_cuda``. A matrix has one column for each release
    instead; of several workloads the name and the release stand before each row.
    """

    def render(self, report: Report) -> str:
        """The rows, the header first.

        Raises:
            ReportError: it is of a kind that has no known schema.
        """
        read = supported_report(report, "csv")
        stream = io.StringIO(newline="")
        writer = csv.writer(stream, lineterminator="\r\n")
        if read.kind == "profile":
            rows: Iterable[tuple[object, ...]] = [profile_rows.COLUMNS, *profile_rows.rows(read)]
        elif read.kind == "comparison":
            rows = _comparison_rows(read)
        elif read.kind == "coverage-several":
            rows = several.rows(read)
        elif read.kind == "checkpoint":
            rows = checkpoint.rows(read)
        elif read.kind == "fit":
            rows = largest.rows(read)
        elif read.kind == "upgrade":
            rows = upgrade.rows(read)
        elif read.kind == "ranking":
            rows = ranking.rows(read)
        else:
            rows = _coverage_rows(read) if read.kind == "coverage" else matrix.rows(read)
        writer.writerows([_cell(value, read.kind) for value in row] for row in rows)
        return stream.getvalue()


def _coverage_rows(report: CoverageReport) -> Iterator[tuple[object, ...]]:
    keys = tuple(column.key for column in coverage.COLUMNS if column.key)
    yield keys
    yield from (tuple(map(record.get, keys)) for record in coverage.records(report))


def _comparison_rows(report: ComparisonReport) -> Iterable[tuple[object, ...]]:
    """The header, then what was compared. ``release`` is of a matrix; ``difference`` of verdicts is ``worse``, …"""
    yield COMPARED
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
    yield from _compared_coverage(report)
    for condition in report.conditions:
        yield _row(None, kind="condition", name=condition.what, old=condition.old, new=condition.new)


def _compared_coverage(report: ComparisonReport) -> Iterable[tuple[object, ...]]:
    for one in report.verdicts:
        fields = {"release": one.release, "old": one.old, "new": one.new, "difference": one.change}
        yield _row(None, kind="verdict", name=one.operator, regression=one.regression, **fields)
    for known in report.advisories:
        fields = {"release": known.release, "difference": known.presence, "note": known.title}
        yield _row(None, kind="advisory", name=known.id, regression=known.regression, **fields)
    for figure in memory.changes(report):
        difference = "larger" if figure.new > figure.old else "smaller"
        yield _row(None, kind="memory", unit="bytes", difference=difference, **figure._asdict())
    for failure, line in zip(report.failures, failure_lines(report), strict=False):
        yield _row(None, kind="failure", release=failure.release, regression=failure.regression, note=line)


def _row(key: ConfigurationKey | None, **fields: Any) -> tuple[object, ...]:
    """Values in the order of ``COMPARED``; empty where there is none."""
    found = {**({name: getattr(key, name) for name in KEY} if key is not None else {}), **fields}
    return tuple(map(found.get, COMPARED))


def _cell(value: object, kind: str) -> object:
    """Numbers as they are, of a profile without an empty fraction; text on one line, never the start of a formula."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if kind == "profile" and isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, Mapping):
        value = [f"{name}={count}" for name, count in value.items()]
    if isinstance(value, Sequence) and not isinstance(value, str):
        value = "; ".join(map(str, value))
    if not isinstance(value, str):
        return value
    text = one_line(value, None)
    return f"'{text}" if text.startswith(FORMULA) else text
