"""When steps have settled: caches are filled, kernels compiled, clocks up."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

WINDOW = 5  # steps that are looked at together
CLOSE = 0.02  # how far the medians of two windows in a row may lie apart, as a share
TIGHT = 0.03  # how far the steps of one window may lie apart
MOST_STEPS = 50
MOST_NS = 60_000_000_000
RULE = (
    f"until {WINDOW} steps lie within {TIGHT:.0%} of each other, or the medians of two windows of {WINDOW} within "
    f"{CLOSE:.0%}; at most {MOST_STEPS} steps or {MOST_NS // 10**9} s"
)


def is_stable(durations: Sequence[float]) -> bool:
    """Whether the last of these steps, in order, are like those before them."""
    if len(durations) < WINDOW:
        return False
    last = durations[-WINDOW:]
    centre = median(last)
    if max(last) - min(last) <= TIGHT * centre:
        return True
    before = durations[-2 * WINDOW : -WINDOW]
    return len(before) == WINDOW and abs(centre - median(before)) <= CLOSE * centre


def is_enough(durations: Sequence[float]) -> bool:
    """Whether to go on with the timed steps although they have not settled."""
    return len(durations) >= MOST_STEPS or sum(durations) >= MOST_NS
