"""Two reports compared, as a document: what became worse, by how much, and how that is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from mpsprobe_exporters.answer import failure_sentence
from mpsprobe_exporters.document import Amount, Bar, Bars, Column, Document, Paragraph, Part, Section, bullets, table
from mpsprobe_exporters.plain_text import distinct, listed, one_line, plural, shortened
from mpsprobe_exporters.reports import configurations, memory
from mpsprobe_exporters.units import byte_size, duration, number, percent, plain, ratio

if TYPE_CHECKING:
    from mpsprobe import schemas
    from mpsprobe_exporters.document import Block, Fields

CONDITIONS = "The runs themselves differ: a difference in time may come from that"
COVERAGE_CONDITIONS = "The runs themselves differ"
UNPAIRED = "In one of the reports only: not compared"
QUIET = ("no difference", "too few samples", "not tested")
QUIET_TITLE = "Configurations of which nothing is known to differ: the step"
MOST_NAMED = 3
MOST_OPERATORS = 6
MOST_WHOLE = 4  # configurations up to which every quantity is shown
COLORS = {"slower": 4, "larger": 4, "faster": 1, "smaller": 1}
LEGEND = ((4, "slower, beyond noise"), (1, "faster, beyond noise"), (8, "within noise"))
QUANTITIES: Fields[None, tuple[str, schemas.ComparedQuantity]] = (
    (Column("quantity"), lambda _, row: row[0]),
    (Column("old", "amount", rank=2), lambda _, row: Amount(row[1].old, row[1].unit)),
    (Column("new", "amount"), lambda _, row: Amount(row[1].new, row[1].unit)),
    (Column("ratio", "ratio", about="new divided by old", rank=1), lambda _, row: row[1].ratio),
    (Column("95% interval", about="of the ratio", rank=3), lambda _, row: interval(row[1])),
    (Column("p", about="corrected for the number of tests", rank=4), lambda _, row: _p(row[1].adjusted_p_value)),
    (Column("difference", "verdict"), lambda _, row: row[1].difference),
)
OPERATORS: Fields[None, tuple[str, schemas.ComparedOperator]] = (
    (Column("configuration"), lambda _, row: row[0]),
    (Column("operator", "name"), lambda _, row: row[1].operator),
    (Column("calls", about="in one profiled step", rank=2), lambda _, row: _calls(row[1])),
    (Column("old", "time", about="self time in one profiled step", rank=1), lambda _, row: row[1].old_ns),
    (Column("new", "time"), lambda _, row: row[1].new_ns),
    (Column("ratio", "ratio"), lambda _, row: row[1].ratio or row[1].presence),
)
VERDICTS: Fields[None, schemas.ComparedVerdict] = (
    (Column("operator", "name"), lambda _, verdict: verdict.operator),
    (Column("release", rank=2), lambda _, verdict: verdict.release),
    (Column("old", "verdict", rank=1), lambda _, verdict: verdict.old or "-"),
    (Column("new", "verdict"), lambda _, verdict: verdict.new or "-"),
    (Column("change", "verdict"), lambda _, verdict: verdict.change),
)


def document(report: schemas.ComparisonReport) -> Document:
    loud, quiet = parted(report)
    names = list(dict.fromkeys(one_line(workload, 60) for workload in [*report.new.workloads, *report.old.workloads]))
    conditions = CONDITIONS if report.compares == "profile" else COVERAGE_CONDITIONS
    every = [(configuration(cell), operator) for cell in report.cells for operator in cell.operators]
    operators = (*OPERATORS, (Column("clock"), lambda _, one: one[1].clock))
    return Document(
        title=f"{', '.join(shortened(names, 2)) or 'reports'}: new against old",
        headline=short_answer(report),
        tone="bad" if report.regressions else "plain",
        alerts=failure_lines(report),
        lines=[_side_line(report)],
        sections=[
            Section("What to do", bullets(_to_do(report))),
            Section(conditions, bullets(condition_lines(report))),
            Section("Steps", list(_ratios(report)), depth="page"),
            Section("Verdicts", table(VERDICTS, None, report.verdicts, "Changed verdicts", filtered=True)),
            Section("Known wrong results", bullets(advisory_lines(report))),
            Section("Predicted memory", table(memory.CHANGED, None, memory.changes(report))),
            *(Section(configuration(cell), list(_cell(report, cell))) for cell in loud),
            Section(QUIET_TITLE, list(_quiet(quiet))),
            Section(UNPAIRED, bullets(f"{configuration(cell)}: {unpaired(cell)}" for cell in report.unpaired)),
            Section("When a difference counts", [Paragraph(line) for line in method_lines(report)], depth="all"),
            Section("", table(operators, None, every, filtered=True), view="Operators", depth="page"),
        ],
    )


def short_answer(report: schemas.ComparisonReport) -> str:
    """The comparison in a sentence without a full stop: which are the regressions, and how many things are better."""
    profile = report.compares == "profile"
    worse = list(_regressions_of_profiles(report) if profile else _regressions_of_coverage(report))
    better = _better_profiles(report) if profile else _other_changes(report)
    if worse or better:
        start = f"{plural(report.regressions, 'regression')}: {', '.join(shortened(worse, MOST_NAMED))}"
        return "; ".join([start if worse else "No regression", *([", ".join(better)] if better else [])])
    if not profile:
        return f"The same verdicts for {plural(report.same_verdicts, 'operator')}"
    tests = report.method.tests if report.method is not None else 0
    if not tests and any(
        quantity.difference == "too few samples" for cell in report.cells for quantity in cell.quantities
    ):
        return "Too few samples to know a difference from noise"
    return f"No difference beyond noise ({plural(tests, 'test')})"


def _regressions_of_profiles(report: schemas.ComparisonReport) -> Iterator[str]:
    """What does not run, what leaves MPS, then what is slower or larger, most first."""
    names = distinct([configuration(cell) for cell in report.cells])
    several = len(names) > 1
    pairs = [(f" ({name})" if several else "", cell) for name, cell in zip(names, report.cells, strict=True)]
    yield from (f"{where[2:-1] or 'it'} no longer runs to its end" for where, cell in pairs if cell.regression)
    for where, cell in pairs:
        yield from (
            f"{one_line(fallback.operator, 80)} now leaves MPS{where}"
            for fallback in cell.fallbacks
            if fallback.regression
        )
    regressions = [(quantity, where) for where, cell in pairs for quantity in cell.quantities if quantity.regression]
    regressions.sort(key=lambda pair: (pair[0].quantity != "step", -(pair[0].ratio or 0.0)))
    for one, where in regressions:
        by = f"{percent(one.ratio - 1)} " if one.ratio is not None else ""
        yield f"{one_line(one.name, 40)} {by}{one.difference}{where}"


def _better_profiles(report: schemas.ComparisonReport) -> list[str]:
    counts = Counter(
        quantity.difference
        for cell in report.cells
        for quantity in cell.quantities
        if quantity.quantity != "throughput"
    )
    return [
        f"{plural(counts[word], 'quantity', 'quantities')} {word}" for word in ("faster", "smaller") if counts[word]
    ]


def _regressions_of_coverage(report: schemas.ComparisonReport) -> Iterator[str]:
    yield from (f"the run{_on(failure.release)} now stops early" for failure in report.failures if failure.regression)
    for verdict in report.verdicts:
        if verdict.regression:
            before = f"was {verdict.old} and" if verdict.old is not None else "is new and"
            yield f"{one_line(verdict.operator, 80)} {before} is {verdict.new}{_on(verdict.release)}"
    for known in report.advisories:
        if known.regression:
            yield f"the known wrong result {one_line(known.id, 80)} is new{_on(known.release)}"


def _other_changes(report: schemas.ComparisonReport) -> list[str]:
    counts = Counter(verdict.change for verdict in report.verdicts if not verdict.regression)
    parts = [f"{plural(counts[word], 'verdict')} {word}" for word in ("better", "gone") if counts[word]]
    parts += [f"{plural(counts['new'], 'native operator')} new"] if counts["new"] else []
    same = [f"{number(report.same_verdicts)} as before"]
    return [*parts, *same] if parts or report.regressions else []


def _to_do(report: schemas.ComparisonReport) -> Iterator[str]:
    if not report.regressions:
        return
    workload = one_line(next(iter(report.new.workloads), "WORKLOAD"), 60)
    old, new = report.old.torch, report.new.torch
    if report.compares != "profile":
        yield f"mpsprobe coverage {workload} says what to do about each finding."
        if old is not None and old != new:
            yield f"Until then, stay with torch {one_line(old, 40)}, which does not have these regressions."
        return
    if report.conditions:
        yield "Measure both again under the same conditions, to see whether the difference stays."
    if not any(cell.operators for cell in report.cells):
        yield "Profile both with --probe operators: the comparison then names the operators that take longer."
    if any(fallback.regression for cell in report.cells for fallback in cell.fallbacks):
        yield f"mpsprobe coverage {workload} says what to do about operators that leave MPS."


def _side_line(report: schemas.ComparisonReport) -> str:
    workloads = dict.fromkeys([*report.new.workloads, *report.old.workloads])
    names = ", ".join(shortened([one_line(name, 60) for name in workloads], 5))
    what = {"profile": "profiles", "coverage": "coverage"}.get(report.compares, "coverage of many releases")
    incomplete = [which for which, side in (("old", report.old), ("new", report.new)) if not side.complete]
    cut = f"; the {' and the '.join(incomplete)} was interrupted" if incomplete else ""
    return f"{one_line(report.new.source)} against {one_line(report.old.source)}: {what} of {names}{cut}"


def condition_lines(report: schemas.ComparisonReport) -> list[str]:
    """``torch: 2.12.1, now 2.13.0``."""
    return [
        f"{one_line(condition.what, 100)}: {one_line(condition.old, 100)}, now {one_line(condition.new, 100)}"
        for condition in report.conditions
    ]


def configuration(key: schemas.ConfigurationKey | schemas.ProfileCell) -> str:
    """``bert-base training on mps, batch 8, sequence 128, float32``."""
    parts = [f"{one_line(key.workload, 60)} {one_line(key.phase, 20)} on {one_line(key.device, 20)}"]
    return ", ".join(filter(None, [*parts, *configurations.sizes(key), configurations.dtype(key)]))


def parted(report: schemas.ComparisonReport) -> tuple[list[schemas.ComparedCell], list[schemas.ComparedCell]]:
    """The configurations to show one by one, and, where there are many, those of which nothing differs."""
    if len(report.cells) <= MOST_WHOLE:
        return report.cells, []
    quiet = [
        cell
        for cell in report.cells
        if cell.old_failure is None and cell.new_failure is None
        if all(quantity.difference in QUIET for quantity in cell.quantities)
        if all(fallback.presence == "both" for fallback in cell.fallbacks)
    ]
    return [cell for cell in report.cells if cell not in quiet], quiet


def _cell(report: schemas.ComparisonReport, cell: schemas.ComparedCell) -> Iterator[Block]:
    whole = len(report.cells) <= MOST_WHOLE
    kept = [
        quantity
        for quantity in cell.quantities
        if whole or quantity.quantity == "step" or quantity.difference not in QUIET
    ]
    yield from table(QUANTITIES, None, [(one.name, one) for one in kept])
    left = Counter(quantity.difference for quantity in cell.quantities if quantity not in kept)
    others = [f"{plural(count, 'more quantity', 'more quantities')}: {word}" for word, count in left.items()]
    yield from bullets([*(["; ".join(others)] if others else []), *cell_notes(cell)])
    differing = [
        operator for operator in cell.operators if operator.presence != "both" or operator.old_ns != operator.new_ns
    ]
    if differing:
        clock = cell.operators[0].clock
        yield Paragraph(f"The operators whose own time on the {clock} differs most; measured once, so not tested:")
        yield from table(OPERATORS[1:], None, [("", operator) for operator in differing[:MOST_OPERATORS]])
    if cell.fallbacks:
        yield Paragraph("Operators that leave MPS:")
        yield from bullets(map(fallback_line, cell.fallbacks))


def interval(quantity: schemas.ComparedQuantity) -> str:
    """``0.980 to 1.020``, of the ratio; empty where there is none."""
    return (
        f"{ratio(quantity.low)} to {ratio(quantity.high)}"
        if quantity.low is not None and quantity.high is not None
        else ""
    )


def _p(p: float | None) -> str:
    return "" if p is None else f"{p:.3f}" if p >= 0.001 else "<0.001"


def _calls(operator: schemas.ComparedOperator) -> str:
    """``4``, ``4, now 5``."""
    calls = [plain(count) for count in (operator.old_calls, operator.new_calls) if count is not None]
    return ", now ".join(dict.fromkeys(calls))


def _quiet(quiet: Sequence[schemas.ComparedCell]) -> Iterator[Block]:
    """The step of each, and why something is not known; each reason once."""
    steps = [(cell, quantity) for cell in quiet for quantity in cell.quantities if quantity.quantity == "step"]
    names = distinct([configuration(cell) for cell, _ in steps])
    rows = [(name, one) for name, (_, one) in zip(names, steps, strict=True)]
    yield from table(((Column("configuration"), QUANTITIES[0][1]), *QUANTITIES[1:]), None, rows)
    yield from bullets(dict.fromkeys(note for cell in quiet for note in cell_notes(cell)))


def cell_notes(cell: schemas.ComparedCell) -> list[str]:
    """How the runs ended, what was compared, and why something is not known; each reason once."""
    lines = []
    for quantity in cell.quantities:
        if quantity.quantity == "step" and quantity.samples:
            old = plural(
                quantity.old_count, *(("process", "processes") if quantity.samples == "process" else ("step",))
            )
            lines.append(f"the test compares {old} of the old report with {number(quantity.new_count)} of the new one")
    reasons: dict[str, list[str]] = {}
    for quantity in cell.quantities:
        if quantity.note and quantity.quantity != "throughput":
            reasons.setdefault(one_line(quantity.note), []).append(one_line(quantity.name, 40))
    return [*ends(cell), *lines, *(f"{listed(names)}: {reason}" for reason, names in reasons.items())]


def ends(cell: schemas.ComparedCell) -> list[str]:
    if cell.new_failure is None:
        return ["runs to its end now, and did not before"] if cell.old_failure is not None else []
    stopped = "stopped in both" if cell.old_failure is not None else "stops now, and did not before"
    return [f"{stopped}: {one_line(cell.new_failure.error)}: {one_line(cell.new_failure.message)}"]


def fallback_line(fallback: schemas.ComparedFallback) -> str:
    """Whether an operator newly leaves MPS or no longer does, and what it costs."""
    verdicts = [
        one_line(verdict, 20) for verdict in (fallback.old_verdict, fallback.new_verdict) if verdict is not None
    ]
    now = fallback.presence != "gone"
    calls, spent, moved = (
        (fallback.new_calls, fallback.new_ns, fallback.new_bytes)
        if now
        else (fallback.old_calls, fallback.old_ns, fallback.old_bytes)
    )
    facts = [", now ".join(dict.fromkeys(verdicts))] if verdicts else []
    facts += [plural(calls, "call")] if calls is not None else []
    facts += [duration(spent)] if spent is not None else []
    facts += [f"{byte_size(moved)} copied"] if moved is not None else []
    word = {"new": "new", "gone": "gone", "both": "as before"}[fallback.presence]
    return f"{word}: {one_line(fallback.operator, 100)} ({', '.join(facts)})"


def unpaired(cell: schemas.UnpairedCell) -> str:
    return f"in the {'old' if cell.presence == 'gone' else 'new'} report only"


def advisory_lines(report: schemas.ComparisonReport) -> list[str]:
    return [
        f"{advisory.presence}{_on(advisory.release)}: {one_line(advisory.id, 100)}: {one_line(advisory.title)}"
        for advisory in report.advisories
    ]


def failure_lines(report: schemas.ComparisonReport) -> list[str]:
    return [
        f"{'before' if one.new is None else 'now'}{_on(one.release)}: {failure_sentence(failure)}"
        for one in report.failures
        if (failure := one.new or one.old) is not None
    ]


def _on(release: str | None) -> str:
    return f" on torch {one_line(release, 40)}" if release is not None else ""


def method_lines(report: schemas.ComparisonReport) -> list[str]:
    words = [one_line(report.method.words, None)] if report.method is not None else []
    return [*words, *(one_line(note) for note in report.notes)]


def _ratios(report: schemas.ComparisonReport) -> Iterator[Block]:
    """The ratio of each configuration's step with its interval, all on one scale around 1."""
    steps = [
        (cell, quantity)
        for cell in report.cells
        for quantity in cell.quantities
        if quantity.quantity == "step" and quantity.ratio
    ]
    if not steps:
        return
    ends = [1.0, *(end for _, one in steps for end in (one.ratio, one.low, one.high) if end is not None)]
    low, high = min(ends), max(ends)
    margin = (high - low) * 0.04 or 0.04
    low, wide = low - margin, high - low + 2 * margin

    def place(value: float | None, other: float) -> float:
        return ((other if value is None else value) - low) / wide

    rows = []
    for cell, one in steps:
        at = one.ratio or 1.0
        between = interval(one)
        said = f"{ratio(at)}{f' ({between})' if between else ''}, {one.difference}"
        part = Part(place(at, at), COLORS.get(one.difference, 8))
        rows.append(Bar(configuration(cell), [part], said, (place(one.low, at), place(one.high, at))))
    used = {COLORS.get(one.difference, 8) for _, one in steps}
    legend = [(color, said) for color, said in LEGEND if color in used]
    caption = f"New divided by old with its 95% interval, from {low:.2f} to {low + wide:.2f}; the line is 1: no change"
    yield Bars(rows, caption, legend, place(1.0, 1.0))
