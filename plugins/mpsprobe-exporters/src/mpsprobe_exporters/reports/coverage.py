"""The coverage of one release: its operators as rows, and the documents around them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

from mpsprobe.declarations import SEVERITY
from mpsprobe.doubts import ASKED, applying
from mpsprobe.folding import folded
from mpsprobe.plugins.registry import get_registry
from mpsprobe_exporters import advisories, answer, backends, fitting, sources, workload_lines
from mpsprobe_exporters.document import Bar, Bars, Bullet, Column, Document, Part, Section, Tile, Tiles, bullets, table
from mpsprobe_exporters.module_names import ROOT, fold_names
from mpsprobe_exporters.plain_text import call_site, one_line, plural, shortened
from mpsprobe_exporters.reports import compiled, memory, time
from mpsprobe_exporters.reports.compiled import record
from mpsprobe_exporters.units import between, byte_size, number

if TYPE_CHECKING:
    from mpsprobe import schemas
    from mpsprobe_exporters.document import Block, Cell, Fields
    from mpsprobe_exporters.supported import AnyReport

TO_DO = "What to do"
ERRORS = "Errors in the program, which no release changes"
OPERATORS = "Operators"
EXPLAINED = "What native verdicts rest on"
MACOS = "Needs a newer macOS"
BY_VALUES = "Known wrong results that values decide, which a prediction does not have"
NOT_JUDGED = "Not judged: nothing is known of these"
COMPOSED_OTHERWISE = "Uncertain: what this release may make of other operators"
DATA_DEPENDENCE = "Assumed: the model's course depends on values that a prediction does not have"
SINCE = "from this release on, without a gap; of a finding, the release that cures it"
NEXT = "Next: mpsprobe profile measures it on a Mac; --all lists the operators."
RAISE = ("unsupported", "missing")  # they stand before wrong numbers, which stand before what only takes time
MOST = 500  # rows that a terminal and Markdown show
MOST_NAMED = 3  # operators of one entry; of more the first one
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
GRAPHS = {"always": "every new shape compiles one", "may": "some new shapes compile one"}
MOST_UNSURE = 4
SHOWN = ("native", *sorted(answer.FINDINGS, key=SEVERITY.__getitem__))
MOST_ALIKE = 12  # modules below one of the tree's
GRAPHS_STAY = "No graph leaves the cache, so memory and the time of first calls grow with every new shape."


# All that is shown of an operator, in every format: a column, and how its cell is found. The order is that of CSV.
FIELDS: Fields[AnyReport, schemas.OperatorFinding] = (
    (Column("operator", "name", "operator"), lambda _, finding: finding.operator),
    (Column("verdict", "verdict", "verdict"), lambda _, finding: finding.verdict),
    (Column("calls", "number", "calls", where="column"), lambda _, finding: finding.calls),
    (Column("calls", "counts", "phases", where="more"), lambda _, finding: finding.phases),
    (Column("dtypes", "names", "dtypes", rank=3), lambda _, finding: tuple(finding.dtypes)),
    (Column("where", "names", rank=4), lambda _, finding: tuple(fold_names(finding.modules))),
    (
        Column("lines", "places", where="more"),
        lambda report, finding: sources.lines(finding.call_sites, report.environment),
    ),
    (Column("shapes", "names", where="more"), lambda _, finding: tuple(f"({shape})" for shape in finding.shapes)),
    (Column("each shape", "names", "shapes", where="record"), lambda _, finding: tuple(finding.shapes)),
    (Column("modules", "names", "modules", where="record"), lambda _, finding: tuple(fold_names(finding.modules))),
    (Column("lines", "names", "call_sites", where="record"), lambda _, finding: tuple(finding.call_sites)),
    (Column("input bytes", "number", "input_bytes", where="record"), lambda _, finding: finding.input_bytes),
    (Column("output bytes", "number", "output_bytes", where="record"), lambda _, finding: finding.output_bytes),
    (
        Column("data", where="more"),
        lambda _, finding: (
            f"{byte_size(finding.input_bytes)} in, {byte_size(finding.output_bytes)} out"
            if finding.input_bytes or finding.output_bytes
            else None
        ),
    ),
    (Column("copies", where="more"), lambda _, finding: answer.copies(finding.transfers)),
    (Column("MPSGraph", where="more"), lambda _, finding: _graphs(finding)),
    (Column("native since", key="native_since", where="record"), lambda _, finding: finding.native_since),
    (Column("native since", about=SINCE, rank=1, where="column"), lambda report, finding: _since(report, finding)),
    (Column("only if", key="only_if", where="more"), lambda _, finding: finding.only_if),
    (Column("why", key="reason", where="more"), lambda _, finding: finding.reason),
    (Column("known by", where="more"), lambda report, finding: _evidence(report, finding)),
    (Column("do", "advice", "advice", where="more"), lambda report, finding: _advice(report, finding)),
)
COLUMNS = tuple(column for column, _ in FIELDS)
KEYS = tuple(column.key for column in COLUMNS if column.key)


def operators(report: AnyReport, findings: Iterable[schemas.OperatorFinding]) -> list[tuple[Cell, ...]]:
    return [tuple(of(report, finding) for _, of in FIELDS) for finding in findings]


def ordered(report: AnyReport) -> list[schemas.OperatorFinding]:
    """Every operator: findings, the worst first, then native ones by their calls, then composite ones."""
    composite = (operator for operator in report.operators if operator.verdict == "composite")
    return [*answer.findings(report), *answer.natives(report), *composite]


def document(report: schemas.CoverageReport) -> Document:
    target, program, predicted = report.target, report.program, report.memory
    fit = predicted.fit if predicted else None
    alerts = [
        *(
            workload_lines.stayed_on_cpu(program, ran=bool(report.operators or answer.only_cuda(report)))
            if program
            else []
        ),
        *([answer.failure_sentence(report.failure)] if report.failure else []),
        *([workload_lines.fit_command(report)] if fitting.is_bad([fit]) else []),
        *(fitting.alerts(fit) if fit else []),
    ]
    sections = middle(report)
    if report.explained:  # findings say what they rest on themselves
        fields: Fields[AnyReport, schemas.OperatorFinding] = (FIELDS[0], (Column("evidence"), _evidence))
        sections.append(Section(EXPLAINED, table(fields, report, answer.natives(report)), view="Evidence"))
    sections += _growth(report.growth, report.operators, backends.on_release(target))
    kernels = [*compiled.sections(report)]
    sections += [kernel for kernel in kernels if kernel.depth == "first"]
    notes = [
        *(workload_lines.program_notes(program) if program else []),
        *report.workload.notes,
        *backends.notes(target),
    ]
    notes = [*(one_line(note, 400) for note in notes), *allowed(report.allowed)]
    needs = None if report.failure else predicted
    costs = [] if report.failure or fit is None else fitting.lines(fit)
    costs += [*memory.of_program(program), *time.line(report.time), *compiled.line(report.compiled)]
    clean = (
        bool(report.operators)
        and not alerts
        and fitting.is_clean([fit])
        and not any(section.blocks for section in sections)
    )
    headline, *details = answer.short_answer(report)
    run = workload_lines.workload_line(report.workload, program, [plural(report.summary.calls, "call")])
    method, *recalled = workload_lines.method_lines(report)
    brief = [headline, *memory.lines(needs, short=True), *costs, *details, *(f"Note: {note}" for note in notes)]
    brief += workload_lines.recalled(report.recalled)
    return Document(
        title=one_line(report.workload.name, 60),
        headline=headline,
        tone="good" if clean else "bad",
        alerts=alerts,
        lines=[*details, run, *memory.lines(needs), *costs, method, *recalled],
        notes=notes,
        sections=[
            *sections,
            Section("In figures", list(figures(report.summary)), depth="page"),
            *memory.sections(predicted, report.environment),
            *time.sections(report.time),
            *(kernel for kernel in kernels if kernel.depth != "first"),
            all_operators(report, "Overview" if clean else OPERATORS),
        ],
        brief=[workload_lines.in_short(report), *(f"{line.rstrip('.')}." for line in brief), NEXT] if clean else [],
    )


def figures(summary: schemas.CoverageSummary) -> Iterator[Block]:
    """How many operators are native, the memory of the parameters, and the calls by verdict."""
    size = summary.parameters_bytes
    parameters = [Tile("Parameters", byte_size(size), "memory")] if size else []
    compiled = (
        [Tile("Compiled MPSGraphs", _counted(summary.graphs), "each takes time once, at its first call")]
        if summary.graphs
        else []
    )
    yield Tiles(
        [
            Tile("Native operators", answer.native_of(summary)),
            Tile("Calls", number(summary.calls)),
            *parameters,
            *compiled,
        ]
    )
    calls = summary.calls_by_verdict
    known = [(verdict, calls[verdict]) for verdict in sorted(calls, key=SEVERITY.__getitem__) if calls[verdict]]
    if len(known) > 1:
        total = sum(count for _, count in known)
        parts = [Part(count / total, verdict, f"{verdict}: {number(count)}") for verdict, count in known]
        said = ", ".join(f"{number(count)} {verdict}" for verdict, count in known)
        yield Bars([Bar("Calls", parts, said)], "Calls by verdict", [(verdict, verdict) for verdict, _ in known])


def middle(report: AnyReport) -> list[Section]:
    """What is to do, what is known to be wrong, and what the report leaves open."""
    known = applying(report)
    to_do, wrong = one_for_each_cure(answer.findings(report)), [advisories.table(report, known)] if known else []
    undecided = [advisory for advisory in report.advisories if advisory not in known]
    sections = []
    if report.kind == "coverage":
        errors = table(FIELDS, report, filter(answer.is_error, to_do), entries=True, most=MOST)
        sections.append(Section(ERRORS, errors, depth="lead"))
        to_do = [finding for finding in to_do if not answer.is_error(finding)]
        raising, others = (
            [finding for finding in to_do if (finding.verdict in RAISE) is raises] for raises in (True, False)
        )
        before, after = (table(FIELDS, report, some, entries=True, most=MOST) for some in (raising, others))
        sections.append(Section(f"{TO_DO} on {_on(report)}", [*before, *wrong, *after], depth="lead"))
        cuda = bullets(workload_lines.cuda(report.program))
        sections.append(Section(workload_lines.CUDA, cuda, depth="lead"))
        sections.append(
            Section(MACOS, bullets(_macos(condition, report.target) for condition in report.macos_conditions))
        )
    else:
        findings = table(FIELDS, report, to_do, entries=True, most=MOST)
        sections.append(Section(f"{TO_DO} on {_on(report)}", findings, depth="lead"))
        sections.append(Section("Known wrong results", wrong))
    by_values = (Bullet(_places(f"{match.title}, if: {match.condition}", match), match.id) for match in undecided)
    unjudged = (Bullet(_places(unjudged.reason, unjudged), unjudged.operator) for unjudged in report.not_judged)
    assumed = (Bullet(_places(read.assumed, read), _asked_at(read)) for read in report.data_dependence)
    composed = (Bullet(text, name) for name, _, text in answer.compositions(report))
    return [
        *sections,
        Section(BY_VALUES, bullets(by_values)),
        Section(NOT_JUDGED, bullets(unjudged)),
        Section(DATA_DEPENDENCE, bullets(assumed)),
        Section(COMPOSED_OTHERWISE, bullets(composed)),
    ]


def _asked_at(read: schemas.DataDependence) -> str:
    """The line that asked, for who wrote it; of what an operator finds, the operator."""
    return call_site(read.call_sites[0]) if read.assumed.startswith(ASKED) and read.call_sites else read.operator


def _places(text: str, one: schemas.Unjudged | schemas.DataDependence | schemas.AdvisoryMatch) -> str:
    sites = list(dict.fromkeys(map(call_site, one.call_sites)))
    return f"{one_line(text)} ({', '.join([plural(one.calls, 'call'), *shortened(sites, 3)])})"


def _macos(condition: schemas.MacosCondition, target: schemas.Target) -> str:
    names = ", ".join(shortened(list(map(one_line, condition.operators)), 3))
    needs = f"{one_line(condition.what)} ({names}): macOS {one_line(condition.macos)} or newer"
    if not target.macos_minimum:
        return needs
    release = f"{target.software} {one_line(target.version)}"
    return f"{needs}, while {release} itself runs from {one_line(target.macos_minimum)} on"


def allowed(names: Sequence[str]) -> list[str]:
    return [f"Passed over by --allow: {', '.join(map(one_line, names))}"] if names else []


def one_for_each_cure(findings: Iterable[schemas.OperatorFinding]) -> list[schemas.OperatorFinding]:
    """The findings, those of which the same is said and to be done as one: all that touches one float64 tensor."""
    groups: dict[object, list[schemas.OperatorFinding]] = {}
    for finding in findings:
        cure = (
            (finding.verdict, finding.reason, finding.evidence, finding.advice, finding.only_if)
            if finding.advice
            else finding.operator
        )
        groups.setdefault(cure, []).append(finding)
    return [
        folded(group).model_copy(update={"operator": _names(group)} | ({"shapes": []} if len(group) > 1 else {}))
        for group in groups.values()
    ]


def _names(group: Sequence[schemas.OperatorFinding]) -> str:
    first, *others = (finding.operator for finding in group)
    return f"{first} and {len(others)} more" if len(group) > MOST_NAMED else ", ".join([first, *others])


def _growth(
    growth: schemas.GraphGrowth | None, operators: Iterable[schemas.OperatorFinding], on: str
) -> Iterator[Section]:
    """What ``--vary`` asked for: how many MPSGraphs are compiled for new shapes."""
    if growth is None:
        return
    tokens = growth.varied == "new-tokens"
    every = f"{one_line(growth.varied)} {number(growth.first)} to {number(growth.last)} compile"
    every = f"A generation of {number(growth.last)} tokens compiles" if tokens else every
    tried = ", ".join(map(number, growth.tried))
    lines = [
        f"{every} {_counted(growth.total)} graphs: {_counted(growth.each)} for each {'token' if tokens else 'value'}, "
        f"and {_counted(growth.fixed)} that all share. Predicted from runs with {tried}.",
        GRAPHS_STAY,
    ]
    unsure = [one_line(operator.operator) for operator in operators if operator.graph == "may"]
    if unsure and growth.total.least != growth.total.most:
        some = ", ".join(unsure[:MOST_UNSURE]) + (", …" if len(unsure) > MOST_UNSURE else "")
        lines.append(f"It is a range because of {some}: some of their calls have ready kernels, which compile nothing.")
    if growth.padded is not None and growth.padded_to is not None and growth.padded_to > 1:
        lines.append(f"Padded to multiples of {number(growth.padded_to)} they compile {_counted(growth.padded)}.")
    if growth.memory is not None:
        over = f"Over {growth.memory.batches} batches of such a {one_line(growth.varied)}"
        lines.append(f"{memory.over_many_sizes(growth.memory, over, 'likewise')}.")
    if growth.static is not None:
        lines.append(f"With a cache of one size (--cache static) it compiles {_counted(growth.static)}.")
    yield Section(f"MPSGraphs on {on}", bullets(lines))


def _counted(count: schemas.GraphCount) -> str:
    return between(number, count.least, count.most)


def _graphs(finding: schemas.OperatorFinding) -> str | None:
    """``every new shape compiles one: 4 in this run``; nothing where none is compiled."""
    when = GRAPHS.get(finding.graph or "")
    most = "" if finding.graph == "always" else "at most "
    return f"{when}: {most}{number(finding.graphs)} in this run" if when else None


def all_operators(report: AnyReport, view: str = OPERATORS) -> Section:
    """Every operator; where there is nothing else to see, on the first view."""
    title = f"{OPERATORS} on {_on(report)}"
    rows = table(FIELDS, report, ordered(report), title, filtered=True, most=MOST)
    return Section(title, rows, view=view, depth="all")


def records(report: schemas.CoverageReport) -> Iterator[dict[str, Cell]]:
    """The rows of a CSV file, by the keys of ``COLUMNS``: operators, then what is none, under verdicts of its own."""
    for row in operators(report, ordered(report)):
        yield {column.key: cell for column, cell in zip(COLUMNS, row, strict=True) if column.key}
    for left in report.not_judged:
        yield record(left.operator, "not_judged", left.calls, left.reason, left.call_sites)
    for read in report.data_dependence:
        yield record(read.operator, "data_dependence", read.calls, f"assumed {read.assumed}", read.call_sites)
    for name, calls, text in answer.compositions(report):
        yield record(name, "composed_otherwise", calls, text)
    for known in report.advisories:
        reason = f"{known.id}: {known.title}. When: {known.condition}. {known.symptom}"
        made = record("; ".join(known.operators), "advisory", known.calls, reason, known.call_sites)
        yield {**made, "phases": known.phases, "modules": fold_names(known.modules), "advice": known.workaround}
    if report.memory and not report.failure:
        yield memory.record(report.memory)
    if report.time:
        yield time.record(report.time)
    if report.compiled:
        yield from compiled.records(report.compiled)
    program = report.program
    for stayed in program.stayed_on_cpu if program else ():
        where = [stayed.call_site or ""]
        yield record(stayed.module, "stayed_on_cpu", stayed.calls, workload_lines.STAYED, where)
    for line in program.computed_on_cpu if program else ():
        where = [line.call_site or ""]
        yield record(", ".join(line.operators), "computed_on_cpu", line.calls, workload_lines.COMPUTED, where)
    for hint in program.cuda if program else ():
        yield record(hint.what, "written_for_cuda", hint.calls, f"write {hint.instead}", hint.call_sites)
    if report.failure:
        yield record("", "failure", 1, answer.failure_sentence(report.failure))


def _on(report: AnyReport) -> str:
    return backends.on_release(backends.target(report))


def _since(report: AnyReport, finding: schemas.OperatorFinding) -> str | None:
    return answer.since(finding, backends.release(backends.target(report)))


def _advice(report: AnyReport, finding: schemas.OperatorFinding) -> str | None:
    """The advice of the scanner that judged a finding, else the release that cures it."""
    if not SEVERITY[finding.verdict]:
        return None
    cure, software = _since(report, finding), backends.software(backends.target(report))
    upgrade = f"Native from {software} {cure} on: upgrade." if cure and finding.verdict != "unknown" else None
    known = (rewrite for rewrite in get_registry().rewrites() if finding.operator in rewrite.operators)
    rewrite = next(known, None) if finding.source != "dtype" else None
    also = f"{rewrite.command} writes it with other operators ({rewrite.name})." if rewrite else None
    return " ".join(filter(None, (finding.advice or upgrade, also))) or None


def _evidence(report: AnyReport, finding: schemas.OperatorFinding) -> str | None:
    """The kind of evidence, what it says, and of ``--explain`` who was asked: ``guard in the binary: linear for …``.

    ``None`` for a kernel that is registered and for an error of the program, which say it where nobody asked.
    """
    explained = report.kind == "coverage" and report.explained
    if not explained and (finding.source in (None, "registration") or answer.is_error(finding)):
        return None
    asked = f" (asked: {', '.join(map(one_line, finding.judges))})" if finding.judges and explained else ""
    if finding.source is None:
        return f"nothing: no table covers it{asked}"
    source = SOURCES[finding.source].format(backends.label(backends.target(report)))
    return f"{source}: {one_line(finding.evidence, 400)}{asked}" if finding.evidence else f"{source}{asked}"


def by_module(report: schemas.CoverageReport) -> Document:
    """As somebody reads it who edits the model: the headline, how much of each module is native, then what to do."""
    bars = Section("Operators by module", [*_module_bars(report)])
    return document(report)._replace(lines=(), brief=(), sections=[bars, *middle(report)])


def _module_bars(report: schemas.CoverageReport) -> Iterator[Block]:
    """One for each child of the first module that has several; below it those of its modules that have findings."""
    met: dict[str, set[tuple[str, str]]] = {}  # module → its operators, each with a verdict
    for operator in report.operators:
        for module in (operator.modules or [""]) if operator.verdict in SHOWN else ():
            met.setdefault(module, set()).add((operator.operator, operator.verdict))
    paths = [module.split(".") for module in met if module not in ("", ROOT)]
    depth = len([*takewhile(lambda names: len(set(names)) == 1, zip(*(path[:-1] for path in paths), strict=False))])
    children: dict[str, list[str]] = {}
    for module in met:
        children.setdefault(".".join(module.split(".")[: depth + 1]), []).append(module)
    rows: list[tuple[str, Mapping[str, int]]] = []
    for child, modules in children.items():
        rows.append((child or ROOT, _verdicts_of(met, modules)))
        inside = [
            module for module in modules if module != child and any(verdict != "native" for _, verdict in met[module])
        ]
        alike: dict[tuple[tuple[str, int], ...], list[str]] = {}
        for module in inside:
            alike.setdefault(tuple(_verdicts_of(met, [module]).items()), []).append(module)
        rows += [
            (f"  {name.removeprefix(child)}", dict(counts))
            for counts, names in [*alike.items()][:MOST_ALIKE]
            for name in fold_names(names)
        ]
    most = max((sum(counts.values()) for _, counts in rows), default=1)
    bars = [
        Bar(
            label,
            [Part(count / most, verdict, verdict) for verdict, count in counts.items()],
            ", ".join(f"{number(count)} {verdict}" for verdict, count in counts.items()),
        )
        for label, counts in rows
    ]
    if bars:
        yield Bars(bars, "Operators", [(verdict, verdict) for verdict in SHOWN])


def _verdicts_of(met: Mapping[str, Iterable[tuple[str, str]]], modules: Iterable[str]) -> dict[str, int]:
    """How many operators of ``modules`` have each verdict."""
    counts = Counter(verdict for _, verdict in {one for module in modules for one in met[module]})
    return {verdict: counts[verdict] for verdict in SHOWN if counts[verdict]}
