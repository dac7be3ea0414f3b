"""What MPS's allocator, release by release, does with the beginnings and ends of storages.

There are three figures: the bytes of live storages, those that the allocator has handed out (rounded), and those
that it has asked the driver for, in segments of which parts are free.

Facts, from PyTorch's ``aten/src/ATen/mps/MPSAllocator.h`` of the wheels of 2.5.1 to 2.15.0, and ``MPSAllocator.mm``:

- Up to 1 MiB a buffer comes from a heap of 8 MiB, below 10 MiB from one of 32 MiB, below 512 MiB from one of 1 GiB.
  Larger ones, and all from 10 MiB on while memory is short, have a heap of their own, rounded to 2 MiB.
- Heaps are PyTorch's own business until 2.14.0: a buffer that is freed is kept as it is, and the smallest that fits is
  used again if it is at most 32 MiB too large. From 2.14.1 on freed ranges are split and merged (placement heaps).
- Tensors are private until 2.11; those of up to 8 bytes have a shared heap apart. From 2.12 on everything is shared.
- ``PYTORCH_MPS_HIGH_WATERMARK_RATIO`` (1.7; at most 2) times what Metal recommends is the limit at which it raises;
  0 switches that off. ``PYTORCH_MPS_LOW_WATERMARK_RATIO`` (1.4; at most the other one, or 2) times that is where memory
  is short, and cached buffers are released; 0 switches that off.
- A buffer of ``maxBufferLength`` or more raises "Invalid buffer size".
- In messages 2**30 bytes are called GB until 2.7, GiB from 2.8 on (the texts in the libraries).

Where Metal puts a buffer in a heap of releases before 2.14.1 is not published; here it is the smallest gap that fits.
Buffers are rounded to ``ROUND`` bytes, as ``heapBufferSizeAndAlignWithLength`` answers; PyTorch only asks. What Metal
and MPSGraph allocate themselves is not known here, so ``reserved`` is a lower bound of ``driver_allocated_memory``.
"""

from __future__ import annotations

import os
from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol

from packaging.version import Version

from mpsprobe.errors import UsageError

if TYPE_CHECKING:  # the limits of an allocator are asked for where there is no torch, too
    from mpsprobe_coverage.knowledge.memory.timeline import Change, Storage

EMPTIES = "empty_cache"  # the category of a storage of no bytes that stands for that
ROUND = 256
_MIB = 2**20
SMALL, LARGE, OWN, TOO_LARGE, ROUND_OWN = _MIB, 10 * _MIB, 512 * _MIB, 32 * _MIB, 2 * _MIB
SCALAR = 8
SMALL_HEAP, LARGE_HEAP, XLARGE_HEAP = 8 * _MIB, 32 * _MIB, 1024 * _MIB
HIGH, LOW, MOST = 1.7, 1.4, 2.0
HIGH_VARIABLE, LOW_VARIABLE = "PYTORCH_MPS_HIGH_WATERMARK_RATIO", "PYTORCH_MPS_LOW_WATERMARK_RATIO"
SHARED_SINCE, PLACED_SINCE, BINARY_SINCE = Version("2.12"), Version("2.14.1"), Version("2.8")
NO_LIMIT = 2**63


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

    def __init__(self, small: Ranges, large: Ranges) -> None:
        self.in_use = self.reserved = 0
        self.segments: list[int] = []
        self._small, self._large = small, large

    def allocate(self, nbytes: int) -> tuple[Ranges, Range]:
        size = self._rounded(nbytes)
        pool = self._small if size <= SMALL else self._large
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


@dataclass(frozen=True, slots=True)
class Limits:
    """What the device allows: bytes that Metal recommends to a process, and those that one buffer stays below.

    ``high`` and ``low`` are the ratios of the watermarks.
    """

    recommended: int | None = None
    buffer: int | None = None
    high: float = HIGH
    low: float = LOW

    @property
    def allowed(self) -> int:
        return NO_LIMIT if self.recommended is None or not self.high else int(self.high * self.recommended)

    @property
    def short(self) -> int:
        return NO_LIMIT if self.recommended is None or not self.low else int(self.low * self.recommended)


