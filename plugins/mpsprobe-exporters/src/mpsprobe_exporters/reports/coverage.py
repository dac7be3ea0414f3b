"""The coverage of one release: its operators as rows, and the document around them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from mpsprobe.declarations import SEVERITY
from mpsprobe.folding import folded
from mpsprobe_exporters import advisories, answer, backends, fitting, graphs, program_answer, recalled, sources
from mpsprobe_exporters.document import Bar, Bars, Bullet, Column, Document, Part, Section, Tile, Tiles, bullets, table
from mpsprobe_exporters.module_names import fold_names
from mpsprobe_exporters.plain_text import one_line
from mpsprobe_exporters.reports import memory
from mpsprobe_exporters.units import byte_size, number

if TYPE_CHECKING:
    from mpsprobe.schemas import CoverageReport, CoverageSummary, MatrixReport, OperatorFinding
    from mpsprobe_exporters.document import Block, Cell, Fields

    AnyReport = CoverageReport | MatrixReport

SINCE = "from this release on, without a gap; of a finding, the release that cures it"
OPERATORS = "Operators"
MOST = 500  # rows that a terminal and Markdown show
EXPLAINED = "What native verdicts rest on"
SOURCES = {
    "registration": "registration",
    "branch": "branch in C++",
    "dtype": "dtype that no {} tensor has",
    "device": "PyTorch's rule for devices",
    "message": "guard in the binary",
    "metal": "Metal kernels in the binary",
    "stub": "DispatchStub in the binary",
    "list": "PyTorch's own expectations",
    "issue": "issues of PyTorch",
}
MOST_NAMED = 3  # operators of one entry; of more the first one
NEXT = "Next: mpsprobe profile measures it on a Mac; --all lists the operators."
# All that is shown of an operator, in every format: a column, and how its cell is found. The order is that of CSV.
FIELDS: Fields[AnyReport, OperatorFinding] = (
    (Column("operator", "name", "operator"), lambda _, one: one.operator),
    (Column("verdict", "verdict", "verdict"), lambda _, one: one.verdict),
    (Column("calls", "number", "calls", where="column"), lambda _, one: one.calls),
    (Column("calls", "counts", "phases", where="more"), lambda _, one: one.phases),
    (Column("dtypes", "names", "dtypes", rank=3), lambda _, one: tuple(one.dtypes)),
    (Column("where", "names", rank=4), lambda _, one: tuple(fold_names(one.modules))),
    (Column("lines", "places", where="more"), lambda report, one: sources.lines(one.call_sites, report.environment)),
    (Column("shapes", "names", where="more"), lambda _, one: tuple(f"({shape})" for shape in one.shapes)),
    (Column("each shape", "names", "shapes", where="record"), lambda _, one: tuple(one.shapes)),
    (Column("modules", "names", "modules", where="record"), lambda _, one: tuple(fold_names(one.modules))),
    (Column("lines", "names", "call_sites", where="record"), lambda _, one: tuple(one.call_sites)),
    (Column("input bytes", "number", "input_bytes", where="record"), lambda _, one: one.input_bytes),
    (Column("output bytes", "number", "output_bytes", where="record"), lambda _, one: one.output_bytes),
    (Column("data", where="more"), lambda _, one: _moved(one)),
    (Column("copies", where="more"), lambda _, one: answer.copies(one.transfers)),
    (Column("MPSGraph", where="more"), lambda _, one: graphs.of_operator(one)),
    (Column("native since", key="native_since", where="record"), lambda _, one: one.native_since),
    (Column("native since", about=SINCE, rank=1, where="column"), answer.since),
    (Column("why", key="reason", where="more"), lambda _, one: one.reason),
    (
        Column("known by", where="more"),
        lambda report, one: _evidence(report, one) if _is_telling(report, one) else None,
    ),
    (Column("do", "advice", "advice", where="more"), lambda report, one: _advice(report, one)),
)
COLUMNS = tuple(column for column, _ in FIELDS)


def operators(report: AnyReport, found: Iterable[OperatorFinding]) -> list[tuple[Cell, ...]]:
    """The row of each operator, as ``COLUMNS`` has it."""
    return [tuple(of(report, one) for _, of in FIELDS) for one in found]


def ordered(report: AnyReport) -> list[OperatorFinding]:
    """Every operator: findings, the worst first, then native ones by their calls, then composite ones."""
    composite = (one for one in report.operators if one.verdict == "composite")
    return [*answer.findings(report), *answer.natives(report), *composite]


def document(report: CoverageReport) -> Document:
    """The coverage of one release."""
    alerts = [*program_answer.stayed_on_cpu(report), *answer.failures(report)]
    alerts += [*filter(None, [answer.first_refused(report)]), *fitting.alerts(report)]
    sections = [*middle(report), *explained(report), *graphs.growth(report)]
    notes = [*backends.notes(report), *answer.allowed(report)]
    memory_lines = [*memory.line(report), *fitting.lines(report)]
    clean = (
        bool(report.operators)
        and not alerts
        and fitting.is_clean(report)
        and not any(section.blocks for section in sections)
    )
    return Document(
        title=one_line(report.workload.name, 60),
        headline=answer.headline(report),
        tone="good" if clean else "bad",
        alerts=alerts,
        lines=[
            *answer.details(report),
            answer.workload_line(report),
            *memory_lines,
            answer.method_line(report),
            *recalled.lines(report),
        ],
        notes=notes,
        sections=[
            *sections,
            Section("In figures", list(figures(report.summary)), depth="page"),
            *memory.sections(report),
            *all_operators(report, "Overview" if clean else OPERATORS),
        ],
        brief=[
            answer.in_short(report),
            f"{answer.headline(report)}.",
            *(f"{line}." for line in memory_lines),
            *answer.details(report),
            *notes,
            *(f"{line}." for line in recalled.lines(report)),
            NEXT,
        ]
        if clean
        else [],
    )


def figures(summary: CoverageSummary) -> Iterator[Block]:
    """How many operators are native, the memory of the parameters, and the calls by verdict."""
    native = f"{number(summary.operators_by_verdict.get('native', 0))} of {number(summary.operators)}"
    size = summary.parameters_bytes
    parameters = [Tile("Parameters", byte_size(size), "memory")] if size else []
    compiled = [Tile("Compiled MPSGraphs", graphs.counted(summary.graphs))] if summary.graphs else []
    yield Tiles([Tile("Native operators", native), Tile("Calls", number(summary.calls)), *parameters, *compiled])
    calls = summary.calls_by_verdict
    known = [(verdict, calls[verdict]) for verdict in sorted(calls, key=lambda one: SEVERITY[one]) if calls[verdict]]
    if len(known) > 1:
        total = sum(count for _, count in known)
        parts = [Part(count / total, verdict, f"{verdict}: {number(count)}") for verdict, count in known]
        said = ", ".join(f"{number(count)} {verdict}" for verdict, count in known)
        yield Bars([Bar("Calls", parts, said)], "Calls by verdict", [(verdict, verdict) for verdict, _ in known])


def middle(report: AnyReport) -> Iterator[Section]:
    """What is to do, what is known to be wrong, and what the report leaves open."""
    found = answer.findings(report)
    release = backends.on_release(backends.target(report), answer.judged_release(report))
    to_do = table(FIELDS, report, one_for_each_cure(found), entries=True, most=MOST)
    yield Section(f"{answer.TO_DO} on {release}", to_do)
    yield Section(program_answer.CUDA, bullets(Bullet(said, what) for what, said in program_answer.cuda(report)))
    yield Section(answer.MACOS, bullets(answer.macos_notes(report)))
    yield Section(advisories.title(report), [advisories.table(report)] if report.advisories else [])
    for title, lines in answer.open_questions(report):
        yield Section(title, bullets(Bullet(text, operator) for operator, text in lines))


def one_for_each_cure(found: Iterable[OperatorFinding]) -> list[OperatorFinding]:
    """The findings, those of which the same is said and to be done as one: all that touches one float64 tensor."""
    groups: dict[object, list[OperatorFinding]] = {}
    for one in found:
        cure = (one.verdict, one.reason, one.evidence, one.advice) if one.advice else one.operator
        groups.setdefault(cure, []).append(one)
    return [_as_one(group) for group in groups.values()]


def _as_one(group: Sequence[OperatorFinding]) -> OperatorFinding:
    if len(group) == 1:
        return group[0]
    named = (
        [f"{group[0].operator} and {len(group) - 1} more"] if len(group) > MOST_NAMED else [f.operator for f in group]
    )
    return folded(group).model_copy(update={"operator": ", ".join(named)})


def explained(report: CoverageReport) -> Iterator[Section]:
    """Of ``--explain``: what the verdicts of native operators rest on; findings say it themselves."""
    fields: Fields[AnyReport, OperatorFinding] = (FIELDS[0], (Column("evidence"), _evidence))
    found = answer.natives(report) if report.explained else []
    yield Section(EXPLAINED, table(fields, report, found), view="Evidence")


def all_operators(report: AnyReport, view: str = OPERATORS) -> Iterator[Section]:
    """Every operator; where there is nothing else to see, on the first view."""
    title = f"{OPERATORS} on {backends.on_release(backends.target(report), answer.judged_release(report))}"
    rows = table(FIELDS, report, ordered(report), title, filtered=True, most=MOST)
    yield Section(title, rows, view=view, depth="all")


def records(report: CoverageReport) -> Iterator[dict[str, Cell]]:
    """The rows of a CSV file, by the keys of ``COLUMNS``: operators, then what is none, under verdicts of its own."""
    for row in operators(report, ordered(report)):
        yield {column.key: cell for column, cell in zip(COLUMNS, row, strict=True) if column.key}
    for left in report.not_judged:
        yield _record(left.operator, "not_judged", left.calls, left.reason, left.call_sites)
    for read in report.data_dependence:
        yield _record(read.operator, "data_dependence", read.calls, f"assumed {read.assumed}", read.call_sites)
    for name, calls, text in answer.compositions(report):
        yield _record(name, "composed_otherwise", calls, text)
    for known in report.advisories:
        reason = f"{known.id}: {known.title}. When: {known.condition}. {known.symptom}"
        record = _record("; ".join(known.operators), "advisory", known.calls, reason, known.call_sites)
        yield {**record, "phases": known.phases, "modules": fold_names(known.modules), "advice": known.workaround}
    if report.memory and not report.failure:
        yield memory.record(report.memory)
    program = report.program
    for stayed in program.stayed_on_cpu if program else ():
        where = [stayed.call_site or ""]
        yield _record(stayed.module, "stayed_on_cpu", stayed.calls, program_answer.STAYED, where)
    for line in program.computed_on_cpu if program else ():
        where = [line.call_site or ""]
        yield _record(", ".join(line.operators), "computed_on_cpu", line.calls, program_answer.COMPUTED, where)
    for hint in program.cuda if program else ():
        yield _record(hint.what, "written_for_cuda", hint.calls, f"write {hint.instead}", hint.call_sites)
    if report.failure:
        yield _record("", "failure", 1, answer.failure_sentence(report.failure))


def _record(name: str, verdict: str, calls: int, reason: str, call_sites: Sequence[str] = ()) -> dict[str, Cell]:
    return {"operator": name, "verdict": verdict, "calls": calls, "reason": reason, "call_sites": call_sites}


def _advice(report: AnyReport, one: OperatorFinding) -> str | None:
    """The advice of the scanner that judged a finding, else the release that cures it."""
    if not SEVERITY[one.verdict]:
        return None
    cure = answer.since(report, one) if one.verdict != "unknown" else None
    software = backends.software(backends.target(report))
    return one.advice or (f"Native from {software} {cure} on: upgrade." if cure else None)


def _moved(one: OperatorFinding) -> str | None:
    known = one.input_bytes or one.output_bytes
    return f"{byte_size(one.input_bytes)} in, {byte_size(one.output_bytes)} out" if known else None


def _evidence(report: AnyReport, one: OperatorFinding) -> str:
    """The kind of evidence, what it says, and of ``--explain`` who was asked: ``guard in the binary: linear for …``."""
    asked = f" (asked: {', '.join(map(one_line, one.judges))})" if one.judges and _is_explained(report) else ""
    if one.source is None:
        return f"nothing: no table covers it{asked}"
    source = SOURCES[one.source].format(backends.label(backends.target(report)))
    return f"{source}: {one_line(one.evidence, 400)}{asked}" if one.evidence else f"{source}{asked}"


def _is_telling(report: AnyReport, one: OperatorFinding) -> bool:
    """Whether the evidence is shown with the operator: that a kernel is registered goes without saying."""
    return _is_explained(report) or one.source not in (None, "registration")


def _is_explained(report: AnyReport) -> bool:
    return report.kind == "coverage" and report.explained
