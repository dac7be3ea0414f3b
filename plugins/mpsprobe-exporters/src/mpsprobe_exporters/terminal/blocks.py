"""The blocks of the terminal report, from the short answer to what was left open."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from mpsprobe_exporters import advisories, answer, backends, program_answer
from mpsprobe_exporters.places import where
from mpsprobe_exporters.plain_text import one_line, shortened
from mpsprobe_exporters.terminal.matrix_table import matrix_table
from mpsprobe_exporters.terminal.operator_table import operator_table
from mpsprobe_exporters.terminal.sections import BLANK, indented, section
from mpsprobe_exporters.terminal.verdict_styles import STYLES
from mpsprobe_exporters.units import byte_size, number

if TYPE_CHECKING:
    from rich.console import RenderableType

    from mpsprobe.schemas import CoverageReport, MatrixReport, OperatorFinding, Target

    AnyReport = CoverageReport | MatrixReport

MOST_SHAPES = 3


def body(report: AnyReport, width: int) -> Iterator[RenderableType]:
    """What to print on ``width`` columns, block by block."""
    yield from _opening(report)
    found, release = answer.findings(report), answer.judged_release(report)
    with_places = False
    if report.kind == "coverage":
        shown = [*found, *answer.natives(report)]
        if shown:
            drawn, with_places = operator_table(shown, release, width)
            yield BLANK
            yield drawn
    elif report.releases:
        yield BLANK
        yield from matrix_table(report, width)
    yield from _to_do(found, release, with_places, backends.target(report))
    written = program_answer.cuda(report)
    if written:
        yield from section(program_answer.CUDA, [_labelled(written, "")])
    notes = answer.macos_notes(report)
    if notes:
        yield from section(answer.MACOS, notes)
    yield from _advised(report)
    yield from _explained(report)
    for title, lines in answer.open_questions(report):
        yield from section(title, (f"{one_line(operator)}: {text}" for operator, text in lines))


def _opening(report: AnyReport) -> Iterator[RenderableType]:
    for line in (*program_answer.stayed_on_cpu(report), *answer.failures(report)):
        yield Text(line, style="bold red")
    yield Text(answer.headline(report), style="bold")
    first = answer.first_refused(report)
    if first:
        yield Text(first, style="bold red")
    yield Text(answer.workload_line(report))
    yield Text(answer.method_line(report))
    yield from (indented(f"note: {note}") for note in backends.notes(report))


def _to_do(
    found: list[OperatorFinding], release: str, with_places: bool, judged: Target | None
) -> Iterator[RenderableType]:
    if not found:
        return
    yield from section(f"{answer.TO_DO} on {backends.on_release(judged, release)}")
    for one in found:
        yield BLANK
        yield Text.assemble((one_line(one.operator), "bold"), "  ", (one.verdict, STYLES[one.verdict]))
        yield _labelled(_facts(one, with_places, judged))


def _advised(report: AnyReport) -> Iterator[RenderableType]:
    if not report.advisories:
        return
    yield from section(advisories.title(report))
    for one in report.advisories:
        name, title = advisories.heading(one)
        yield BLANK
        yield Text.assemble((name, "bold magenta"), "  ", title)
        yield _labelled(advisories.facts(report, one))


def _labelled(lines: Iterable[tuple[str, str]], before: str = "  ") -> RenderableType:
    """Labels on the left, ``before`` in front of them, texts folded beside them."""
    grid = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for label, text in lines:
        grid.add_row(f"{before}{label}", Text(text))
    return grid


def _explained(report: AnyReport) -> Iterator[RenderableType]:
    lines = answer.explanations(report)
    if not lines:
        return
    grid = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
    grid.add_column(overflow="fold", ratio=2)
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold", ratio=3)
    for operator, verdict, evidence in lines:
        grid.add_row(Text(one_line(operator)), Text(verdict, style=STYLES[verdict]), Text(evidence))
    yield from section(answer.EXPLAINED, [grid])


def _facts(one: OperatorFinding, with_places: bool, judged: Target | None) -> Iterator[tuple[str, str]]:
    if not with_places and (found := where(one)):
        yield "where", found
    phases = ", ".join(f"{one_line(phase)} {number(count)}" for phase, count in one.phases.items())
    moved = f"; {byte_size(one.input_bytes)} in, {byte_size(one.output_bytes)} out"
    yield "calls", f"{number(one.calls)} ({phases}){moved if one.input_bytes or one.output_bytes else ''}"
    shapes = [f"({one_line(shape, 80)})" for shape in one.shapes]
    if shapes:
        yield "shapes", ", ".join(shortened(shapes, MOST_SHAPES))
    if one.reason and one.reason.strip():
        yield "why", one_line(one.reason, 1000)
    if one.source is not None and one.source != "registration":
        yield "known by", answer.rests_on(one, backends.label(judged))
    if said := answer.advice(one):
        yield "do", said
