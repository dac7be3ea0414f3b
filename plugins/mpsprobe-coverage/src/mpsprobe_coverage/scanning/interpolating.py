"""How the storages of a run grow with one of its sizes: interpolated between a few runs, which is checked by another.

A run with another batch or length makes the same storages in the same order, each of a size that is a polynomial of
it: of the batch a line, of a length at most a parabola (the scores of attention), of the width of an image at most the
fourth power (the same, over its patches). So from a few runs follow the storages of every other one, and the allocator
takes these as it takes real ones. Where two runs differ in more than sizes, each one that is asked for is run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import prod

from mpsprobe_coverage.knowledge.memory.timeline import Change, Storage
from mpsprobe_coverage.reporting.fitting import Needs


class Interpolation:
    """What a workload needs at each size, which ``run`` runs it with; ``sizes`` are those to interpolate between.

    ``runs`` counts how often ``run`` was called, ``exact`` is False once it disagreed with what was interpolated.
    """

    def __init__(self, run: Callable[[int], Needs], sizes: Sequence[int]) -> None:
        self._run, self.runs = run, 0
        self._measured: dict[int, Needs] = {}
        self._estimated: dict[int, Needs] = {}
        self.points = [(size, self.measured(size)) for size in sizes]
        orders = [_order(needs.steady) for _, needs in self.points]
        self.exact = all(order == orders[0] for order in orders)

    def measured(self, size: int) -> Needs:
        if size not in self._measured:
            self.runs += 1
            self._measured[size] = self._run(size)
        return self._measured[size]

    def at(self, size: int) -> Needs:
        """Run before, or interpolated, or run now."""
        if size in self._measured or not self.exact:
            return self.measured(size)
        if size not in self._estimated:
            self._estimated[size] = Needs(self.points[0][1].release, _between(self.points, size))
        return self._estimated[size]

    def check(self, size: int) -> bool:
        """Whether a run with ``size`` needs what was interpolated. If not, nothing is interpolated any more."""
        if self.exact and size not in self._measured:
            estimated = self.at(size).unlimited
            self.exact = estimated == self.measured(size).unlimited
        return self.exact

    def guess(self, limit: int) -> int:
        """At which size about ``limit`` bytes are handed out, by a line through two of the points."""
        (first, low), (last, high) = self.points[0], self.points[-1]
        slope = Fraction(high.unlimited.in_use - low.unlimited.in_use, (last - first) or 1)
        return first + int((limit - low.unlimited.in_use) / slope) if slope > 0 else max(first, last)

    def largest(self, fits: Callable[[Needs], bool], guess: int, most: int) -> int:
        """The largest size up to ``most`` that fits, where every smaller one does; 0 for none: first near ``guess``."""
        good, bad = 0, most + 1
        at, step = min(max(guess, 1), most), 1
        if fits(self.at(at)):
            good = at
            while good < most and fits(self.at(at := min(good + step, most))):
                good, step = at, step * 2
            bad = at if at > good else bad
        else:
            bad = at
            while bad > 1 and not fits(self.at(at := max(bad - step, 1))):
                bad, step = at, step * 2
            good = at if at < bad else 0
        while bad - good > 1:
            middle = (good + bad) // 2
            good, bad = (middle, bad) if fits(self.at(middle)) else (good, middle)
        return good


def _order(steady: Sequence[Change]) -> list[tuple[int, bool]]:
    """Which storages begin and end in which order."""
    numbers: dict[int, int] = {}
    return [(numbers.setdefault(id(change.storage), len(numbers)), change.begins) for change in steady]


def _between(points: Sequence[tuple[int, Needs]], size: int) -> list[Change]:
    made: dict[int, Storage] = {}
    known: dict[tuple[int, ...], int] = {}
    sizes = [at for at, _ in points]
    # Those of Lagrange's polynomials.
    weights = [prod((Fraction(size - at, own - at) for at in sizes if at != own), start=Fraction(1)) for own in sizes]
    changes = []
    for same in zip(*(needs.steady for _, needs in points), strict=True):
        first = same[0].storage
        storage = made.get(id(first))
        if storage is None:
            measured = tuple(change.storage.nbytes for change in same)
            if measured not in known:
                value = sum(weight * nbytes for weight, nbytes in zip(weights, measured, strict=True))
                known[measured] = max(0, -int(-value // 1))
            storage = Storage(known[measured], first.category, first.module, first.phase, first.call)
            made[id(first)] = storage
        changes.append(Change(storage, same[0].begins))
    return changes
