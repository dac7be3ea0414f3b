"""Coverage of one release or of many as a page: the answer, what is not native, what to do, every operator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from mpsprobe_exporters import advisories, answer, backends, program_answer, release_grid
from mpsprobe_exporters.html import figures, tables
from mpsprobe_exporters.html.figures import Part
from mpsprobe_exporters.html.markup import Child, Markup, block, element, joined, name, plain_list, text
from mpsprobe_exporters.html.page import View, page
from mpsprobe_exporters.html.tables import Column, Field
from mpsprobe_exporters.places import modules, sites
from mpsprobe_exporters.plain_text import one_line, plural
from mpsprobe_exporters.units import number

if TYPE_CHECKING:
    from mpsprobe.schemas import CoverageReport, MatrixReport, OperatorFinding, Verdict

    AnyReport = CoverageReport | MatrixReport

VERDICTS: tuple[tuple[Verdict, int], ...] = (
    ("native", 1),
    ("composite", 8),
    ("fallback", 3),
    ("missing", 4),
    ("unsupported", 5),
    ("unknown", 6),
)
COLUMNS = (
    Column("Operator"),
    Column("Verdict"),
    Column("Calls", True),
    Column("Phases"),
    Column("Dtypes"),
    Column("Shapes"),
    Column("Where"),
    Column("Lines"),
    Column("Bytes in", True),
    Column("Bytes out", True),
    Column("Native since", about="from this release on without a gap; of a finding, the release that cures it"),
    Column("Why"),
)


def coverage_page(report: AnyReport) -> str:
    """The document."""
    views = [View("overview", "Overview", list(_overview(report)))]
    if report.kind == "coverage-matrix" and report.releases:
        views.append(View("releases", "Releases", [_grid(report)]))
    if report.operators:
        views.append(View("operators", "Operators", [_operators(report)]))
    if report.advisories:
        views.append(View("wrong", "Known wrong results", list(_advised(report))))
    title = one_line(report.workload.name, 60)
    said = f"{answer.headline(report)}."
    return page(title, said, [f"{answer.workload_line(report)}.", f"{answer.method_line(report)}."], views)


def _overview(report: AnyReport) -> Iterator[Markup]:
    for line in (*program_answer.stayed_on_cpu(report), *answer.failures(report)):
        yield element("p", line, class_="alert")
    first = answer.first_refused(report)
    if first:
        yield element("p", f"{first}.", class_="alert")
    if report.kind == "coverage":
        yield from _counts(report)
    items = [_finding(one) for one in answer.findings(report)]
    if items:
        yield element("section", element("h3", answer.TO_DO), element("ul", *items), class_="block advice")
    for title, texts in _texts(report):
        yield from block(title, plain_list(texts))
    explained = answer.explanations(report)
    if explained:
        rows = [
            (tables.words(name(one)), tables.words(verdict), tables.words(said)) for one, verdict, said in explained
        ]
        columns = (Column("Operator"), Column("Verdict"), Column("Evidence"))
        yield from block(answer.EXPLAINED, [tables.table("Evidence", columns, rows)])


def _texts(report: AnyReport) -> Iterator[tuple[str, Sequence[Child]]]:
    yield program_answer.CUDA, [joined([name(what), f" at {said}"]) for what, said in program_answer.cuda(report)]
    yield answer.MACOS, answer.macos_notes(report)
    for title, found in answer.open_questions(report):
        yield title, [joined([name(operator), f": {said}"]) for operator, said in found]
    yield "Notes", backends.notes(report)


def _finding(one: OperatorFinding) -> Markup:
    reason = f" {one_line(one.reason, 1000).rstrip('.')}." if one.reason else ""
    return element(
        "li",
        element("span", one.verdict, class_="tag bad"),
        element("p", name(one.operator), reason, " ", element("em", answer.advice(one))),
    )


def _counts(report: CoverageReport) -> Iterator[Markup]:
    """How the operators, and their calls, divide by verdict."""
    summary = report.summary
    rows = []
    for what, counts in (("operators", summary.operators_by_verdict), ("calls", summary.calls_by_verdict)):
        total = sum(counts.values())
        if not total:
            continue
        known = [(verdict, color, counts.get(verdict, 0)) for verdict, color in VERDICTS]
        parts = [Part(found / total, color, f"{verdict}: {number(found)}") for verdict, color, found in known if found]
        said = ", ".join(f"{number(found)} {verdict}" for verdict, _, found in known if found)
        rows.append((text(what), figures.stacked(parts), said))
    if rows:
        used = {verdict for verdict, count in summary.operators_by_verdict.items() if count}
        bars = figures.bar_rows(rows, "By verdict")
        keys = figures.legend((color, verdict) for verdict, color in VERDICTS if verdict in used)
        yield from block("Verdicts", [bars, keys])


def _operators(report: AnyReport) -> Markup:
    release = answer.judged_release(report)
    shown = [*answer.findings(report), *answer.natives(report)]
    shown += [one for one in report.operators if one not in shown]
    caption = f"{plural(len(shown), 'operator')} on {backends.on_release(backends.target(report), release)}"
    return tables.table(caption, COLUMNS, [_row(one, release) for one in shown], filtered="Filter operators")


def _row(one: OperatorFinding, release: str) -> tuple[Field, ...]:
    phases = ", ".join(f"{one_line(phase, 40)} {number(calls)}" for phase, calls in one.phases.items())
    since = answer.since(one, release)
    bad = "tag bad" if one.verdict in answer.FINDINGS else "tag"
    return (
        tables.words(name(one.operator)),
        tables.words(element("span", one.verdict, class_=bad)),
        tables.count(one.calls),
        tables.words(element("span", phases, class_="whole")),
        tables.words(", ".join(one_line(dtype, 40) for dtype in one.dtypes)),
        tables.words(tables.listed(name(shape, 60) for shape in one.shapes)),
        tables.words(tables.listed(name(module, 60) for module in modules(one, None))),
        tables.words(tables.listed(name(site, 60) for site in sites(one, None))),
        tables.size(one.input_bytes or None),
        tables.size(one.output_bytes or None),
        tables.words(one_line(since, 40) if since else None),
        tables.words(element("div", one_line(one.reason, 400), class_="said-why") if one.reason else None),
    )


def _grid(report: MatrixReport) -> Markup:
    """Operators by release, neighbours that are equal in one column."""
    columns = release_grid.columns(report)
    titles = (Column("Operator"), *(Column(one_line(column.title, 40)) for column in columns))
    rows: list[list[Field]] = []
    for title, cells in release_grid.whole_rows(columns):
        rows.append([tables.words(element("b", title)), *map(tables.words, cells)])
    for operator in release_grid.operators(report):
        verdicts = (_verdict(release_grid.verdict_at(one.cell, operator)) for one in columns)
        rows += [[tables.words(name(operator)), *verdicts]]
    legends = "; ".join(release_grid.legends(report))
    return joined(
        [
            tables.table(f"{plural(len(report.releases), 'release')}, equal neighbours as one", titles, rows),
            element("p", f"{legends}.", class_="quiet") if legends else None,
        ]
    )


def _verdict(verdict: str) -> Field:
    bad = verdict in answer.FINDINGS
    return tables.words(element("span", verdict, class_="tag bad") if bad else verdict)


def _advised(report: AnyReport) -> Iterator[Markup]:
    for one in report.advisories:
        key, title = advisories.heading(one)
        facts = (joined([element("dt", label), element("dd", said)]) for label, said in advisories.facts(report, one))
        yield from block(title, [element("p", name(key)), element("dl", *facts, class_="facts")])
