"""The coverage of many releases: the first without a finding, and how findings went from one to the next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mpsprobe.declarations import SEVERITY
from mpsprobe_exporters import answer, backends, workload_lines
from mpsprobe_exporters.document import NOTHING, Bar, Bars, Document, Grid, Paragraph, Part, Section, runs, span
from mpsprobe_exporters.plain_text import one_line
from mpsprobe_exporters.reports import memory
from mpsprobe_exporters.reports.coverage import TO_DO, all_operators, allowed, middle
from mpsprobe_exporters.units import number

if TYPE_CHECKING:
    from mpsprobe.schemas import MatrixCell, MatrixReport
    from mpsprobe_exporters.document import Block, Cell

NOT_REACHED = "?"
LEGENDS = {NOTHING: f"{NOTHING} native, or not called there", NOT_REACHED: "? not met before the run stopped"}
COUNTS = "counts differ where a release makes an operator of others"
UPGRADE = "Use {} {} or newer: from there on every operator is native."


def document(report: MatrixReport) -> Document:
    newest = report.releases[-1] if report.releases else None
    sound = newest is not None and not (newest.failure or newest.advisories or answer.findings(report))
    clean = sound and not report.advisories
    first, software = report.native_since, backends.software(backends.target(report))
    late = clean and first is not None and first != report.releases[0].target.version
    headline, *details = answer.short_answer(report)
    notes = [one_line(note, 400) for note in (*report.workload.notes, *backends.notes(backends.target(report)))]
    return Document(
        title=one_line(report.workload.name, 60),
        headline=headline,
        tone="good" if clean else "mixed" if sound else "bad",
        alerts=answer.failures(report),
        lines=[
            *details,
            workload_lines.workload_line(report.workload),
            *memory.line_of_releases(report),
            *workload_lines.method_lines(report),
        ],
        notes=[*notes, *allowed(report.allowed)],
        sections=[
            Section(TO_DO, [Paragraph(UPGRADE.format(software, first))] if late else [], depth="lead"),
            *middle(report),
            Section("Findings by release", list(_bars(report))),
            Section("Operators by release", list(_grid(report)), view="Releases"),
            *memory.by_release(report),
            all_operators(report),
        ],
    )


def _bars(report: MatrixReport) -> Iterator[Block]:
    """The findings of each release by verdict, the newest first, successive equal ones as one."""
    cells = report.releases[::-1]
    names = [cell.target.version for cell in cells]
    most = max((len(cell.findings) for cell in cells), default=0) or 1
    rows = []
    for run in runs(range(len(cells)), lambda index: (_said(cells[index]), sorted(cells[index].findings.values()))):
        counts = Counter(cells[run[0]].findings.values())
        parts = [
            Part(counts[finding] / most, finding, f"{finding}: {number(counts[finding])}")
            for finding in answer.FINDINGS
            if counts[finding]
        ]
        rows.append(Bar(span(names, run), parts, _said(cells[run[0]])))
    used = {verdict for cell in cells for verdict in cell.findings.values()}
    legend = [(verdict, verdict) for verdict in answer.FINDINGS if verdict in used]
    if rows:
        yield Bars(rows, "Operators that are not native", legend)


def _grid(report: MatrixReport) -> Iterator[Block]:
    cells = report.releases[::-1]
    heads = [("native operators", [answer.native_of(cell.summary) for cell in cells])]
    if any(cell.failure for cell in cells):
        heads.append(("run", ["stopped" if cell.failure else "to its end" for cell in cells]))
    if report.advisories:
        heads.append(("known wrong results", [number(len(cell.advisories)) for cell in cells]))
    rows = [
        (name, [cell.findings.get(name, NOT_REACHED if cell.failure else NOTHING) for cell in cells])
        for name in operators(report)
    ]
    signs = {word for _, words in rows for word in words}
    if cells:
        releases = [cell.target.version for cell in cells]
        legend = [said for sign, said in LEGENDS.items() if sign in signs]
        several = len({cell.summary.operators for cell in cells}) > 1
        yield Grid(releases, heads, rows, [*legend, *([COUNTS] if several else [])])


def operators(report: MatrixReport) -> list[str]:
    """The operators that are not native in some release; those that are not in the newest come first."""
    last_seen: dict[str, tuple[int, int]] = {}
    for index, cell in enumerate(report.releases):
        for operator, verdict in cell.findings.items():
            last_seen[operator] = (index, SEVERITY[verdict])
    return sorted(last_seen, key=lambda operator: (-last_seen[operator][0], -last_seen[operator][1], operator))


def rows(report: MatrixReport) -> Iterator[tuple[Cell, ...]]:
    """The rows of a CSV file: about the whole workload, in parentheses, then the operators; empty where all is well."""
    cells = report.releases
    yield ("operator", *(cell.target.version for cell in cells))
    yield ("(operators)", *(cell.summary.operators for cell in cells))
    yield ("(native)", *(cell.summary.operators_by_verdict.get("native", 0) for cell in cells))
    yield ("(failure)", *(answer.failure_sentence(cell.failure) if cell.failure else "" for cell in cells))
    for name in memory.FIGURES if any(cell.memory for cell in cells) else ():
        yield (f"({name})", *(getattr(cell.memory, name, None) for cell in cells))
    if report.advisories:
        yield ("(advisories)", *(tuple(cell.advisories) for cell in cells))
    for operator in operators(report):
        yield (operator, *(cell.findings.get(operator, "") for cell in cells))


def _said(cell: MatrixCell) -> str:
    """``61 of 63 native: 1 missing, 1 fallback``."""
    parts = [*answer.findings_of(cell.summary), *(["the run stopped"] if cell.failure else [])]
    return f"{answer.native_of(cell.summary)} native" + (f": {', '.join(parts)}" if parts else "")
