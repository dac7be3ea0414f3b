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


EMPTIES = "empty_cache"  # the category of a storage of no bytes that stands for that


class OutOfMemory(Exception):
    """The allocator raises; the text is what PyTorch says."""


class Place(NamedTuple):
    """Where a storage lies: in which segment, by its number, at which byte of that, and with which rounded size."""

    segment: int
    offset: int
    size: int


class Allocator(Protocol):
    in_use: int  # bytes handed out, as it rounds them
    reserved: int  # bytes that it has of the driver
    segments: list[int]  # the size of each segment that it ever had, by its number

    def allocate(self, nbytes: int) -> Any:
        """What ``free`` and ``place`` take. Raises ``OutOfMemory`` as PyTorch would raise."""

    def free(self, handle: Any) -> None: ...

    def place(self, handle: Any) -> Place: ...

    def empty(self) -> None:
        """Give back to the driver what is cached, as ``empty_cache`` does."""


@dataclass(slots=True)
class Figures:
    """The peaks of a run in bytes. Where it raised they are those before."""

    live: int = 0  # of storages
    in_use: int = 0  # handed out by the allocator
    reserved: int = 0  # asked of the driver
    raised: str | None = None  # PyTorch's message where it would raise
    refused: Storage | None = None  # for which


def replay(changes: Iterable[Change], allocator: Allocator, placed: list[Place] | None = None) -> Figures:
    """Run ``changes`` through ``allocator``, which is new; ``placed`` gets the place of each storage that begins."""
    figures = Figures()
    handles: dict[int, Any] = {}
    live = 0
    for change in changes:
        storage = change.storage
        if not storage.nbytes:
            if storage.category == EMPTIES:
                allocator.empty()
            continue
        if not change.begins:
            live -= storage.nbytes
            allocator.free(handles.pop(id(storage)))
            continue
        try:
            handles[id(storage)] = allocator.allocate(storage.nbytes)
        except OutOfMemory as error:
            figures.raised, figures.refused = str(error), storage
            return figures
        if placed is not None:
            placed.append(allocator.place(handles[id(storage)]))
        live += storage.nbytes
        figures.live = max(figures.live, live)
        figures.in_use = max(figures.in_use, allocator.in_use)
        figures.reserved = max(figures.reserved, allocator.reserved)
    return figures


_numbers = count()


class Range:
    """A part of a segment, handed out or free, in a chain with its neighbours."""

    __slots__ = ("after", "before", "free", "number", "offset", "segment", "size")

    def __init__(self, size: int, segment: int, offset: int = 0) -> None:
        self.size, self.segment, self.offset, self.free = size, segment, offset, True
        self.number = next(_numbers)
        self.before: Range | None = None
        self.after: Range | None = None

    @property
    def place(self) -> Place:
        return Place(self.segment, self.offset, self.size)


class Ranges:
    """Segments that are split into ranges: the smallest free one that fits is taken, free neighbours are merged."""

    def __init__(self, least: int) -> None:
        self.least = least  # what is left over of a range stays a range of its own from this size on
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
        part = self._free.pop(place)[2]
        if part.size - size >= self.least:
            rest = Range(part.size - size, part.segment, part.offset + size)
            rest.before, rest.after, part.after, part.size = part, part.after, rest, size
            if rest.after is not None:
                rest.after.before = rest
            self._add(rest)
        part.free = False
        return part

    def segment(self, size: int, number: int) -> None:
        """There is a new segment, all of it free."""
        self._add(Range(size, number))

    def give_back(self, part: Range) -> None:
        part.free = True
        for first, second in ((part, part.after), (part.before, part)):
            if first is not None and second is not None and first.free and second.free:
                self._remove(second if first is part else first)
                first.size += second.size
                first.after = second.after
                if first.after is not None:
                    first.after.before = first
                part = first
        self._add(part)

    def whole(self) -> list[Range]:
        """Free segments, taken away: nobody has a part of them."""
        segments = [part for _, _, part in self._free if part.before is None and part.after is None]
        for segment in segments:
            self._remove(segment)
        return segments

    def _add(self, part: Range) -> None:
        insort(self._free, (part.size, part.number, part))

    def _remove(self, part: Range) -> None:
        del self._free[bisect_left(self._free, (part.size, part.number))]


class Merging:
    """Segments of two pools, whose ranges are split and merged: for rounded sizes of up to 1 MiB, and for others."""

    SMALL = 2**20

    def __init__(self, small: Ranges, large: Ranges) -> None:
        self.in_use = self.reserved = 0
        self.segments: list[int] = []
        self._small, self._large = small, large

    def allocate(self, nbytes: int) -> tuple[Ranges, Range]:
        size = self._rounded(nbytes)
        pool = self._small if size <= self.SMALL else self._large
        part = pool.take(size)
        if part is None:
            segment = self._segment(size)
            pool.segment(segment, len(self.segments))
            self.segments.append(segment)
            self.reserved += segment
            part = pool.take(size)
            assert part is not None
        self.in_use += part.size
        return pool, part

    def free(self, handle: tuple[Ranges, Range]) -> None:
        pool, part = handle
        self.in_use -= part.size
        pool.give_back(part)

    def place(self, handle: tuple[Ranges, Range]) -> Place:
        return handle[1].place

    def empty(self) -> None:
        for pool in (self._small, self._large):
            self.reserved -= sum(segment.size for segment in pool.whole())

    def _rounded(self, nbytes: int) -> int:
        raise NotImplementedError

    def _segment(self, size: int) -> int:
        """The size of a new segment for ``size`` bytes. Raises as ``Allocator.allocate``."""
        raise NotImplementedError
