"""What a pair of profiled configurations has besides durations: operators, fallbacks, peaks of memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from mpsprobe.schemas.comparison import ComparedFallback, ComparedOperator, ComparedQuantity, Difference, Presence
from mpsprobe.schemas.profile import FallbackCost, ProfileCell

Clock = Literal["device", "host"]
PEAKS = (
    ("peak_allocated_bytes", "peak allocated"),
    ("peak_reserved_bytes", "peak reserved"),
    ("peak_process_bytes", "peak of the process"),
)
EXACT = "counted by the allocator"
SAMPLED = "the largest of samples, which can miss a short peak"
BEYOND = 1e18  # ns, bytes or calls that no run reaches
CACHING = "depends on what the allocator keeps back"


def bounded(value: float) -> float:
    """``value`` as a float; a report may hold any number, also one that no float can."""
    return float(min(max(value, -BEYOND), BEYOND))


def quotient(old: float, new: float) -> float | None:
    """New ÷ old of two amounts; ``None`` where that says nothing."""
    if not 0 < old <= BEYOND or not 0 <= new <= BEYOND:
        return None
    ratio = new / old
    return ratio if ratio <= BEYOND else None


def memory(before: ProfileCell, after: ProfileCell, threshold: float) -> Iterator[ComparedQuantity]:
    """The peaks of both.

    What tensors hold at most is the same in every run of the same steps where the allocator itself counts it, so that
    ``threshold`` alone decides. Samples, the allocator's reserve and the process's footprint are shown and not judged.
    """
    if before.memory is None or after.memory is None:
        return
    exact = before.memory.source == after.memory.source == "allocator"
    for field, name in PEAKS:
        old, new = getattr(before.memory, field), getattr(after.memory, field)
        if old is None or new is None or old <= 0 or new <= 0:
            continue
        ratio = quotient(old, new)
        difference: Difference = "not tested"
        judged = exact and field == "peak_allocated_bytes"
        if judged and ratio is not None:
            larger, smaller = ratio >= 1 + threshold, ratio <= 1 / (1 + threshold)
            difference = "larger" if larger else "smaller" if smaller else "no difference"
        yield ComparedQuantity(
            quantity="memory",
            name=name,
            unit="bytes",
            old=bounded(old),
            new=bounded(new),
            ratio=ratio,
            old_count=1,
            new_count=1,
            difference=difference,
            regression=difference == "larger",
            note=EXACT if judged else CACHING if exact else SAMPLED,
        )


def operators(before: ProfileCell, after: ProfileCell) -> list[ComparedOperator]:
    """Calls and self time of each operator in one profiled step, the largest difference first."""
    if not before.operators or not after.operators:
        return []
    timed = [[one.self_device_ns is not None for one in cell.operators] for cell in (before, after)]
    clock: Clock = "device" if all(map(any, timed)) else "host"
    olds, news = _per_step(before, clock), _per_step(after, clock)
    found = []
    for name in dict.fromkeys([*news, *olds]):
        old_calls, old_ns = olds.get(name, (None, None))
        new_calls, new_ns = news.get(name, (None, None))
        found.append(
            ComparedOperator(
                operator=name,
                clock=clock,
                presence=_presence(name in olds, name in news),
                old_calls=old_calls,
                new_calls=new_calls,
                old_ns=old_ns,
                new_ns=new_ns,
                ratio=quotient(old_ns, new_ns) if old_ns is not None and new_ns is not None else None,
            )
        )
    return sorted(found, key=lambda one: (-abs((one.new_ns or 0) - (one.old_ns or 0)), one.operator))


def fallbacks(before: ProfileCell, after: ProfileCell) -> list[ComparedFallback]:
    """The operators that leave MPS in either; one that does so newly is a regression."""
    olds, news = _once(before.fallbacks), _once(after.fallbacks)
    found = []
    for name in dict.fromkeys([*news, *olds]):
        old, new = olds.get(name), news.get(name)
        found.append(
            ComparedFallback(
                operator=name,
                presence=_presence(old is not None, new is not None),
                **_sides(old, new),
                regression=old is None,
            )
        )
    order = {"new": 0, "gone": 1, "both": 2}
    return sorted(found, key=lambda one: (order[one.presence], one.operator))


def _sides(old: FallbackCost | None, new: FallbackCost | None) -> dict[str, Any]:
    """``old_calls``, ``new_calls``, …: ``None`` for a side that has no such fallback."""
    fields = {"verdict": "verdict", "calls": "calls", "ns": "duration_ns", "bytes": "bytes"}
    sides = {"old": old, "new": new}
    return {
        f"{side}_{field}": getattr(one, name, None) for side, one in sides.items() for field, name in fields.items()
    }


def _presence(old: bool, new: bool) -> Presence:
    return "both" if old and new else "new" if new else "gone"


def _per_step(cell: ProfileCell, clock: Clock) -> dict[str, tuple[float, float]]:
    """Calls and self time of each operator for one step; an operator without device time has none of it."""
    steps = max(cell.profiled_steps, 1)
    found: dict[str, tuple[float, float]] = {}
    for one in cell.operators:
        calls, spent = found.get(one.operator, (0.0, 0.0))
        own = (one.self_device_ns or 0) if clock == "device" else one.self_host_ns
        found[one.operator] = (calls + bounded(one.calls) / steps, spent + bounded(own) / steps)
    return found


def _once(found: Sequence[FallbackCost]) -> dict[str, FallbackCost]:
    """Each operator once; the observed entry where there is one, which has the time."""
    kept: dict[str, FallbackCost] = {}
    for one in found:
        before = kept.get(one.operator)
        if before is None or (one.method == "observed" and before.method != "observed"):
            kept[one.operator] = one
    return kept
