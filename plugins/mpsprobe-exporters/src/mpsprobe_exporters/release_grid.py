"""A matrix report folded: neighbouring releases that say the same, and each operator's history."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from mpsprobe.schemas import SEVERITY
from mpsprobe_exporters.answer import FINDINGS
from mpsprobe_exporters.plain_text import one_line
from mpsprobe_exporters.units import number

if TYPE_CHECKING:
    from mpsprobe.schemas import MatrixCell, MatrixReport

NATIVE = "·"
NATIVE_ONLY = "-"
NOT_REACHED = "?"
LEGENDS = {NATIVE: "· native, or not called there", NOT_REACHED: "? not met before the run stopped"}


@dataclass(frozen=True, slots=True)
class Column:
    """Neighbouring releases of which everything shown is equal; ``title`` is ``2.0.0`` or ``2.0.0-2.3.1``."""

    title: str
    cell: MatrixCell


def columns(report: MatrixReport) -> list[Column]:
    """The releases, oldest first, equal neighbours as one."""
    return [Column(_range(run), run[0]) for run in _runs(report.releases, _shown)]


def operators(report: MatrixReport) -> list[str]:
    """The operators that are not native in some release; those that are not in the newest come first."""
    last_seen: dict[str, tuple[int, int]] = {}
    for index, cell in enumerate(report.releases):
        for operator, verdict in cell.findings.items():
            last_seen[operator] = (index, SEVERITY[verdict])
    return sorted(last_seen, key=lambda operator: (-last_seen[operator][0], -last_seen[operator][1], operator))


def verdict_at(cell: MatrixCell, operator: str) -> str:
    """What to show for ``operator`` in a release: a verdict, ``·`` or ``?``."""
    return cell.findings.get(operator, NOT_REACHED if cell.failure else NATIVE)


def history(report: MatrixReport, operator: str) -> list[tuple[str, str]]:
    """The verdicts of one operator as (range of releases, verdict), oldest first."""
    runs = _runs(report.releases, lambda cell: verdict_at(cell, operator))
    return [(_range(run), verdict_at(run[0], operator)) for run in runs]


def advised(report: MatrixReport, advisory: str) -> str:
    """The releases whose calls an advisory is about, as ranges: ``2.8.0-2.9.1, 2.11.0``."""
    runs = _runs(report.releases, lambda cell: advisory in cell.advisories)
    return ", ".join(_range(run) for run in runs if advisory in run[0].advisories)


def whole_rows(columns: list[Column]) -> list[tuple[str, list[str]]]:
    """The rows about the whole workload: how many operators are native, and where the run stopped if it did."""
    rows = [("native operators", [native_count(column.cell) for column in columns])]
    if any(column.cell.failure for column in columns):
        rows.append(("run", ["stopped" if column.cell.failure else "to its end" for column in columns]))
    return rows


def native_count(cell: MatrixCell) -> str:
    """``61 of 63``: the native operators of one release."""
    return f"{number(cell.summary.operators_by_verdict.get('native', 0))} of {number(cell.summary.operators)}"


def not_native(cell: MatrixCell) -> str:
    """``2 missing, 1 fallback``; ``stopped`` where the run did not reach its end."""
    counts = cell.summary.operators_by_verdict
    parts = [f"{number(counts[verdict])} {verdict}" for verdict in FINDINGS if counts.get(verdict)]
    return ", ".join([*parts, *(["stopped"] if cell.failure else [])]) or NATIVE_ONLY


def legends(report: MatrixReport) -> list[str]:
    """What the signs in a matrix mean, those that occur."""
    signs = {verdict_at(cell, operator) for cell in report.releases for operator in operators(report)}
    return [text for sign, text in LEGENDS.items() if sign in signs]


def _shown(cell: MatrixCell) -> tuple[object, ...]:
    """Everything about a release that a matrix shows."""
    return (native_count(cell), sorted(cell.findings.items()), cell.failure is not None)


def _runs(cells: list[MatrixCell], key: Callable[[MatrixCell], object]) -> list[list[MatrixCell]]:
    return [list(run) for _, run in groupby(cells, key)]


def _range(run: list[MatrixCell]) -> str:
    first, last = one_line(run[0].target.torch), one_line(run[-1].target.torch)
    return first if len(run) == 1 else f"{first}-{last}"
