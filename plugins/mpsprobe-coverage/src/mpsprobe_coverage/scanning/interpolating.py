"""How the storages of a run grow with one of its sizes: interpolated between a few runs, which is checked by another.

A run with another batch or length makes the same storages in the same order, each of a size that is a polynomial of
it: of the batch a line, of a length at most a parabola (the scores of attention), of the width of an image at most the
fourth power (the same, over its patches). So from a few runs follow the storages of every other one, and the allocator
takes these as it takes real ones. Where two runs differ in more than sizes, each one that is asked for is run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from mpsprobe_coverage.knowledge.memory.allocator import replay
from mpsprobe_coverage.knowledge.memory.mps_allocator import Limits, allocator_of
from mpsprobe_coverage.knowledge.memory.timeline import Change, Storage
from mpsprobe_coverage.reporting.fitting import Needs


class Growth:
    """What a workload needs at each size.

    Args:
        run: runs it with a size.
        sizes: those to interpolate between.

    ``runs`` counts how often ``run`` was called, ``exact`` is False once it disagreed with what was interpolated.
    """

    def __init__(self, run: Callable[[int], Needs], sizes: Sequence[int]) -> None:
        self._run, self.runs, self.exact = run, 0, True
        self._measured: dict[int, Needs] = {}
        self._estimated: dict[int, Needs] = {}
        self.points = [(size, self.measured(size)) for size in sizes]
        orders = [_order(one.steady) for _, one in self.points]
        self.exact = all(order == orders[0] for order in orders)

    def measured(self, size: int) -> Needs:
        """By running it."""
        if size not in self._measured:
            self.runs += 1
            self._measured[size] = self._run(size)
        return self._measured[size]

    def at(self, size: int) -> Needs:
        """Run before, or interpolated, or run now."""
        if size in self._measured or not self.exact:
            return self.measured(size)
        if size not in self._estimated:
            steady = _between(self.points, size)
            release = self.points[0][1].release
            largest = max((one.storage.nbytes for one in steady), default=0)
            self._estimated[size] = Needs(release, steady, replay(steady, allocator_of(release, Limits())), largest)
        return self._estimated[size]

    def check(self, size: int) -> bool:
        """Whether a run with ``size`` needs what was interpolated. If not, nothing is interpolated any more."""
        if self.exact and size not in self._measured:
            estimated = self.at(size).unlimited
            self.exact = estimated == self.measured(size).unlimited
        return self.exact

    def guess(self, limit: int) -> int:
        """At which size about ``limit`` bytes are handed out, by a line through two of the points."""
        (first, one), (second, other) = self.points[0], self.points[-1]
        slope = Fraction(other.unlimited.in_use - one.unlimited.in_use, (second - first) or 1)
        return first + int((limit - one.unlimited.in_use) / slope) if slope > 0 else max(first, second)


def largest(fits: Callable[[int], bool], guess: int, most: int) -> int:
    """The largest size up to ``most`` that fits, where every smaller one does; 0 for none: first near ``guess``."""
    good, bad = 0, most + 1
    at, step = min(max(guess, 1), most), 1
    if fits(at):
        good = at
        while good < most and fits(at := min(good + step, most)):
            good, step = at, step * 2
        bad = at if at > good else bad
    else:
        bad = at
        while bad > 1 and not fits(at := max(bad - step, 1)):
            bad, step = at, step * 2
        good = at if at < bad else 0
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if fits(middle) else (good, middle)
    return good


def _order(steady: Sequence[Change]) -> list[int]:
    """Which storages begin and end in which order; negative numbers for ends."""
    numbers: dict[int, int] = {}
    return [numbers.setdefault(id(one.storage), len(numbers) + 1) * (1 if one.begins else -1) for one in steady]


def _between(points: Sequence[tuple[int, Needs]], size: int) -> list[Change]:
    made: dict[int, Storage] = {}
    known: dict[tuple[int, ...], int] = {}
    weights = _weights([at for at, _ in points], size)
    found = []
    for same in zip(*(needs.steady for _, needs in points), strict=True):
        first = same[0].storage
        storage = made.get(id(first))
        if storage is None:
            sizes = tuple(one.storage.nbytes for one in same)
            if sizes not in known:
                value = sum(weight * nbytes for weight, nbytes in zip(weights, sizes, strict=True))
                known[sizes] = max(0, -int(-value // 1))
            storage = Storage(known[sizes], first.category, first.module, first.phase, first.call)
            made[id(first)] = storage
        found.append(Change(storage, same[0].begins))
    return found


def _weights(sizes: Sequence[int], size: int) -> list[Fraction]:
    """Those of Lagrange's polynomials at ``size``."""
    weights = []
    for one in sizes:
        weight = Fraction(1)
        for other in sizes:
            if other != one:
                weight *= Fraction(size - other, one - other)
        weights.append(weight)
    return weights
