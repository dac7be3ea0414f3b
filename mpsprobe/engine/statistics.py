"""What samples of a duration say: a median with an interval, spread, outliers, and whether two sets differ.

Step times are skewed to the right: something else on the machine can make a step longer, nothing can make it shorter
than it is. So the median is reported, not the mean; its interval comes from resampling, not from a normal
distribution; and two runs are compared by ranks.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

CONFIDENCE = 0.95
RESAMPLES = 2000
OUTLIER_DEVIATIONS = (
    5.0  # scaled median absolute deviations; 3.5 would call one step in 200 of a quiet machine an outlier
)
_MAD_TO_SIGMA = 1.4826  # of a normal distribution
FEW = 200  # samples up to which every resample is really drawn
EXACT_LIMIT = 12  # samples on each side up to which the rank test counts instead of approximating


@dataclass(frozen=True, slots=True)
class Summary:
    """Samples in short, in their own unit.

    Attributes:
        count: how many, outliers included.
        median: of all of them.
        low, high: the ``confidence`` interval of the median (percentile bootstrap).
        spread: scaled median absolute deviation ÷ median: 0.02 means that a usual step is 2 % off.
        minimum, maximum, mean: of all of them.
    """

    count: int
    median: float
    low: float
    high: float
    spread: float
    minimum: float
    maximum: float
    mean: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """New samples against old ones.

    Attributes:
        ratio: median of the new ÷ median of the old; above 1 is slower for durations.
        low, high: the interval of the ratio (bootstrap of both sides).
        p_value: of the two-sided Mann-Whitney U test that both come from one distribution.
    """

    ratio: float
    low: float
    high: float
    p_value: float

    def differs(self, level: float = 1 - CONFIDENCE) -> bool:
        """Whether the difference is more than noise: the test rejects, and the interval of the ratio leaves out 1."""
        return self.p_value < level and not self.low <= 1.0 <= self.high


def median(samples: Sequence[float]) -> float:
    """The middle of ``samples``, of an even number the mean of the two in the middle.

    Raises:
        ValueError: there are none.
    """
    if not samples:
        raise ValueError("no samples")
    ordered = sorted(samples)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return float(ordered[middle])
    # Halves first: the sum of two very large numbers could overflow.
    return ordered[middle - 1] / 2 + ordered[middle] / 2


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


def bootstrap_interval(samples: Sequence[float], confidence: float = CONFIDENCE, seed: int = 0) -> tuple[float, float]:
    """The percentile-bootstrap interval of the median; the same samples give the same interval."""
    if len(samples) < 2:
        only = median(samples)
        return only, only
    medians = sorted(_resampled_medians(list(samples), random.Random(seed)))
    return _interval(medians, confidence)


def clustered_interval(
    groups: Sequence[Sequence[float]], confidence: float = CONFIDENCE, seed: int = 0
) -> tuple[float, float]:
    """The interval of the median over all samples, resampling first the groups (processes), then within each.

    Samples of one group resemble each other, so that they tell less than as many independent ones: the interval is
    wider than ``bootstrap_interval`` of all of them (A. C. Davison, D. V. Hinkley, Bootstrap Methods, 1997, 3.8).

    Raises:
        ValueError: a group is empty, or there is none.
    """
    if not groups or not all(groups):
        raise ValueError("no samples")
    generator = random.Random(seed)
    medians = []
    for _ in range(RESAMPLES):
        drawn: list[float] = []
        for group in generator.choices(groups, k=len(groups)):
            drawn += generator.choices(group, k=len(group))
        medians.append(median(drawn))
    return _interval(sorted(medians), confidence)


def summarise(samples: Sequence[float]) -> Summary:
    """``samples`` in short.

    Raises:
        ValueError: there are none, or one is not a finite number.
    """
    if any(not math.isfinite(sample) for sample in samples):
        raise ValueError("a sample is not a finite number")
    centre = median(samples)
    low, high = bootstrap_interval(samples)
    return Summary(
        count=len(samples),
        median=centre,
        low=low,
        high=high,
        spread=deviation(samples) / centre if centre else 0.0,
        minimum=float(min(samples)),
        maximum=float(max(samples)),
        mean=math.fsum(samples) / len(samples),
    )


def compare(old: Sequence[float], new: Sequence[float], seed: int = 0) -> Comparison:
    """Whether ``new`` differs from ``old``, and by how much.

    Raises:
        ValueError: one of them is empty, or the median of the old ones is not positive.
    """
    before = median(old)
    if before <= 0:
        raise ValueError("durations have to be positive")
    generator = random.Random(seed)
    olds, news = _resampled_medians(list(old), generator), _resampled_medians(list(new), generator)
    ratios = sorted(n / o for o, n in zip(olds, news, strict=True) if o > 0)
    low, high = _interval(ratios, CONFIDENCE)
    return Comparison(median(new) / before, low, high, mann_whitney(old, new))


def mann_whitney(one: Sequence[float], other: Sequence[float]) -> float:
    """The two-sided p-value of the Mann-Whitney U test.

    Exact for small sets without ties, else the normal approximation with corrections for ties and continuity
    (H. B. Mann, D. R. Whitney, 1947).
    """
    n, m = len(one), len(other)
    if not n or not m:
        raise ValueError("no samples")
    ranks, tie_term, tied = _ranks([*one, *other])
    statistic = math.fsum(ranks[:n]) - n * (n + 1) / 2
    if not tied and max(n, m) <= EXACT_LIMIT:
        counts = _u_counts(n, m)
        total = math.comb(n + m, n)
        tail = min(sum(counts[: int(statistic) + 1]), sum(counts[int(statistic) :]))
        return min(1.0, 2 * tail / total)
    size = n + m
    variance = n * m / 12 * (size + 1 - tie_term / (size * (size - 1)))
    if variance <= 0:
        return 1.0
    z = max(abs(statistic - n * m / 2) - 0.5, 0.0) / math.sqrt(variance)
    return 2 * (1 - NormalDist().cdf(z))


def _resampled_medians(samples: list[float], generator: random.Random) -> list[float]:
    count = len(samples)
    if count <= FEW:
        return [median(generator.choices(samples, k=count)) for _ in range(RESAMPLES)]
    # The rank of the median of a resample of many is normal: mean n/2, deviation sqrt(n)/2. Sorting each would take
    # seconds for thousands of steps.
    ordered = sorted(samples)
    ranks = (round(generator.gauss((count - 1) / 2, math.sqrt(count) / 2)) for _ in range(RESAMPLES))
    return [float(ordered[min(max(rank, 0), count - 1)]) for rank in ranks]


def _interval(ordered: Sequence[float], confidence: float) -> tuple[float, float]:
    tail = (1 - confidence) / 2
    last = len(ordered) - 1
    return float(ordered[math.floor(tail * last)]), float(ordered[math.ceil((1 - tail) * last)])


def _ranks(samples: Sequence[float]) -> tuple[list[float], float, bool]:
    """Ranks from 1, equal samples sharing their mean; the sum of t³-t over ties; whether there are any."""
    order = sorted(range(len(samples)), key=samples.__getitem__)
    ranks = [0.0] * len(samples)
    tie_term, start = 0.0, 0
    while start < len(order):
        end = start
        while end + 1 < len(order) and samples[order[end + 1]] == samples[order[start]]:
            end += 1
        for position in range(start, end + 1):
            ranks[order[position]] = (start + end) / 2 + 1
        length = end - start + 1
        tie_term += length**3 - length
        start = end + 1
    return ranks, tie_term, tie_term > 0


def _u_counts(n: int, m: int) -> list[int]:
    """In how many orders of n and m distinct samples each value of U occurs: a Gauss polynomial's coefficients."""
    counts = [1] + [0] * (n * m)
    for step in range(1, n + 1):
        for value in range(n * m, m + step - 1, -1):  # times (1 - q^(m+step))
            counts[value] -= counts[value - m - step]
        for value in range(step, n * m + 1):  # divided by (1 - q^step)
            counts[value] += counts[value - step]
    return counts
