"""Tests of significance against scipy, against counting, and against what they promise."""

from __future__ import annotations

import math
import random

import pytest
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


@pytest.mark.parametrize(("old", "new"), [([1.0], [1.0, 2.0]), ([1.0, 0.0], [1.0, 2.0]), ([1.0, 2.0], [-1.0, 2.0])])
def test_processes_need_two_positive_figures(old: list[float], new: list[float]) -> None:
    with pytest.raises(ValueError, match="two positive"):
        compare_processes(old, new)
    with pytest.raises(ValueError, match="positive"):
        compare_steps([0.0, 0.0], [1.0])


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
    assert mixed.p_value < 0.001 < 0.05 < trending.p_value
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


def test_a_difference_is_told_from_noise() -> None:
    generator = random.Random(5)
    old = [generator.lognormvariate(0, 0.02) for _ in range(40)]
    same = [generator.lognormvariate(0, 0.02) for _ in range(40)]
    slower = [1.1 * generator.lognormvariate(0, 0.02) for _ in range(40)]
    assert not _differs(old, same) and _differs(old, slower)
    outcome = compare_steps(old, slower)
    assert 1.07 < outcome.low < outcome.ratio < outcome.high < 1.13


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


def test_holm_keeps_its_promise() -> None:
    generator = random.Random(4)
    drawn = [[generator.random() for _ in range(10)] for _ in range(400)]
    alarms = sum(any(one is not None and one < 0.05 for one in adjust(p_values, [0.0] * 10)) for p_values in drawn)
    assert alarms <= 32  # 20 expected; more than 32 of 400 has a probability below 1 %
