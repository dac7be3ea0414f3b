"""CUDA's caching allocator, by which the lifetimes are checked against a real GPU (``benchmarks/memory_on_cuda.py``).

Facts, from PyTorch's ``c10/cuda/CUDACachingAllocator.cpp`` and ``c10/core/AllocatorConfig.h``: sizes are rounded to 512
bytes; up to 1 MiB they come from segments of 2 MiB, below 10 MiB from segments of 20 MiB, others have a segment of
their own, rounded to 2 MiB. The smallest free block that fits is taken and split where 512 bytes (small), or more than
1 MiB (large) are left; free neighbours are merged.
"""

from __future__ import annotations

from mpsprobe_coverage.memory.allocator import Range, Ranges

_KIB, _MIB = 2**10, 2**20
ROUND, SMALL = 512, _MIB
SMALL_SEGMENT, LARGE_SEGMENT, LARGE, ROUND_LARGE = 2 * _MIB, 20 * _MIB, 10 * _MIB, 2 * _MIB


class CudaAllocator:
    """See ``Allocator``; memory does not end."""

    def __init__(self) -> None:
        self.in_use = self.reserved = 0
        self._small, self._large = Ranges(ROUND), Ranges(SMALL + 1)

    def allocate(self, nbytes: int) -> tuple[Ranges, Range]:
        size = -(-nbytes // ROUND) * ROUND
        pool = self._small if size <= SMALL else self._large
        found = pool.take(size)
        if found is None:
            segment = _segment(size)
            self.reserved += segment
            pool.segment(segment)
            found = pool.take(size)
            assert found is not None
        self.in_use += found.size
        return pool, found

    def free(self, handle: tuple[Ranges, Range]) -> None:
        pool, found = handle
        self.in_use -= found.size
        pool.give_back(found)


def _segment(size: int) -> int:
    if size <= SMALL:
        return SMALL_SEGMENT
    return LARGE_SEGMENT if size < LARGE else -(-size // ROUND_LARGE) * ROUND_LARGE
