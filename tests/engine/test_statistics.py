"""Numbers that can be checked by hand, by another formula, or against scipy."""

from __future__ import annotations

import itertools
import math
import random
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpsprobe.engine.statistics import (
    bootstrap_interval,
    deviation,
    duration_statistics,
    mann_whitney,
    outliers,
    ranks,
)

DURATIONS = st.lists(st.integers(1, 10**12), min_size=1, max_size=40)


@settings(max_examples=30, deadline=None)
@given(DURATIONS)
def test_a_summary_is_ordered(samples: list[int]) -> None:
    summary = duration_statistics(samples)
    assert summary is not None and summary.count == len(samples)
    assert summary.minimum_ns <= summary.low_ns <= summary.high_ns <= summary.maximum_ns
    assert summary.minimum_ns <= summary.median_ns <= summary.maximum_ns
    assert summary.minimum_ns * (1 - 1e-12) <= summary.mean_ns <= summary.maximum_ns * (1 + 1e-12)
    assert summary.spread >= 0


def test_the_interval_holds_the_median_as_often_as_it_says() -> None:
    generator = random.Random(7)
    held = 0
    for seed in range(120):
        samples = [generator.lognormvariate(0, 0.3) for _ in range(25)]
        low, high = bootstrap_interval(samples, seed=seed)
        assert seed or bootstrap_interval(samples, seed=seed) == (low, high)
        held += low <= 1.0 <= high  # the median of a lognormal distribution with mu 0
    assert 0.88 <= held / 120 <= 1.0


def test_many_samples_take_no_longer_and_say_the_same() -> None:
    generator = random.Random(2)
    many = [generator.lognormvariate(0, 0.3) for _ in range(5000)]
    low, high = bootstrap_interval(many)
    # The asymptotic interval of the median: 1.96 / (2 f(m) sqrt(n)), with the density of this distribution at 1.
    half = 1.96 * 0.3 * math.sqrt(2 * math.pi) / 2 / math.sqrt(5000)
    centre = statistics.median(many)
    assert low == pytest.approx(centre - half, abs=0.3 * half) and high == pytest.approx(centre + half, abs=0.3 * half)


def test_the_deviation_of_a_normal_distribution() -> None:
    generator = random.Random(1)
    samples = [generator.gauss(100, 3) for _ in range(4000)]
    assert 2.8 < deviation(samples) < 3.2


def test_a_slow_step_is_an_outlier_and_a_usual_one_is_not() -> None:
    usual = [100.0, 101.0, 99.0, 100.5, 99.5, 100.2, 99.8]
    assert outliers([*usual, 180.0]) == [False] * len(usual) + [True]
    assert outliers([100.0, 300.0]) == [False, False]  # two samples say nothing of each other
    # A coarse clock makes none.
    assert not any(outliers([100.0] * 20 + [100.5])) and any(outliers([100.0] * 20 + [102.0]))


@pytest.mark.parametrize(
    ("one", "other", "p_value"),
    [
        ([1, 2, 3], [4, 5, 6], 2 / 20),  # 1 of 20 orders is as extreme, on each side
        ([5, 5, 5, 5], [5, 5, 5, 5], 1.0),
    ],
)
def test_rank_test_by_hand(one: list[float], other: list[float], p_value: float) -> None:
    assert mann_whitney(one, other) == pytest.approx(p_value)


def test_exact_rank_test_against_counting_all_orders() -> None:
    generator = random.Random(3)
    for n, m in [(2, 5), (4, 4), (3, 6)]:
        values = generator.sample(range(100), n + m)
        one, other = values[:n], values[n:]
        observed = sum(a > b for a in one for b in other)
        distance = abs(observed - n * m / 2)
        all_u = [
            sum(values[i] > values[j] for i in chosen for j in range(n + m) if j not in chosen)
            for chosen in itertools.combinations(range(n + m), n)
        ]
        expected = sum(abs(u - n * m / 2) >= distance for u in all_u) / len(all_u)
        assert mann_whitney(one, other) == pytest.approx(min(1.0, expected))


def test_the_approximation_meets_the_exact_test(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = random.Random(11)
    for shift in (0.0, 2.0, 4.0):
        one = [generator.gauss(100, 4) for _ in range(12)]
        other = [generator.gauss(100 + shift, 4) for _ in range(12)]
        exact = mann_whitney(one, other)
        with monkeypatch.context() as patch:
            patch.setattr("mpsprobe.engine.statistics.EXACT_LIMIT", 0)
            assert mann_whitney(one, other) == pytest.approx(exact, abs=0.01)


def test_ties_weaken_the_test_by_the_tie_correction() -> None:
    one, other = [1.0] * 10 + [2.0] * 20, [1.0] * 20 + [2.0] * 10
    # By hand: U = 300, mean 450, tie term 2 * (30^3 - 30), variance 30 * 30 / 12 * (61 - 53940 / (60 * 59)).
    z = (150 - 0.5) / math.sqrt(900 / 12 * (61 - 53940 / 3540))
    assert mann_whitney(one, other) == pytest.approx(math.erfc(z / math.sqrt(2)))


def test_equal_samples_share_their_mean_rank() -> None:
    assert ranks([5.0, 1.0, 5.0, 3.0, 5.0]) == [4.0, 1.0, 4.0, 2.0, 4.0]
