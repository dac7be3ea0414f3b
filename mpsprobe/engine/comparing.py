"""Compares two profiles: which quantity differs, by how much, and whether by more than noise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from statistics import median
from typing import Any, Literal

from mpsprobe.engine import significance
from mpsprobe.engine.conditions import profile_conditions, side
from mpsprobe.engine.significance import LEVEL, Outcome
from mpsprobe.errors import ReportError
from mpsprobe.schemas.comparison import (
    ComparedCell,
    ComparedFallback,
    ComparedOperator,
    ComparedQuantity,
    ComparisonMethod,
    ComparisonReport,
    Difference,
    QuantityKind,
    UnpairedCell,
)
from mpsprobe.schemas.profile import ConfigurationKey, DurationStatistics, FallbackCost, ProfileCell, ProfileReport
from mpsprobe.suggestions import printable, some

THRESHOLD = 0.02
ONE_PROCESS = (
    "one process on each side: what differs from process to process (clocks, memory layout) cannot be separated from a "
    "change. Measure both with --processes 5"
)
UNEVEN = "one process on one side and several on the other: measure both with the same --processes"
NO_SAMPLES = {"step": "no steps in a report", "phase": "no samples for each process in a report"}
BELOW = "more than noise, but not beyond the threshold"
PEAKS = {
    "peak_allocated_bytes": "peak allocated",
    "peak_reserved_bytes": "peak reserved",
    "peak_process_bytes": "peak of the process",
}
EXACT = "counted by the allocator"
SAMPLED = "the largest of samples, which can miss a short peak"
CACHING = "depends on what the allocator keeps back"
BEYOND = 1e18  # ns, bytes or calls that no run reaches
_Tested = tuple[ComparedQuantity, Outcome | None]  # before the correction for many tests


def compare_profiles(
    old: ProfileReport, new: ProfileReport, sources: tuple[str, str], threshold: float = THRESHOLD
) -> ComparisonReport:
    """What differs from ``old`` to ``new``, which the user named ``sources``, by at least the share ``threshold``."""
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
    corrected = significance.adjust(
        [outcome.p_value for _, outcome in family], [outcome.smallest for _, outcome in family]
    )
    p_values = iter(corrected)
    cells = []
    for (before, after), part in zip(paired, tested, strict=True):
        quantities = [
            _settled(quantity, outcome, next(p_values), threshold, len(family)) if outcome is not None else quantity
            for quantity, outcome in part
        ]
        cells.append(
            ComparedCell(
                **_key(after).model_dump(),
                quantities=list(_with_throughput(quantities, before, after)),
                operators=_operators(before, after),
                fallbacks=_fallbacks(before, after),
                old_failure=before.failure,
                new_failure=after.failure,
                regression=after.failure is not None and before.failure is None,
            )
        )
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
    return cell.regression + sum(part.regression for parts in (cell.quantities, cell.fallbacks) for part in parts)


def bounded(value: float) -> float:
    """``value`` as a float; a report may hold any number, also one that no float can."""
    return float(min(max(value, -BEYOND), BEYOND))


def quotient(old: float, new: float) -> float | None:
    """New ÷ old of two amounts; ``None`` where that says nothing."""
    if not 0 < old <= BEYOND or not 0 <= new <= BEYOND:
        return None
    ratio = new / old
    return ratio if ratio <= BEYOND else None


def _key(cell: ProfileCell) -> ConfigurationKey:
    return ConfigurationKey.model_construct(**{name: getattr(cell, name) for name in ConfigurationKey.model_fields})


def _pairs(old: ProfileReport, new: ProfileReport) -> tuple[list[tuple[ProfileCell, ProfileCell]], list[UnpairedCell]]:
    """Cells that are alike, in the order of the new report; one that occurs twice is paired in order."""
    waiting: dict[ConfigurationKey, list[ProfileCell]] = {}
    for cell in old.cells:
        waiting.setdefault(_key(cell), []).append(cell)
    paired, unpaired = [], []
    for cell in new.cells:
        partners = waiting.get(_key(cell))
        if partners:
            paired.append((partners.pop(0), cell))
        else:
            unpaired.append(UnpairedCell(**_key(cell).model_dump(), presence="new"))
    gone = [key for key, cells in waiting.items() for _ in cells]
    return paired, [*unpaired, *(UnpairedCell(**key.model_dump(), presence="gone") for key in gone)]


def _shown(report: ProfileReport) -> str:
    keys = [_key(cell).model_dump(exclude_none=True).values() for cell in report.cells]
    shown = [" ".join(printable(str(part)[:40]) for part in key) for key in keys]
    return some(shown) or "none"


def _tested(before: ProfileCell, after: ProfileCell, threshold: float) -> Iterator[_Tested]:
    """Every quantity that both cells have, with its test where there are samples of it."""
    olds, news = _samples(before), _samples(after)
    for kind, name in (key for key in olds if key in news):
        if olds[kind, name] and news[kind, name]:
            yield _compared(kind, name, olds[kind, name], news[kind, name])
        elif (old := _in_short(before, kind, name)) and (new := _in_short(after, kind, name)):
            yield _untested(kind, name, old.median_ns, new.median_ns, NO_SAMPLES[kind])
    for quantity in _memory(before, after, threshold):
        yield quantity, None


def _samples(cell: ProfileCell) -> dict[tuple[QuantityKind, str], list[list[float]]]:
    """Durations process by process, of each quantity; none of a phase whose samples do not divide evenly."""
    steps: dict[int, list[float]] = {}
    for step in cell.steps:
        steps.setdefault(step.process, []).append(bounded(step.duration_ns))
    samples: dict[tuple[QuantityKind, str], list[list[float]]] = {
        ("step", "step"): list(steps.values()),
        ("first_call", "first call"): [[bounded(spent)] for spent in cell.first_call_ns],
    }
    for name in cell.phases:
        spent = [bounded(sample) for sample in cell.phase_samples_ns.get(name, [])]
        size, rest = divmod(len(spent), len(steps) or 1)
        starts = range(0, len(spent), size) if size and not rest else ()
        samples["phase", name] = [spent[start : start + size] for start in starts]
    return samples


def _in_short(cell: ProfileCell, kind: QuantityKind, name: str) -> DurationStatistics | None:
    return cell.step if kind == "step" else cell.phases.get(name) if kind == "phase" else None


def _compared(kind: QuantityKind, name: str, olds: list[list[float]], news: list[list[float]]) -> _Tested:
    """The quantity and its test: over processes where there are several on both sides, else over steps."""
    by_process = len(olds) > 1 and len(news) > 1
    first, second = (list(map(median, part)) if by_process else list(chain(*part)) for part in (olds, news))
    if min(*first, *second) <= 0:
        return _untested(kind, name, median(first), median(second), "a duration is not positive")
    outcome = significance.compare_processes(first, second) if by_process else significance.compare_steps(first, second)
    measured = min(len(first), len(second)) > 1  # of one sample a bootstrap has no width
    uneven = not by_process and len(olds) != len(news)
    quantity = ComparedQuantity(
        quantity=kind,
        name=name,
        unit="ns",
        old=outcome.old,
        new=outcome.new,
        ratio=outcome.ratio,
        low=outcome.low if measured else None,
        high=outcome.high if measured else None,
        samples=None if uneven else "process" if by_process or kind == "first_call" else "step",
        old_count=len(first),
        new_count=len(second),
        test=None if uneven else outcome.test,
        p_value=None if uneven else outcome.p_value,
        difference="too few samples",
        note=UNEVEN if uneven else None,
    )
    return quantity, None if uneven else outcome


def _untested(kind: QuantityKind, name: str, old: float, new: float, note: str) -> _Tested:
    return _once_measured(kind, name, old, new, unit="ns", note=note), None


def _once_measured(kind: QuantityKind, name: str, old: float, new: float, **more: Any) -> ComparedQuantity:
    ratio = quotient(old, new)
    return ComparedQuantity(quantity=kind, name=name, old=bounded(old), new=bounded(new), ratio=ratio, **more)


def _settled(
    quantity: ComparedQuantity, outcome: Outcome, p_value: float | None, threshold: float, tests: int
) -> ComparedQuantity:
    if p_value is None:
        note = f"too few to show any difference: measure {_enough(quantity, tests)} on each side"
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
    rates = {rate.unit: rate for rate in after.throughput}
    for quantity in quantities:
        yield quantity
        for rate in before.throughput if quantity.quantity == "step" else ():
            later = rates.get(rate.unit)
            if later is None:
                continue
            update = {
                "quantity": "throughput",
                "name": f"{rate.unit}/s",
                "unit": "per_second",
                "old": bounded(rate.per_second),
                "new": bounded(later.per_second),
                "ratio": quotient(rate.per_second, later.per_second),
                "low": 1 / quantity.high if quantity.high else None,
                "high": 1 / quantity.low if quantity.low else None,
                "regression": False,
                "note": "from the step time",
            }
            yield quantity.model_copy(update=update)


def _memory(before: ProfileCell, after: ProfileCell, threshold: float) -> Iterator[ComparedQuantity]:
    """The peaks of both.

    What tensors hold at most is the same in every run of the same steps where the allocator itself counts it, so that
    ``threshold`` alone decides. Samples, the allocator's reserve and the process's footprint are shown and not judged.
    """
    if before.memory is None or after.memory is None:
        return
    exact = before.memory.source == after.memory.source == "allocator"
    for field, name in PEAKS.items():
        old, new = getattr(before.memory, field), getattr(after.memory, field)
        if old is None or new is None or old <= 0 or new <= 0:
            continue
        ratio = quotient(old, new)
        difference: Difference = "not tested"
        judged = exact and field == "peak_allocated_bytes"
        if judged and ratio is not None:
            larger, smaller = ratio >= 1 + threshold, ratio <= 1 / (1 + threshold)
            difference = "larger" if larger else "smaller" if smaller else "no difference"
        note = EXACT if judged else CACHING if exact else SAMPLED
        more = {"difference": difference, "regression": difference == "larger", "note": note}
        yield _once_measured("memory", name, old, new, unit="bytes", old_count=1, new_count=1, **more)


def _operators(before: ProfileCell, after: ProfileCell) -> list[ComparedOperator]:
    """Calls and self time of each operator in one profiled step, the largest difference first."""
    if not before.operators or not after.operators:
        return []
    timed = [[operator.self_device_ns is not None for operator in cell.operators] for cell in (before, after)]
    clock: Literal["device", "host"] = "device" if all(map(any, timed)) else "host"
    olds, news = _per_step(before, clock), _per_step(after, clock)
    operators = []
    for name in dict.fromkeys([*news, *olds]):
        ratio = quotient(olds[name]["ns"], news[name]["ns"]) if name in olds and name in news else None
        operators.append(ComparedOperator(clock=clock, ratio=ratio, **_sides(name, olds, news)))
    return sorted(
        operators, key=lambda operator: (-abs((operator.new_ns or 0) - (operator.old_ns or 0)), operator.operator)
    )


def _per_step(cell: ProfileCell, clock: str) -> dict[str, dict[str, float]]:
    """Calls and self time of each operator for one step; an operator without device time has none of it."""
    steps = max(cell.profiled_steps, 1)
    totals: dict[str, dict[str, float]] = {}
    for operator in cell.operators:
        total = totals.setdefault(operator.operator, {"calls": 0.0, "ns": 0.0})
        own = (operator.self_device_ns or 0) if clock == "device" else operator.self_host_ns
        total["calls"] += bounded(operator.calls) / steps
        total["ns"] += bounded(own) / steps
    return totals


def _fallbacks(before: ProfileCell, after: ProfileCell) -> list[ComparedFallback]:
    """The operators that leave MPS in either; one that does so newly is a regression."""
    olds, news = _once(before.fallbacks), _once(after.fallbacks)
    names = dict.fromkeys([*news, *olds])
    fallbacks = [ComparedFallback(**_sides(name, olds, news), regression=name not in olds) for name in names]
    order = {"new": 0, "gone": 1, "both": 2}
    return sorted(fallbacks, key=lambda fallback: (order[fallback.presence], fallback.operator))


def _once(costs: Sequence[FallbackCost]) -> dict[str, dict[str, Any]]:
    """The figures of each operator; of the observed entry where there is one, which has the time."""
    kept: dict[str, FallbackCost] = {}
    for cost in costs:
        if cost.operator not in kept or (cost.method, kept[cost.operator].method) == ("observed", "predicted"):
            kept[cost.operator] = cost
    return {
        name: {"verdict": cost.verdict, "calls": cost.calls, "ns": cost.duration_ns, "bytes": cost.bytes}
        for name, cost in kept.items()
    }


def _sides(name: str, olds: Mapping[str, Mapping[str, Any]], news: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Fields of both reports about the operator ``name``: ``old_calls``, ``new_calls``, …, where they have it."""
    presence = "gone" if name not in news else "both" if name in olds else "new"
    old = {f"old_{figure}": value for figure, value in olds.get(name, {}).items()}
    new = {f"new_{figure}": value for figure, value in news.get(name, {}).items()}
    return {"operator": name, "presence": presence, **old, **new}


def _words(threshold: float, tests: int) -> str:
    return (
        f"Slower or faster: the test rejects at {LEVEL:.0%} after Holm's correction for {tests} tests, the 95% "
        f"interval of the ratio leaves out 1, and the difference is at least {threshold * 100:.3g}%. Where both "
        "sides have several processes the test is Welch's on the logarithms of their medians; else it is Mann-Whitney "
        "on the steps, corrected for their autocorrelation, and the whole interval has to lie beyond that share."
    )
