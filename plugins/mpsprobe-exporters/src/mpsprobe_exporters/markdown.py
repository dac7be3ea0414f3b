"""GitHub-flavoured Markdown: what one pastes into an issue, a pull request or a job summary."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mpsprobe_exporters import (
    advisories,
    answer,
    backends,
    comparison_markdown,
    profile_markdown,
    program_answer,
    release_grid,
)
from mpsprobe_exporters.markdown_text import code, prose, section, table
from mpsprobe_exporters.places import places
from mpsprobe_exporters.supported import supported_report
from mpsprobe_exporters.units import byte_size, number

if TYPE_CHECKING:
    from mpsprobe.schemas import CoverageReport, MatrixReport, OperatorFinding
    from mpsprobe.schemas.report import Report

    AnyReport = CoverageReport | MatrixReport

# Above this, the native operators are folded away behind a line to click on.
MOST_OPEN_ROWS = 12


class MarkdownExporter:
    """The short answer, the operators, and what to do about each finding."""

    def render(self, report: Report) -> str:
        """The document.

        Raises:
            ReportError: it is of a kind that has no known schema.
        """
        read = supported_report(report, "markdown")
        if read.kind == "profile":
            return "\n\n".join(profile_markdown.blocks(read)) + "\n"
        if read.kind == "comparison":
            return "\n\n".join(comparison_markdown.blocks(read)) + "\n"
        blocks = [*_opening(read)]
        blocks += _coverage(read) if read.kind == "coverage" else _matrix(read)
        for_cuda = [f"- {code(what)} at {prose(instead)}" for what, instead in program_answer.cuda(read)]
        if for_cuda:
            blocks += [f"### {program_answer.CUDA}", "\n".join(for_cuda)]
        blocks += section(answer.MACOS, answer.macos_notes(read))
        blocks += _advised(read)
        explained = answer.explanations(read)
        if explained:
            rows = ((code(operator), verdict, prose(text, 400)) for operator, verdict, text in explained)
            blocks += [f"### {answer.EXPLAINED}", "\n".join(table(("operator", "verdict", "evidence"), rows))]
        for title, lines in answer.open_questions(read):
            blocks += [f"### {title}", "\n".join(f"- {code(operator)}: {prose(text)}" for operator, text in lines)]
        return "\n\n".join(blocks) + "\n"


def _opening(report: AnyReport) -> Iterator[str]:
    for line in (*program_answer.stayed_on_cpu(report), *answer.failures(report)):
        yield f"**{prose(line)}**"
    yield f"**{prose(answer.headline(report))}.**"
    first = answer.first_refused(report)
    if first:
        yield f"**{prose(first)}.**"
    yield f"{prose(answer.workload_line(report))}. {prose(answer.method_line(report))}."
    notes = [f"- {prose(note, 400)}" for note in backends.notes(report)]
    if notes:
        yield "\n".join(notes)


def _coverage(report: CoverageReport) -> Iterator[str]:
    found, natives, release = answer.findings(report), answer.natives(report), report.target.torch
    if found:
        header = ("operator", "verdict", "calls", "phases", "dtypes", "where", "bytes", "native since")
        yield "\n".join(table(header, (_finding_row(one, release) for one in found), right=(2, 6)))
    if natives:
        native_rows = table(
            ("native operator", "calls", "dtypes", "native since"), map(_native_row, natives), right=(1,)
        )
        if len(natives) > MOST_OPEN_ROWS:
            summary = f"<details><summary>{len(natives)} native operators</summary>"
            yield "\n\n".join((summary, "\n".join(native_rows), "</details>"))
        else:
            yield "\n".join(native_rows)
    yield from _advice(found)


def _finding_row(one: OperatorFinding, release: str) -> tuple[str, ...]:
    phases = ", ".join(f"{prose(phase, 40)} {number(calls)}" for phase, calls in one.phases.items())
    moved = one.input_bytes + one.output_bytes
    traffic = byte_size(moved) if moved else ""
    dtypes = ", ".join(prose(dtype, 40) for dtype in one.dtypes)
    native = answer.since(one, release)
    since = prose(native, 40) if native else "-"
    return (
        code(one.operator),
        f"**{one.verdict}**",
        f"{number(one.calls)}",
        phases,
        dtypes,
        _where(one),
        traffic,
        since,
    )


def _native_row(one: OperatorFinding) -> tuple[str, ...]:
    dtypes = ", ".join(prose(dtype, 40) for dtype in one.dtypes)
    return (code(one.operator), f"{number(one.calls)}", dtypes, prose(one.native_since or "", 40))


def _where(one: OperatorFinding) -> str:
    return ", ".join(place if place.startswith("and ") else code(place) for place in places(one))


def _advice(found: list[OperatorFinding]) -> Iterator[str]:
    if not found:
        return
    yield f"### {answer.TO_DO}"
    lines = []
    for one in found:
        reason = f"{prose(one.reason, 1000).rstrip('.')}." if one.reason else ""
        said = " ".join(filter(None, (reason, prose(answer.advice(one)))))
        lines.append(f"- {code(one.operator)} ({one.verdict})" + (f": {said}" if said else ""))
    yield "\n".join(lines)


def _advised(report: AnyReport) -> Iterator[str]:
    if not report.advisories:
        return
    yield f"### {prose(advisories.title(report))}"
    lines = []
    for one in report.advisories:
        name, title = advisories.heading(one)
        lines.append(f"- {code(name)}: {prose(title)}")
        lines += [f"  - {label}: {prose(text, 1000)}" for label, text in advisories.facts(report, one)]
    yield "\n".join(lines)


def _matrix(report: MatrixReport) -> Iterator[str]:
    columns = release_grid.columns(report)
    operators = release_grid.operators(report)
    if columns:
        header = ("operator", *(prose(column.title, 40) for column in columns))
        rows = [(title, *cells) for title, cells in release_grid.whole_rows(columns)]
        for operator in operators:
            cells = (release_grid.verdict_at(column.cell, operator) for column in columns)
            rows.append((code(operator), *cells))
        yield "\n".join(table(header, rows))
        legends = release_grid.legends(report)
        if legends:
            yield "; ".join(legends) + "."
    yield from _advice(answer.findings(report))
