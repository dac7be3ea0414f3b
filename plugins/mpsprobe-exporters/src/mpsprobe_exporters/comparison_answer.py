"""What a comparison says, in sentences and rows. Every format takes its words from here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from mpsprobe_exporters.answer import failure_sentence
from mpsprobe_exporters.plain_text import distinct, listed, one_line, plural, shortened
from mpsprobe_exporters.units import byte_size, duration, measured, number, plain, ratio

if TYPE_CHECKING:
    from mpsprobe.schemas import (
        ComparedCell,
        ComparedFallback,
        ComparedOperator,
        ComparedQuantity,
        ComparisonReport,
        ConfigurationKey,
    )

CONDITIONS = "The runs themselves differ: a difference in time may come from that"
COVERAGE_CONDITIONS = "The runs themselves differ"
UNPAIRED = "Without a partner: not compared"
OPERATORS = "Operators, self time in one step, the largest differences: measured once, so not tested"
FALLBACKS = "Operators that leave MPS"
VERDICTS = "Verdicts"
ADVISORIES = "Known wrong results"
MOST_OPERATORS = 6
MOST_WHOLE = 4  # configurations up to which every quantity is shown
QUIET = ("no difference", "too few samples", "not tested")
QUIET_TITLE = "Configurations of which nothing is known to differ: the step"
TITLES = ("quantity", "old", "new", "ratio", "95 % interval", "p", "difference")
OPERATOR_TITLES = ("operator", "calls", "old", "new", "ratio")


class QuantityRow(NamedTuple):
    """One quantity as a table shows it; ``p`` is corrected for the number of tests."""

    name: str
    old: str
    new: str
    ratio: str
    interval: str
    p: str
    difference: str


def short_answer(report: ComparisonReport) -> str:
    """The comparison in a sentence without a full stop."""
    return _profile_answer(report) if report.compares == "profile" else _coverage_answer(report)


def _profile_answer(report: ComparisonReport) -> str:
    quantities = [one for cell in report.cells for one in cell.quantities if one.quantity != "throughput"]
    parts = []
    for word in ("slower", "larger"):
        parts += _counted(sum(one.difference == word and one.regression for one in quantities), "quantity", word)
    parts += _counted(
        sum(one.regression for cell in report.cells for one in cell.fallbacks), "operator", "newly off MPS"
    )
    parts += _counted(sum(cell.regression for cell in report.cells), "configuration", "no longer to its end")
    better = []
    for word in ("faster", "smaller"):
        better += _counted(sum(one.difference == word for one in quantities), "quantity", word)
    tests = report.method.tests if report.method is not None else 0
    if not parts and not better:
        if not tests and any(one.difference == "too few samples" for one in quantities):
            return "Too few samples to tell a difference from noise"
        return f"No difference beyond noise ({plural(tests, 'test')})"
    start = f"{plural(report.regressions, 'regression')}: {listed(parts)}" if parts else "No regression"
    return "; ".join([start, *([listed(better)] if better else [])])


def _counted(count: int, noun: str, word: str) -> list[str]:
    several = noun.removesuffix("y") + "ies" if noun.endswith("y") else noun + "s"
    return [f"{plural(count, noun, several)} {word}"] if count else []


def _coverage_answer(report: ComparisonReport) -> str:
    changes = {word: sum(one.change == word for one in report.verdicts) for word in ("worse", "better", "new", "gone")}
    parts = [f"{plural(count, 'verdict')} {word}" for word, count in changes.items() if count and word != "new"]
    new = sum(one.change == "new" for one in report.verdicts)
    bad = sum(one.change == "new" and one.regression for one in report.verdicts)
    parts += [f"{plural(new, 'operator')} new" + (f" ({number(bad)} not native)" if bad else "")] if new else []
    fresh = sum(one.presence == "new" for one in report.advisories)
    parts += [f"{plural(fresh, 'known wrong result')} new"] if fresh else []
    stopped = sum(one.regression for one in report.failures)
    parts += [f"{plural(stopped, 'run')} newly stopped"] if stopped else []
    if not parts:
        return f"The same verdicts for {plural(report.same_verdicts, 'operator')}"
    return f"{plural(report.regressions, 'regression')}: {listed(parts)}, {number(report.same_verdicts)} as before"


def side_line(report: ComparisonReport) -> str:
    """Which reports, of what."""
    workloads = dict.fromkeys([*report.new.workloads, *report.old.workloads])
    names = ", ".join(shortened([one_line(name, 60) for name in workloads], 5))
    what = {"profile": "profiles", "coverage": "coverage"}.get(report.compares, "coverage of many releases")
    incomplete = [which for which, side in (("old", report.old), ("new", report.new)) if not side.complete]
    cut = f"; the {' and the '.join(incomplete)} was interrupted" if incomplete else ""
    return f"{one_line(report.new.source)} against {one_line(report.old.source)}: {what} of {names}{cut}"


def conditions_title(report: ComparisonReport) -> str:
    """The heading of what differs about the runs themselves."""
    return CONDITIONS if report.compares == "profile" else COVERAGE_CONDITIONS


def condition_lines(report: ComparisonReport) -> list[str]:
    """``torch: 2.12.1, now 2.13.0``."""
    return [
        f"{one_line(one.what, 100)}: {one_line(one.old, 100)}, now {one_line(one.new, 100)}"
        for one in report.conditions
    ]


def configuration(key: ConfigurationKey) -> str:
    """``bert-base training on mps, batch 8, sequence 128, float32``."""
    parts = [f"{one_line(key.workload, 60)} {one_line(key.phase, 20)} on {one_line(key.device, 20)}"]
    parts += [f"batch {number(key.batch_size)}"] if key.batch_size is not None else []
    parts += [f"sequence {number(key.seq_len)}"] if key.seq_len is not None else []
    parts += [one_line(key.dtype, 20)] if key.dtype else []
    parts += [f"autocast {one_line(key.autocast, 20)}"] if key.autocast else []
    return ", ".join(parts)


def parted(report: ComparisonReport) -> tuple[list[ComparedCell], list[ComparedCell]]:
    """The configurations to show one by one, and, where there are many, those of which nothing differs."""
    if len(report.cells) <= MOST_WHOLE:
        return report.cells, []
    quiet = [cell for cell in report.cells if _is_quiet(cell)]
    return [cell for cell in report.cells if cell not in quiet], quiet


def _is_quiet(cell: ComparedCell) -> bool:
    ended = cell.old_failure is None and cell.new_failure is None
    told = any(one.difference not in QUIET for one in cell.quantities)
    return ended and not told and all(one.presence == "both" for one in cell.fallbacks)


def quiet_rows(quiet: Sequence[ComparedCell]) -> list[tuple[str, ...]]:
    """The step of each, as ``TITLES`` has it, with the configuration for a name."""
    steps = [(cell, one) for cell in quiet for one in cell.quantities if one.quantity == "step"]
    names = distinct([configuration(cell) for cell, _ in steps])
    return [(name, *_row(one)[1:]) for name, (_, one) in zip(names, steps, strict=True)]


def shown_quantities(report: ComparisonReport, cell: ComparedCell) -> tuple[list[QuantityRow], str]:
    """The rows of a configuration, and a sentence about those that are left out.

    Of many configurations each has its step and what differs.
    """
    whole = len(report.cells) <= MOST_WHOLE
    kept = [one for one in cell.quantities if whole or one.quantity == "step" or one.difference not in QUIET]
    left: dict[str, int] = {}
    for one in cell.quantities:
        if one not in kept:
            left[one.difference] = left.get(one.difference, 0) + 1
    others = (f"{plural(count, 'more quantity', 'more quantities')}: {word}" for word, count in left.items())
    return [_row(one) for one in kept], "; ".join(others)


def _row(one: ComparedQuantity) -> QuantityRow:
    return QuantityRow(
        name=one_line(one.name, 40),
        old=measured(one.old, one.unit),
        new=measured(one.new, one.unit),
        ratio="" if one.ratio is None else ratio(one.ratio),
        interval=interval(one),
        p="" if one.adjusted_p_value is None else probability(one.adjusted_p_value),
        difference=one.difference,
    )


def interval(one: ComparedQuantity) -> str:
    """``0.980 to 1.020``, of the ratio; empty where there is none."""
    return f"{ratio(one.low)} to {ratio(one.high)}" if one.low is not None and one.high is not None else ""


def probability(p: float) -> str:
    """``0.020``, ``<0.001``."""
    return f"{p:.3f}" if p >= 0.001 else "<0.001"


def quiet_notes(quiet: Sequence[ComparedCell]) -> list[str]:
    """Why something could not be told of several configurations; each reason once."""
    return list(dict.fromkeys(note for cell in quiet for note in cell_notes(cell)))


def cell_notes(cell: ComparedCell) -> list[str]:
    """How the runs ended, and why something could not be told; each reason once."""
    lines = []
    if cell.new_failure is not None:
        stopped = "stopped in both" if cell.old_failure is not None else "stops now, and did not before"
        error = f"{one_line(cell.new_failure.error)}: {one_line(cell.new_failure.message)}"
        lines.append(f"{stopped}: {error}")
    elif cell.old_failure is not None:
        lines.append("runs to its end now, and did not before")
    reasons: dict[str, list[str]] = {}
    for one in cell.quantities:
        if one.note and one.quantity != "throughput":
            reasons.setdefault(one_line(one.note), []).append(one_line(one.name, 40))
    return [*lines, *(f"{listed(names)}: {reason}" for reason, names in reasons.items())]


def operator_rows(cell: ComparedCell) -> list[tuple[str, ...]]:
    """The operators whose time differs most, as ``OPERATOR_TITLES`` has them."""
    differing = [one for one in cell.operators if one.presence != "both" or one.old_ns != one.new_ns]
    return [_operator(one) for one in differing[:MOST_OPERATORS]]


def _operator(one: ComparedOperator) -> tuple[str, ...]:
    calls = [one.old_calls, one.new_calls]
    known = list(dict.fromkeys(plain(count) for count in calls if count is not None))
    factor = one.presence if one.ratio is None else ratio(one.ratio)
    spent = ["" if value is None else duration(value) for value in (one.old_ns, one.new_ns)]
    return (one_line(one.operator, 80), ", now ".join(known), *spent, factor)


def operators_title(cell: ComparedCell) -> str:
    """The heading above the operators, with whose clock it was."""
    return OPERATORS.replace("self time", f"self time on the {cell.operators[0].clock}") if cell.operators else ""


def fallback_lines(cell: ComparedCell) -> list[str]:
    """What newly leaves MPS, what no longer does, and what it costs."""
    return [_fallback(one) for one in cell.fallbacks]


def _fallback(one: ComparedFallback) -> str:
    verdicts = [one_line(verdict, 20) for verdict in (one.old_verdict, one.new_verdict) if verdict is not None]
    now = one.presence != "gone"
    calls, spent, moved = (
        (one.new_calls, one.new_ns, one.new_bytes) if now else (one.old_calls, one.old_ns, one.old_bytes)
    )
    facts = [", now ".join(dict.fromkeys(verdicts))] if verdicts else []
    facts += [plural(calls, "call")] if calls is not None else []
    facts += [duration(spent)] if spent is not None else []
    facts += [f"{byte_size(moved)} copied"] if moved is not None else []
    word = {"new": "new", "gone": "gone", "both": "as before"}[one.presence]
    return f"{word}: {one_line(one.operator, 100)} ({', '.join(facts)})"


def unpaired_lines(report: ComparisonReport) -> list[str]:
    """The configurations that only one report has."""
    return [f"{configuration(one)}: in the {_only(one.presence)} report only" for one in report.unpaired]


def _only(presence: str) -> str:
    return "old" if presence == "gone" else "new"


def verdict_rows(report: ComparisonReport) -> list[tuple[str, str, str, str, str]]:
    """Operator, release (of a matrix), old and new verdict, and what that is; regressions first."""
    return [
        (one_line(one.operator, 160), one_line(one.release or "", 40), one.old or "-", one.new or "-", one.change)
        for one in report.verdicts
    ]


def advisory_lines(report: ComparisonReport) -> list[str]:
    """Known wrong results that are new, or gone."""
    return [
        f"{one.presence}{_on(one.release)}: {one_line(one.id, 100)}: {one_line(one.title)}" for one in report.advisories
    ]


def failure_lines(report: ComparisonReport) -> list[str]:
    """How the runs of coverage ended, where that differs."""
    lines = []
    for one in report.failures:
        start = f"now{_on(one.release)}" if one.new is not None else f"before{_on(one.release)}"
        failure = one.new or one.old
        if failure is not None:
            lines.append(f"{start}: {failure_sentence(failure)}")
    return lines


def _on(release: str | None) -> str:
    return f" on torch {one_line(release, 40)}" if release is not None else ""


def method_lines(report: ComparisonReport) -> list[str]:
    """How a difference was told from noise, and what a reader should know of it."""
    words = [one_line(report.method.words, None)] if report.method is not None else []
    return [*words, *(one_line(note) for note in report.notes)]
