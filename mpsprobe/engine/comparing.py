"""Compares two profiles: which quantity differs, by how much, and whether by more than noise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import Any

from mpsprobe.engine import significance
from mpsprobe.engine.comparing_parts import bounded, fallbacks, memory, operators, quotient
from mpsprobe.engine.conditions import profile_conditions, side
from mpsprobe.engine.significance import LEVEL, Outcome, adjust, compare_processes, compare_steps
from mpsprobe.errors import ReportError
from mpsprobe.schemas.comparison import (
    ComparedCell,
    ComparedQuantity,
    ComparisonMethod,
    ComparisonReport,
    ConfigurationKey,
    Difference,
    UnpairedCell,
)
from mpsprobe.schemas.profile import ProfileCell, ProfileReport
from mpsprobe.suggestions import printable

THRESHOLD = 0.02
ONE_PROCESS = (
    "one process on each side: what differs from process to process (clocks, memory layout) cannot be separated from a "
    "change. Measure both with --processes 5"
)
UNEVEN = "one process on one side and several on the other: measure both with the same --processes"
BELOW = "more than noise, but not beyond the threshold"
_KEY = tuple(ConfigurationKey.model_fields)
_Tested = tuple[ComparedQuantity, Outcome | None]  # before the correction for many tests


def compare_profiles(
    old: ProfileReport, new: ProfileReport, sources: tuple[str, str], threshold: float = THRESHOLD
) -> ComparisonReport:
    """What differs from ``old`` to ``new``.

    Args:
        old, new: the reports.
        sources: how the user named them.
        threshold: the least share that counts, 0.02 for 2 %.

    Raises:
        ReportError: they have no configuration in common; says what each has.
    """
    paired, unpaired = _pairs(old, new)
    if not paired:
        shown = "; ".join(
            f"{printable(name)} has {_shown(report)}" for name, report in zip(sources, (old, new), strict=True)
        )
        raise ReportError(
            f"the profiles have no configuration in common: {shown}",
            "A configuration is workload, phase, device, batch size, sequence length, dtype and autocast.",
        )
    tested = [list(_tested(before, after, threshold)) for before, after in paired]
    family = [(quantity, outcome) for part in tested for quantity, outcome in part if outcome is not None]
    corrected = adjust([one.p_value for _, one in family], [one.smallest for _, one in family])
    p_values = iter(corrected)
    cells = []
    for (before, after), part in zip(paired, tested, strict=True):
        quantities = [
            _settled(quantity, outcome, next(p_values), threshold, len(family)) if outcome is not None else quantity
            for quantity, outcome in part
        ]
        cells.append(_cell(before, after, [*_with_throughput(quantities, before, after)]))
    tests = sum(p_value is not None for p_value in corrected)
    return ComparisonReport(
        compares="profile",
        old=side(old, sources[0]),
        new=side(new, sources[1]),
        conditions=profile_conditions(old, new, paired),
        method=ComparisonMethod(level=LEVEL, threshold=threshold, tests=tests, words=_words(threshold, tests)),
        cells=cells,
        unpaired=unpaired,
        regressions=sum(map(_regressions, cells)),
        notes=[ONE_PROCESS] if any(quantity.samples == "step" for quantity, _ in family) else [],
    )


def _regressions(cell: ComparedCell) -> int:
    return cell.regression + sum(one.regression for part in (cell.quantities, cell.fallbacks) for one in part)


def _pairs(old: ProfileReport, new: ProfileReport) -> tuple[list[tuple[ProfileCell, ProfileCell]], list[UnpairedCell]]:
    """Cells that are alike, in the order of the new report; one that occurs twice is paired in order."""
    waiting: dict[tuple[Any, ...], list[ProfileCell]] = {}
    for cell in old.cells:
        waiting.setdefault(_key(cell), []).append(cell)
    paired, unpaired = [], []
    for cell in new.cells:
        partners = waiting.get(_key(cell))
        if partners:
            paired.append((partners.pop(0), cell))
        else:
            unpaired.append(UnpairedCell.model_validate({**_names(cell), "presence": "new"}))
    gone = [cell for cells in waiting.values() for cell in cells]
    unpaired += [UnpairedCell.model_validate({**_names(cell), "presence": "gone"}) for cell in gone]
    return paired, unpaired


def _key(cell: ProfileCell) -> tuple[Any, ...]:
    return tuple(getattr(cell, name) for name in _KEY)


def _names(cell: ProfileCell) -> dict[str, Any]:
    return {name: getattr(cell, name) for name in _KEY}


def _shown(report: ProfileReport) -> str:
    """What a report has, short enough for an error."""
    found = [" ".join(printable(str(part)[:40]) for part in _key(cell) if part is not None) for cell in report.cells]
    return ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "") if found else "none"


def _cell(before: ProfileCell, after: ProfileCell, quantities: list[ComparedQuantity]) -> ComparedCell:
    return ComparedCell(
        quantities=quantities,
        operators=operators(before, after),
        fallbacks=fallbacks(before, after),
        old_failure=before.failure,
        new_failure=after.failure,
        regression=after.failure is not None and before.failure is None,
        **_names(after),
    )


def _tested(before: ProfileCell, after: ProfileCell, threshold: float) -> Iterator[_Tested]:
    """Every quantity that both cells have, with its test where there are samples of it."""
    olds, news = _by_process(before), _by_process(after)
    if olds and news:
        yield _compared("step", "step", olds, news)
    elif before.step is not None and after.step is not None:
        yield _untested("step", "step", before.step.median_ns, after.step.median_ns, "no steps in a report")
    if before.first_call_ns and after.first_call_ns:
        calls = ([[bounded(one)] for one in cell.first_call_ns] for cell in (before, after))
        yield _compared("first_call", "first call", *calls)
    for name, phase in before.phases.items():
        later = after.phases.get(name)
        if later is None:
            continue
        parts = [_split(cell.phase_samples_ns.get(name, []), len(_by_process(cell)) or 1) for cell in (before, after)]
        untested = "phase", name, phase.median_ns, later.median_ns, "no samples for each process in a report"
        yield _compared("phase", name, *parts) if all(parts) else _untested(*untested)
    for quantity in memory(before, after, threshold):
        yield quantity, None


def _by_process(cell: ProfileCell) -> list[list[float]]:
    """The timed steps of each process, in their order."""
    found: dict[int, list[float]] = {}
    for step in cell.steps:
        found.setdefault(step.process, []).append(bounded(step.duration_ns))
    return list(found.values())


def _split(samples: Sequence[int], processes: int) -> list[list[float]]:
    """Samples that were put one after the other, process by process; none where they do not divide evenly."""
    size, rest = divmod(len(samples), processes)
    if not size or rest:
        return []
    return [[bounded(one) for one in samples[start : start + size]] for start in range(0, len(samples), size)]


def _compared(kind: Any, name: str, olds: list[list[float]], news: list[list[float]]) -> _Tested:
    """The quantity and its test: over processes where there are several on both sides, else over steps."""
    by_process = len(olds) > 1 and len(news) > 1
    first, second = (
        [median(group) for group in part] if by_process else [one for group in part for one in group]
        for part in (olds, news)
    )
    if min(*first, *second) <= 0:
        return _untested(kind, name, median(first), median(second), "a duration is not positive")
    test: Callable[..., Outcome] = compare_processes if by_process else compare_steps
    outcome = test(first, second)
    measured = min(len(first), len(second)) > 1
    quantity = ComparedQuantity(
        quantity=kind,
        name=name,
        unit="ns",
        old=outcome.old,
        new=outcome.new,
        ratio=outcome.ratio,
        low=outcome.low if measured else None,  # of one sample a bootstrap has no width
        high=outcome.high if measured else None,
        samples="process" if by_process or kind == "first_call" else "step",
        old_count=len(first),
        new_count=len(second),
        test=outcome.test,
        p_value=outcome.p_value,
        difference="too few samples",
    )
    if not by_process and len(olds) != len(news):
        return quantity.model_copy(update={"samples": None, "p_value": None, "test": None, "note": UNEVEN}), None
    return quantity, outcome


def _untested(kind: Any, name: str, old: float, new: float, note: str) -> _Tested:
    ratio = quotient(old, new)
    return ComparedQuantity(
        quantity=kind, name=name, unit="ns", old=bounded(old), new=bounded(new), ratio=ratio, note=note
    ), None


def _settled(
    quantity: ComparedQuantity, outcome: Outcome, p_value: float | None, threshold: float, tests: int
) -> ComparedQuantity:
    """The quantity with what the corrected test says about it."""
    if p_value is None:
        note = f"so few could not show a difference whatever they were; {_enough(quantity, tests)} on each side can"
        return quantity.model_copy(update={"note": note})
    significant = p_value < LEVEL and not outcome.low <= 1 <= outcome.high
    # Steps of one process say nothing of how processes differ, which they do: then the whole interval has to be beyond.
    slow, fast = (outcome.ratio,) * 2 if quantity.samples == "process" else (outcome.low, outcome.high)
    difference: Difference = "no difference"
    if significant and slow >= 1 + threshold:
        difference = "slower"
    elif significant and fast <= 1 / (1 + threshold):
        difference = "faster"
    update = {
        "adjusted_p_value": p_value,
        "difference": difference,
        "regression": difference == "slower",
        "note": BELOW if significant and difference == "no difference" else None,
    }
    return quantity.model_copy(update=update)


def _enough(quantity: ComparedQuantity, tests: int) -> str:
    """How many samples would do if all other quantities had enough."""
    if quantity.samples == "process" or quantity.quantity == "phase":  # Welch's test has no smallest p-value
        return "2 processes"
    few = range(significance.FEWEST_STEPS, 200)
    count = next((n for n in few if significance.smallest_rank_p(n, n) <= LEVEL / max(tests, 1)), few.stop)
    return f"{count} steps"


def _with_throughput(
    quantities: list[ComparedQuantity], before: ProfileCell, after: ProfileCell
) -> Iterator[ComparedQuantity]:
    """The quantities, and after the step what goes through in a second: its inverse, so it has no test of its own."""
    rates = {one.unit: one for one in after.throughput}
    for quantity in quantities:
        yield quantity
        if quantity.quantity != "step":
            continue
        for one in before.throughput:
            later = rates.get(one.unit)
            if later is None:
                continue
            yield quantity.model_copy(
                update={
                    "quantity": "throughput",
                    "name": f"{one.unit}/s",
                    "unit": "per_second",
                    "old": bounded(one.per_second),
                    "new": bounded(later.per_second),
                    "ratio": quotient(one.per_second, later.per_second),
                    "low": 1 / quantity.high if quantity.high else None,
                    "high": 1 / quantity.low if quantity.low else None,
                    "regression": False,
                    "note": "from the step time",
                }
            )


def _words(threshold: float, tests: int) -> str:
    return (
        f"Slower or faster: the test rejects at {LEVEL:.0%} after Holm's correction for {tests} tests, the 95 % "
        f"interval of the ratio leaves out 1, and the difference is at least {threshold * 100:.3g} %. Where both "
        "sides have several processes the test is Welch's on the logarithms of their medians; else it is Mann-Whitney "
        "on the steps, corrected for their autocorrelation, and the whole interval has to lie beyond that share."
    )