def watermarks(environ: Mapping[str, str] = os.environ) -> tuple[float, float]:
    """The ratios, high and low, that the variables of PyTorch set.

    Raises:
        UsageError: one is not a number that PyTorch takes; the program would end at its first tensor.
    """
    high = _ratio(environ, HIGH_VARIABLE, HIGH, MOST)
    return high, _ratio(environ, LOW_VARIABLE, LOW, high or MOST)


def _ratio(environ: Mapping[str, str], name: str, usual: float, most: float) -> float:
    text = environ.get(name)
    try:
        ratio = usual if text is None else float(text)
    except ValueError:
        ratio = -1.0
    if not 0 <= ratio <= most:
        raise UsageError(f"{name}={text or usual} is no ratio from 0 to {most:g}", "Unset it, or set both of them.")
    return ratio


def allocator_of(release: str, limits: Limits) -> Allocator:
    placed, shared = allocator_kind(release)
    unit = "iB" if Version(release) >= BINARY_SINCE else "B"
    return (Placed if placed else Buffers)(limits, shared=shared, unit=unit)


def allocator_kind(release: str) -> tuple[bool, bool]:
    """What of a release makes a difference to what ``allocator_of`` allocates."""
    version = Version(release)
    return version >= PLACED_SINCE, version >= SHARED_SINCE


