"""Whether two sets of durations differ by more than noise, for one quantity and for many at once.

Two units of independence, two tests. With several processes on both sides a process is one sample (its median): steps
of one process resemble each other, so that a hundred of them tell less than they seem to. Few and nearly normal on a
log scale, they are compared by Welch's t-test of their logarithms. With one process the steps are all there is: skewed
and many, they are compared by ranks, with the variance that their autocorrelation calls for.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist, fmean, median, variance

from mpsprobe.engine import statistics

LEVEL = 0.05
FEWEST_STEPS = 8  # fewer tell nothing of how neighbours hang together
_MOST_CORRELATED = 0.95


@dataclass(frozen=True, slots=True)
class Outcome:
    """New samples against old ones, by their medians."""

    old: float
    new: float
    ratio: float  # new ÷ old; low and high are its 95 % interval
    low: float
    high: float
    p_value: float  # of the two-sided test that nothing differs
    smallest: float  # the smallest p-value that so many samples could give
    test: str


def compare_processes(old: Sequence[float], new: Sequence[float]) -> Outcome:
    """Welch's t-test of the logarithms of one positive figure for each process (B. L. Welch, 1947).

    The ratio is that of the geometric means, and its interval the one that belongs to the test: a bootstrap of three
    processes could not reach beyond the smallest and the largest of them.
    """
    olds, news = [math.log(sample) for sample in old], [math.log(sample) for sample in new]
    shift = fmean(news) - fmean(olds)
    first, second = variance(olds) / len(olds), variance(news) / len(news)
    error = math.sqrt(first + second)
    means = math.exp(fmean(olds)), math.exp(fmean(news))
    if error < 1e-12:  # equal to the last digit: nothing is known of the noise, ranks alone are left
        p_value, smallest = statistics.mann_whitney(old, new), smallest_rank_p(len(old), len(new))
        ratio = math.exp(shift)
        return Outcome(*means, ratio, ratio, ratio, p_value, smallest, "Mann-Whitney")
    freedom = (first + second) ** 2 / (first**2 / (len(olds) - 1) + second**2 / (len(news) - 1))
    half = student_quantile(1 - LEVEL / 2, freedom) * error
    ratio, low, high = (math.exp(bound) for bound in (shift, shift - half, shift + half))
    p_value = min(1.0, 2 * student_tail(abs(shift) / error, freedom))
    return Outcome(*means, ratio, low, high, p_value, smallest=0.0, test="Welch")


def compare_steps(old: Sequence[float], new: Sequence[float]) -> Outcome:
    """The Mann-Whitney test of steps in the order in which they were made, and a bootstrap interval of the ratio.

    Where neighbouring steps resemble each other (the lag-1 correlation r of their ranks is positive) there are fewer
    independent ones: the variance, and with it the interval, grows by (1 + r) / (1 - r), as of a first-order
    autoregression (G. V. Bayley, J. M. Hammersley, The effective number of independent observations, 1946). From fewer
    than ``FEWEST_STEPS`` that is impossible: ``smallest`` is 1 then.
    """
    before, after = median(old), median(new)
    ratio = after / before
    generator = random.Random(0)
    olds, news = (statistics.resampled_medians(part, generator) for part in (old, new))
    ends = statistics.interval([second / first for first, second in zip(olds, news, strict=True)])
    n, m = len(old), len(new)
    growth = (_growth(old) / n + _growth(new) / m) / (1 / n + 1 / m)
    p_value = max(statistics.mann_whitney(old, new), 1e-300)
    if growth > 1:
        normal = NormalDist()
        p_value = min(1.0, 2 * normal.cdf(normal.inv_cdf(p_value / 2) / math.sqrt(growth)))
    low, high = (ratio * (end / ratio) ** math.sqrt(growth) for end in ends)
    smallest = smallest_rank_p(n, m) if min(n, m) >= FEWEST_STEPS else 1.0
    return Outcome(before, after, ratio, low, high, p_value, smallest, "Mann-Whitney")


def adjust(p_values: Sequence[float], smallest: Sequence[float]) -> list[float | None]:
    """p-values corrected by Holm's procedure (S. Holm, 1979), so that ``LEVEL`` is the chance of any false alarm.

    What could not be rejected whatever its samples said, by the ``smallest`` p-value of so many, takes no part
    (R. E. Tarone, 1990): its place is ``None``.
    """
    count = len(p_values)
    family = list(range(count))
    for size in range(1, count + 1):
        family = [index for index in range(count) if smallest[index] <= LEVEL / size]
        if len(family) <= size:
            break
    corrected: list[float | None] = [None] * count
    highest = 0.0
    for position, index in enumerate(sorted(family, key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (len(family) - position) * p_values[index]))
        corrected[index] = highest
    return corrected


def student_tail(t: float, freedom: float) -> float:
    """The probability that Student's t with ``freedom`` degrees, which need not be whole, exceeds ``t`` ≥ 0."""
    if math.isinf(t):
        return 0.0
    return 0.5 * _incomplete_beta(freedom / (freedom + t * t), freedom / 2, 0.5)


def student_quantile(probability: float, freedom: float) -> float:
    """Where Student's t stays below with ``probability``, which is at least a half."""
    low, high = 0.0, 1.0
    while student_tail(high, freedom) > 1 - probability:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if student_tail(middle, freedom) > 1 - probability else (low, middle)
    return high


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function, by its continued fraction (NIST Handbook, 2010, 8.17.22)."""
    if not 0 < x < 1:
        return min(max(x, 0.0), 1.0)
    if x > (a + 1) / (a + b + 2):  # where the fraction converges slowly, its mirror converges fast
        return 1 - _incomplete_beta(1 - x, b, a)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)) / a
    # Evaluated from its tail: 200 terms are far more than double precision needs on this side.
    value = 1.0
    for term in range(200, 0, -1):
        m = term // 2
        if term % 2:
            factor = -(a + m) * (a + b + m) * x / ((a + term - 1) * (a + term))
        else:
            factor = m * (b - m) * x / ((a + term - 1) * (a + term))
        value = 1 + factor / value
    return front / value


def smallest_rank_p(n: int, m: int) -> float:
    """The smallest p-value of the Mann-Whitney test: that of two sets that do not overlap at all."""
    return statistics.mann_whitney(range(n), range(n, n + m))


def _growth(samples: Sequence[float]) -> float:
    """By how much the correlation of neighbours makes the variance of a median or rank sum grow; at least 1."""
    count = len(samples)
    # Equal samples share a rank: in the order of their places they would look like a trend.
    ranks = [rank - (count + 1) / 2 for rank in statistics.ranks(samples)]
    spread = math.fsum(rank * rank for rank in ranks)
    if not spread:
        return 1.0
    together = math.fsum(rank * following for rank, following in pairwise(ranks))
    correlation = min(max(together / spread, 0.0), _MOST_CORRELATED)
    return (1 + correlation) / (1 - correlation)
