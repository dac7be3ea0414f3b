"""Statistics by hand, against scipy, against counting, and against what tests of significance promise."""

from __future__ import annotations

import itertools
import math
import random
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from mpsprobe.engine.significance import (
    FEWEST_STEPS,
    LEVEL,
    adjust,
    compare_processes,
    compare_steps,
    smallest_rank_p,
    student_quantile,
    student_tail,
)
from mpsprobe.engine.statistics import bootstrap_interval, deviation, duration_statistics, mann_whitney, outliers, ranks

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
    assert mann_whitney([1, 2, 3], [4, 5, 6]) == pytest.approx(2 / 20)  # 1 of 20 orders is as extreme, on each side
    assert mann_whitney([5, 5, 5, 5], [5, 5, 5, 5]) == mann_whitney([1, 4], [2, 3]) == 1.0


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


@pytest.mark.parametrize("freedom", [1.0, 1.7, 2.0, 4.3, 10.0, 77.5, 1e4])
def test_student_is_that_of_scipy(freedom: float) -> None:
    for t in (0.0, 0.01, 0.5, 1.0, 2.0, 5.0, 50.0):
        assert student_tail(t, freedom) == pytest.approx(stats.t.sf(t, freedom), rel=1e-8, abs=1e-14)
    for probability in (0.5, 0.9, 0.975, 0.9995):
        expected = stats.t.ppf(probability, freedom)
        assert student_quantile(probability, freedom) == pytest.approx(expected, rel=1e-7, abs=1e-7)
    assert student_tail(math.inf, freedom) == 0.0


def test_processes_are_compared_as_welch_compares() -> None:
    generator = random.Random(1)
    old = [generator.lognormvariate(0, 0.02) for _ in range(5)]
    new = [generator.lognormvariate(0.05, 0.03) for _ in range(3)]
    logs = [[math.log(one) for one in part] for part in (new, old)]
    expected = stats.ttest_ind(*logs, equal_var=False)
    low, high = expected.confidence_interval()
    found = compare_processes(old, new)
    assert found.p_value == pytest.approx(expected.pvalue)
    assert (found.low, found.high) == (pytest.approx(math.exp(low)), pytest.approx(math.exp(high)))
    assert found.ratio == pytest.approx(found.new / found.old)


def test_a_clock_too_coarse_for_noise_leaves_the_ranks() -> None:
    assert compare_processes([5.0, 5.0], [5.0, 5.0]).p_value == 1.0
    # Two and two that do not overlap: 2 of 6 orders are as extreme, so that no level is reached.
    assert compare_processes([5.0, 5.0], [6.0, 6.0]).p_value > 0.05


def test_steps_that_hang_together_tell_less() -> None:
    generator = random.Random(2)
    old = [100 + generator.gauss(0, 2) for _ in range(30)]
    new = [103 + generator.gauss(0, 2) for _ in range(30)]
    mixed = compare_steps(old, new)
    trending = compare_steps(sorted(old), sorted(new))
    assert mixed.p_value < 0.001 < 0.05 < trending.p_value and _differs(old, new)
    assert mixed.low > 1.01 and mixed.high < 1.05
    assert trending.low < mixed.low < mixed.ratio < mixed.high < trending.high
    assert mixed.ratio == trending.ratio


def test_equal_steps_are_no_trend() -> None:
    old, new = [100.0, 101.0, 101.0, 100.0] * 7, [103.0] * 30
    # Without ties counted as one rank, the second half of either would look like a climb.
    assert compare_steps(new, [103.0] * 30).p_value == 1.0
    assert compare_steps(old, new).p_value < 0.001


def _differs(old: list[float], new: list[float]) -> bool:
    outcome = compare_steps(old, new)
    return outcome.p_value < LEVEL and not outcome.low <= 1 <= outcome.high


def test_false_alarms_are_as_rare_as_the_level_says() -> None:
    generator = random.Random(9)

    def samples() -> list[float]:
        return [generator.lognormvariate(0, 0.05) for _ in range(20)]

    alarms = sum(_differs(samples(), samples()) for _ in range(60))
    assert alarms <= 8  # 3 expected; more than 8 of 60 has a probability below 1 %


def test_too_few_steps_can_show_nothing() -> None:
    few = [100.0 + one for one in range(FEWEST_STEPS - 1)]
    assert compare_steps(few, [one * 2 for one in few]).smallest == 1.0
    assert not _differs([100.0, 101.0], [150.0, 151.0])
    enough = [100.0 + one for one in range(FEWEST_STEPS)]
    assert compare_steps(enough, enough).smallest == pytest.approx(2 / math.comb(2 * FEWEST_STEPS, FEWEST_STEPS))
    assert smallest_rank_p(3, 3) == pytest.approx(2 / 20) and smallest_rank_p(1, 1) == 1.0


def test_holm_by_hand() -> None:
    assert adjust([0.01, 0.04, 0.03], [0.0] * 3) == [pytest.approx(0.03), pytest.approx(0.06), pytest.approx(0.06)]
    assert adjust([], []) == []
    # What cannot be rejected takes no part.
    assert adjust([0.02, 0.4, 1.0], [0.0, 0.1, 1.0]) == [0.02, None, None]
    # 0.03 can be reached alone but not among three: with three of them only one test's level is left for none.
    assert adjust([0.001, 0.03, 0.03], [0.0, 0.03, 0.03]) == [pytest.approx(0.001), None, None]
