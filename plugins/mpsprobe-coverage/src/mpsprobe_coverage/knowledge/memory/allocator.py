"""What an allocator does with the beginnings and ends of storages: an interface, and the run through it.

There are three figures: the bytes of live storages, those that the allocator has handed out (rounded), and those
that it has asked the driver for, in segments of which parts are free.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:  # the limits of an allocator are asked for where there is no torch, too
    from mpsprobe_coverage.knowledge.memory.timeline import Change, Storage


class OutOfMemory(Exception):
    """The allocator raises; the text is what PyTorch says."""


class Place(NamedTuple):
    """Where a storage lies: in which segment, by its number, at which byte of that, and with which rounded size."""

    segment: int
    offset: int
    size: int


class Allocator(Protocol):
    """A model of one.

    Attributes:
        in_use: bytes handed out, as it rounds them.
        reserved: bytes that it has of the driver.
        segments: the size of each segment that it ever had, by its number.
    """

    in_use: int
    reserved: int
    segments: list[int]

    def allocate(self, nbytes: int) -> Any:
        """What ``free`` and ``place`` take. Raises ``OutOfMemory`` as PyTorch would raise."""

    def free(self, handle: Any) -> None: ...

    def place(self, handle: Any) -> Place: ...


@dataclass(slots=True)
class Figures:
    """The peaks of a run. Where it raised they are those before.

    Attributes:
        live: bytes of storages.
        in_use: handed out by the allocator.
        reserved: asked of the driver.
        raised: PyTorch's message where it would raise.
        refused: the storage for which.
    """

    live: int = 0
    in_use: int = 0
    reserved: int = 0
    raised: str | None = None
    refused: Storage | None = None


def replay(changes: Iterable[Change], allocator: Allocator, placed: list[Place] | None = None) -> Figures:
    """Run ``changes`` through ``allocator``, which is new; ``placed`` gets the place of each storage that begins."""
    found = Figures()
    handles: dict[int, Any] = {}
    live = 0
    for change in changes:
        storage = change.storage
        if not storage.nbytes:
            continue
        if not change.begins:
            live -= storage.nbytes
            allocator.free(handles.pop(id(storage)))
            continue
        try:
            handles[id(storage)] = allocator.allocate(storage.nbytes)
        except OutOfMemory as error:
            found.raised, found.refused = str(error), storage
            return found
        if placed is not None:
            placed.append(allocator.place(handles[id(storage)]))
        live += storage.nbytes
        found.live = max(found.live, live)
        found.in_use = max(found.in_use, allocator.in_use)
        found.reserved = max(found.reserved, allocator.reserved)
    return found


_numbers = count()


class Range:
    """A part of a segment, handed out or free, in a chain with its neighbours."""

    __slots__ = ("after", "before", "free", "number", "offset", "segment", "size")

    def __init__(self, size: int, segment: int, offset: int = 0) -> None:
        self.size, self.segment, self.offset, self.free = size, segment, offset, True
        self.number = next(_numbers)
        self.before: Range | None = None
        self.after: Range | None = None

    def place(self) -> Place:
        return Place(self.segment, self.offset, self.size)


class Ranges:
    """Segments that are split into ranges, the smallest free one that fits first; neighbours that are free are merged.

    Args:
        least: what is left over of a range stays a range of its own from this size on.
    """

    def __init__(self, least: int) -> None:
        self.least = least
        self._free: list[tuple[int, int, Range]] = []  # by size, and by age

    @property
    def largest(self) -> int:
        """The most that one range can still have."""
        return self._free[-1][0] if self._free else 0

    def take(self, size: int) -> Range | None:
        """A range of at least ``size``, or None: a new segment is needed."""
        place = bisect_left(self._free, (size, -1))
        if place == len(self._free):
            return None
        found = self._free.pop(place)[2]
        if found.size - size >= self.least:
            rest = Range(found.size - size, found.segment, found.offset + size)
            rest.before, rest.after, found.after, found.size = found, found.after, rest, size
            if rest.after is not None:
                rest.after.before = rest
            self._add(rest)
        found.free = False
        return found

    def segment(self, size: int, number: int) -> None:
        """There is a new segment, all of it free."""
        self._add(Range(size, number))

    def give_back(self, one: Range) -> None:
        """``one`` is free again."""
        one.free = True
        if one.after is not None and one.after.free:
            self._remove(one.after)
            self._merge(one, one.after)
        if one.before is not None and one.before.free:
            self._remove(one.before)
            one = self._merge(one.before, one)
        self._add(one)

    def whole(self) -> list[Range]:
        """Free segments, taken away: nobody has a part of them."""
        found = [one for _, _, one in self._free if one.before is None and one.after is None]
        for one in found:
            self._remove(one)
        return found

    @staticmethod
    def _merge(one: Range, other: Range) -> Range:
        one.size += other.size
        one.after = other.after
        if one.after is not None:
            one.after.before = one
        return one

    def _add(self, one: Range) -> None:
        insort(self._free, (one.size, one.number, one))

    def _remove(self, one: Range) -> None:
        del self._free[bisect_left(self._free, (one.size, one.number))]


class Merging:
    """Segments of two pools, for small and for large storages, whose ranges are split and merged; see ``Allocator``.

    Args:
        small: the pool for rounded sizes of up to 1 MiB.
        large: that for others.
    """

    SMALL = 2**20

    def __init__(self, small: Ranges, large: Ranges) -> None:
        self.in_use = self.reserved = 0
        self.segments: list[int] = []
        self._small, self._large = small, large

    def allocate(self, nbytes: int) -> tuple[Ranges, Range]:
        size = self._rounded(nbytes)
        pool = self._small if size <= self.SMALL else self._large
        found = pool.take(size)
        if found is None:
            segment = self._segment(size)
            pool.segment(segment, len(self.segments))
            self.segments.append(segment)
            self.reserved += segment
            found = pool.take(size)
            assert found is not None
        self.in_use += found.size
        return pool, found

    def free(self, handle: tuple[Ranges, Range]) -> None:
        pool, found = handle
        self.in_use -= found.size
        pool.give_back(found)

    def place(self, handle: tuple[Ranges, Range]) -> Place:
        return handle[1].place()

    def _rounded(self, nbytes: int) -> int:
        raise NotImplementedError

    def _segment(self, size: int) -> int:
        """The size of a new segment for ``size`` bytes. Raises as ``Allocator.allocate``."""
        raise NotImplementedError