class _Heaps:
    """What both kinds share: sizes, limits, messages."""

    def __init__(self, limits: Limits, *, shared: bool, unit: str) -> None:
        self.limits, self.shared, self._unit = limits, shared, unit
        self.in_use = self.reserved = 0
        self.segments: list[int] = []

    def _rounded(self, nbytes: int) -> int:
        if self.limits.buffer is not None and nbytes >= self.limits.buffer:
            raise OutOfMemory(f"Invalid buffer size: {self._size(nbytes)}")
        return -(-nbytes // ROUND) * ROUND

    def _size(self, nbytes: int) -> str:
        """As ``MPSHeapAllocatorImpl::format_size`` writes it."""
        if nbytes <= 1024:
            return f"{nbytes} bytes"
        for power, letter in ((30, "G"), (20, "M")):
            if nbytes > 2**power:
                return f"{nbytes / 2**power:.2f} {letter}{self._unit}"
        return f"{nbytes / 2**10:.2f} K{self._unit}"

    def _heap(self, size: int) -> int:
        if size <= SMALL:
            return SMALL_HEAP
        if size < LARGE:
            return LARGE_HEAP
        return XLARGE_HEAP if size < OWN and not self._short else -(-size // ROUND_OWN) * ROUND_OWN

    @property
    def _short(self) -> bool:
        return self.reserved >= self.limits.short

    def _fits(self, size: int) -> bool:
        return self.reserved + size <= self.limits.allowed

    def _raise(self, size: int) -> NoReturn:
        limited = hint = ""
        if self.limits.high:
            limited = f", max allowed: {self._size(self.limits.allowed)}"
            hint = f" Use {HIGH_VARIABLE}=0.0 to disable upper limit for memory allocations (may cause system failure)."
        raise OutOfMemory(
            f"MPS backend out of memory (MPS allocated: {self._size(self.reserved)}, other allocations: 0 bytes"
            f"{limited}). Tried to allocate {self._size(size)} on {'shared' if self.shared else 'private'} pool.{hint}"
        )


@dataclass(slots=True)
class _Heap:
    total: int
    ranges: Ranges  # whose largest one is the largest buffer that still fits: `maxAvailableSizeWithAlignment`
    buffers: int = 0
    number: int = field(default_factory=lambda: next(_numbers))


@dataclass(slots=True)
class _Buffer:
    size: int
    heap: _Heap
    range: Range
    freed: int = 0  # which request for its pool was the last before that
    number: int = field(default_factory=lambda: next(_numbers))


@dataclass(slots=True)
class _Pool:
    large: bool
    requests: int = 0
    heaps: list[tuple[int, int, _Heap]] = field(default_factory=list)  # by what is available
    free: list[tuple[int, int, _Buffer]] = field(default_factory=list)  # by size


class Buffers(_Heaps):
    """Until 2.14.0: buffers keep their size for as long as they are cached."""

    def __init__(self, limits: Limits, *, shared: bool, unit: str) -> None:
        super().__init__(limits, shared=shared, unit=unit)
        self._pools = {"scalar": _Pool(False), "small": _Pool(False), "large": _Pool(True)}

    def allocate(self, nbytes: int) -> tuple[_Pool, _Buffer]:
        size = self._rounded(nbytes)
        apart = nbytes <= SCALAR and not self.shared
        pool = self._pools["scalar" if apart else "small" if size <= SMALL else "large"]
        buffer = self._cached(pool, size) or self._new(pool, size)
        if buffer is None:
            self._release_one(pool, size)
            buffer = self._new(pool, size)
        if buffer is None:
            self.empty()
            buffer = self._new(pool, size)
        if buffer is None:
            self._raise(size)
        self.in_use += buffer.size
        return pool, buffer

    def free(self, handle: tuple[_Pool, _Buffer]) -> None:
        pool, buffer = handle
        self.in_use -= buffer.size
        buffer.freed = pool.requests
        insort(pool.free, (buffer.size, buffer.number, buffer))

    def place(self, handle: tuple[_Pool, _Buffer]) -> Place:
        return handle[1].range.place

    def empty(self) -> None:
        for pool in self._pools.values():
            for _, _, cached in pool.free.copy():
                self._release(pool, cached)

    def _cached(self, pool: _Pool, size: int) -> _Buffer | None:
        if not self._fits(size):
            return None
        short = pool.large and self._short
        pool.requests += 1
        place = bisect_left(pool.free, (size, -1))
        if place < len(pool.free):
            buffer = pool.free[place][2]
            if buffer.size <= size + TOO_LARGE:
                del pool.free[place]
                return buffer
            if bisect_left(pool.heaps, (size, -1)) == len(pool.heaps):
                self._release(pool, buffer, keep_heap=True)
                short = False
        if short and size < sum(cached[0] for cached in pool.free):
            self._collect(pool)
        return None

    def _new(self, pool: _Pool, size: int) -> _Buffer | None:
        if not self._fits(size):
            return None
        place = bisect_left(pool.heaps, (size, -1))
        if place < len(pool.heaps):
            heap = pool.heaps.pop(place)[2]
        else:
            total = self._heap(size)
            heap = _Heap(total, Ranges(ROUND))
            heap.ranges.segment(total, len(self.segments))
            self.segments.append(total)
            self.reserved += total
        part = heap.ranges.take(size)
        assert part is not None
        heap.buffers += 1
        insort(pool.heaps, (heap.ranges.largest, heap.number, heap))
        return _Buffer(size, heap, part)

    def _release(self, pool: _Pool, buffer: _Buffer, *, keep_heap: bool = False) -> None:
        del pool.free[bisect_left(pool.free, (buffer.size, buffer.number))]
        heap = buffer.heap
        del pool.heaps[bisect_left(pool.heaps, (heap.ranges.largest, heap.number))]
        heap.ranges.give_back(buffer.range)
        heap.buffers -= 1
        if heap.buffers or keep_heap:
            insort(pool.heaps, (heap.ranges.largest, heap.number, heap))
        else:
            self.reserved -= heap.total

    def _release_one(self, pool: _Pool, size: int) -> None:
        """Release cached buffers of the pool until they make up ``size``, the largest first."""
        place = bisect_left(pool.free, (size, -1))
        if place < len(pool.free):
            self._release(pool, pool.free[place][2])
            return
        released = 0
        while pool.free and released < size:
            buffer = pool.free[-1][2]
            released += buffer.size
            self._release(pool, buffer)

    def _collect(self, pool: _Pool) -> None:
        """Release cached buffers that have waited for more requests than the average, until memory is not short."""
        wanted, released = self.reserved - self.limits.short, 0
        while pool.free and released < wanted:
            average = sum(cached[2].freed for cached in pool.free) / len(pool.free)
            for _, _, buffer in pool.free.copy():
                if released < wanted and buffer.freed <= average:
                    released += buffer.size
                    split = buffer.heap.total in (LARGE_HEAP, XLARGE_HEAP)
                    self._release(pool, buffer, keep_heap=split)


class Placed(_Heaps, Merging):
    """From 2.14.1 on: freed ranges of a heap are split and merged."""

    def __init__(self, limits: Limits, *, shared: bool, unit: str) -> None:
        _Heaps.__init__(self, limits, shared=shared, unit=unit)
        Merging.__init__(self, Ranges(ROUND), Ranges(SMALL))

    def _segment(self, size: int) -> int:
        if not self._fits(size) or self._short:
            self.empty()
        if not self._fits(size):
            self._raise(size)
        return self._heap(size)
