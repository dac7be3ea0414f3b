"""What samples of a duration say: a median with an interval, spread, outliers, and whether two sets differ.

Public: what ``__all__`` names.

Step times are skewed to the right: something else on the machine can make a step longer, nothing can make it shorter
than it is. So the median is reported, not the mean; its interval comes from resampling, not from a normal
distribution; and two runs are compared by ranks.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import chain
from statistics import NormalDist, fmean, median

from mpsprobe.schemas.profile import DurationStatistics

__all__ = ["duration_statistics", "outliers"]
CONFIDENCE = 0.95
RESAMPLES = 2000
OUTLIER_DEVIATIONS = 5.0  # scaled median absolute ones; 3.5 would call one step in 200 of a quiet machine an outlier
_MAD_TO_SIGMA = 1.4826  # of a normal distribution
FEW = 200  # samples up to which every resample is really drawn
EXACT_LIMIT = 12  # samples on each side up to which the rank test counts instead of approximating


def deviation(samples: Sequence[float]) -> float:
    """The median absolute deviation, scaled to the standard deviation of a normal distribution."""
    centre = median(samples)
    return _MAD_TO_SIGMA * median([abs(sample - centre) for sample in samples])


def outliers(samples: Sequence[float]) -> list[bool]:
    """For each sample whether it lies too far from the median to belong to the rest. They are marked, never dropped."""
    if len(samples) < 5:
        return [False] * len(samples)
    centre, scale = median(samples), deviation(samples)
    # Where more than half of the samples are equal, the clock is coarse: nothing nearer than 1 % is out.
    limit = max(OUTLIER_DEVIATIONS * scale, 0.01 * abs(centre))
    return [abs(sample - centre) > limit for sample in samples]


def bootstrap_interval(samples: Sequence[float], seed: int = 0) -> tuple[float, float]:
    """The percentile-bootstrap interval of the median; the same samples give the same interval."""
    if len(samples) < 2:
        return (median(samples),) * 2
    return interval(resampled_medians(samples, random.Random(seed)))


def clustered_interval(groups: Sequence[Sequence[float]], seed: int = 0) -> tuple[float, float]:
    """The interval of the median over all samples, resampling first the groups (processes), then within each.

    Samples of one group resemble each other, so that they tell less than as many independent ones: the interval is
    wider than ``bootstrap_interval`` of all of them (A. C. Davison, D. V. Hinkley, Bootstrap Methods, 1997, 3.8).
    """
    generator = random.Random(seed)
    medians = []
    for _ in range(RESAMPLES):
        drawn: list[float] = []
        for group in generator.choices(groups, k=len(groups)):
            drawn += generator.choices(group, k=len(group))
        medians.append(median(drawn))
    return interval(medians)


def duration_statistics(*processes: Sequence[int]) -> DurationStatistics | None:
    """Durations in ns, process by process, in short; ``None`` where there are none."""
    groups = [group for group in processes if group]
    durations = list(chain(*groups))
    if not durations:
        return None
    centre = median(durations)
    low, high = clustered_interval(groups) if len(groups) > 1 else bootstrap_interval(durations)
    return DurationStatistics(
        count=len(durations),
        median_ns=centre,
        low_ns=low,
        high_ns=high,
        confidence=CONFIDENCE,
        spread=deviation(durations) / centre if centre else 0.0,
        minimum_ns=min(durations),
        maximum_ns=max(durations),
        mean_ns=fmean(durations),
        outliers=sum(outliers(durations)),
    )


def mann_whitney(one: Sequence[float], other: Sequence[float]) -> float:
    """The two-sided p-value of the Mann-Whitney U test.

    Exact for small sets without ties, else the normal approximation with corrections for ties and continuity
    (H. B. Mann, D. R. Whitney, 1947).
    """
    n, m = len(one), len(other)
    both = [*one, *other]
    tie_term = sum(count**3 - count for count in Counter(both).values())
    statistic = math.fsum(ranks(both)[:n]) - n * (n + 1) / 2
    if not tie_term and max(n, m) <= EXACT_LIMIT:
        u = min(int(statistic), n * m - int(statistic))
        return min(1.0, 2 * sum(_orders(n, m, value) for value in range(u + 1)) / math.comb(n + m, n))
    size = n + m
    variance = n * m / 12 * (size + 1 - tie_term / (size * (size - 1)))
    if variance <= 0:
        return 1.0
    z = max(abs(statistic - n * m / 2) - 0.5, 0.0) / math.sqrt(variance)
    return 2 * (1 - NormalDist().cdf(z))


def ranks(samples: Sequence[float]) -> list[float]:
    """Ranks from 1; equal samples share their mean."""
    ordered = sorted(samples)
    return [(bisect_left(ordered, sample) + bisect_right(ordered, sample) + 1) / 2 for sample in samples]


def resampled_medians(samples: Sequence[float], generator: random.Random) -> list[float]:
    """The medians of ``RESAMPLES`` bootstrap samples."""
    count = len(samples)
    if count <= FEW:
        return [median(generator.choices(samples, k=count)) for _ in range(RESAMPLES)]
    # The rank of the median of a resample of many is normal: mean n/2, deviation sqrt(n)/2. Sorting each would take
    # seconds for thousands of steps.
    ordered = sorted(samples)
    ranks = (round(generator.gauss((count - 1) / 2, math.sqrt(count) / 2)) for _ in range(RESAMPLES))
    return [float(ordered[min(max(rank, 0), count - 1)]) for rank in ranks]


def interval(resampled: Sequence[float]) -> tuple[float, float]:
    """The percentile interval of what was resampled, at ``CONFIDENCE``."""
    ordered, tail, last = sorted(resampled), (1 - CONFIDENCE) / 2, len(resampled) - 1
    return float(ordered[math.floor(tail * last)]), float(ordered[math.ceil((1 - tail) * last)])


@cache
def _orders(n: int, m: int, u: int) -> int:
    """In how many orders of n and m distinct samples the statistic is ``u``, by which of them has the largest one."""
    if not n or not m or u < 0:
        return int(not u)
    return _orders(n - 1, m, u - m) + _orders(n, m - 1, u)
