"""The blocks of the terminal report, from the short answer to what was left open."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mpsprobe_exporters import answer, release_grid
from mpsprobe_exporters.advice import advice
from mpsprobe_exporters.module_names import fold_names
from mpsprobe_exporters.plain_text import byte_size, call_site, one_line, shortened

if TYPE_CHECKING:
    from rich.console import RenderableType

    from mpsprobe.schemas import CoverageReport, MatrixReport, OperatorFinding
    from mpsprobe_exporters.screen import Screen

    AnyReport = CoverageReport | MatrixReport

# Of the sixteen, these are readable on black and on white; nothing is told by colour alone.
STYLES = {"missing": "bold red", "unsupported": "bold red", "fallback": "magenta", "unknown": "blue", "native": "green"}
MOST_PLACES = 3


def body(report: AnyReport, screen: Screen) -> Iterator[RenderableType]:
    """What to print, block by block."""
    yield from _opening(report)
    if report.kind == "coverage":
        yield from _coverage(report, screen)
    else:
        yield from _matrix(report, screen)
    yield from _closing(report)


def _opening(report: AnyReport) -> Iterator[RenderableType]:
    for failure in answer.failures(report):
        yield Text(failure, style="bold red")
    short = answer.short_answer(report)
    yield Text(short[0].upper() + short[1:], style="bold")
    yield Text(answer.workload_line(report.workload))
    yield Text(answer.method_line(report))
    for note in report.workload.notes:
        yield Text(f"note: {one_line(note)}")


def _new_table(*headers: str, right: tuple[int, ...] = ()) -> Table:
    made = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="underline")
    for index, header in enumerate(headers):
        made.add_column(header, justify="right" if index in right else "left", overflow="fold")
    return made


def _coverage(report: CoverageReport, screen: Screen) -> Iterator[RenderableType]:
    found, natives = answer.findings(report), answer.natives(report)
    if found or natives:
        yield Text()
        drawn = _new_table("operator", "verdict", "calls", "dtypes", "native since", right=(2,))
        for one in [*found, *natives]:
            drawn.add_row(
                Text(one_line(one.operator)),
                Text(one.verdict, style=STYLES[one.verdict]),
                f"{one.calls:,}",
                Text(", ".join(map(one_line, one.dtypes))),
                Text(one_line(one.native_since or "-")),
            )
        yield drawn
    yield from _advice(found, report.target.torch)


def _advice(found: list[OperatorFinding], release: str) -> Iterator[RenderableType]:
    for one in found:
        yield Text()
        yield Text.assemble((one.verdict, STYLES[one.verdict]), " ", (one_line(one.operator), "bold"))
        if one.reason:
            yield Padding(Text(one_line(one.reason, 1000)), (0, 0, 0, 2))
        sites = list(dict.fromkeys(map(call_site, one.call_sites)))
        places = [*shortened(fold_names(map(one_line, one.modules)), MOST_PLACES), *shortened(sites, MOST_PLACES)]
        if places:
            yield Padding(Text("at " + " · ".join(places)), (0, 0, 0, 2))
        if one.input_bytes or one.output_bytes:
            size = f"{byte_size(one.input_bytes)} in, {byte_size(one.output_bytes)} out"
            yield Padding(Text(size), (0, 0, 0, 2))
        yield Padding(Text(advice(one, release)), (0, 0, 0, 2))


def _matrix(report: MatrixReport, screen: Screen) -> Iterator[RenderableType]:
    columns = release_grid.columns(report)
    if not columns:
        return
    yield Text()
    drawn = _new_table("releases", "native operators")
    for column in columns:
        drawn.add_row(Text(column.title), release_grid.native_count(column.cell))
    yield drawn
    for operator in release_grid.operators(report):
        runs = ", ".join(f"{verdict} {span}" for span, verdict in release_grid.history(report, operator))
        yield Text(f"{one_line(operator)}: {runs}")
    yield from _advice(answer.findings(report), report.releases[-1].target.torch)


def _closing(report: AnyReport) -> Iterator[RenderableType]:
    for title, lines in (
        (answer.NOT_JUDGED, [answer.unjudged_line(one) for one in report.not_judged]),
        (answer.DATA_DEPENDENCE, [answer.dependence_line(one) for one in report.data_dependence]),
    ):
        if lines:
            yield Text()
            yield Text(title, style="bold")
            for line in lines:
                yield Padding(Text(line), (0, 0, 0, 2))
