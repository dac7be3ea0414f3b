"""When the steps have settled."""

from __future__ import annotations

import pytest

from mpsprobe.engine import warmup


@pytest.mark.parametrize(
    ("durations", "stable"),
    [
        ([], False),
        ([100.0] * 4, False),  # too few to tell
        ([100.0] * 5, True),
        ([900.0, 400.0, 200.0, 120.0, 110.0], False),
        ([900.0, 400.0, 102.0, 100.0, 101.0, 100.5, 100.2], True),
        ([100.0, 110.0, 90.0, 105.0, 95.0] * 2, True),  # noisy, but the noise has no direction
        ([100.0, 98.0, 96.0, 94.0, 92.0, 90.0, 88.0, 86.0, 84.0, 82.0], False),  # still getting faster
    ],
)
def test_is_stable(durations: list[float], stable: bool) -> None:
    assert warmup.is_stable(durations) is stable


def test_a_warm_up_ends_by_count_and_by_time() -> None:
    falling = [1000.0 / (n + 1) for n in range(warmup.MOST_STEPS)]
    assert not warmup.is_enough(falling[:-1]) and warmup.is_enough(falling)
    assert warmup.is_enough([61e9])
