"""CUDA's caching allocator, by which the lifetimes are checked against a real GPU (``benchmarks/memory_on_cuda.py``).

Facts, from PyTorch's ``c10/cuda/CUDACachingAllocator.cpp`` and ``c10/core/AllocatorConfig.h``: sizes are rounded to 512
bytes; up to 1 MiB they come from segments of 2 MiB, below 10 MiB from segments of 20 MiB, others have a segment of
their own, rounded to 2 MiB. The smallest free block that fits is taken and split where 512 bytes (small), or more than
1 MiB (large) are left; free neighbours are merged.
"""

from __future__ import annotations

from mpsprobe_coverage.knowledge.memory.allocator import Merging, Ranges

_MIB = 2**20
ROUND, SMALL = 512, Merging.SMALL
SMALL_SEGMENT, LARGE_SEGMENT, LARGE, ROUND_LARGE = 2 * _MIB, 20 * _MIB, 10 * _MIB, 2 * _MIB


class CudaAllocator(Merging):
    """See ``Allocator``; memory does not end."""

    def __init__(self) -> None:
        super().__init__(Ranges(ROUND), Ranges(SMALL + 1))

    def _rounded(self, nbytes: int) -> int:
        return -(-nbytes // ROUND) * ROUND

    def _segment(self, size: int) -> int:
        if size <= SMALL:
            return SMALL_SEGMENT
        return LARGE_SEGMENT if size < LARGE else -(-size // ROUND_LARGE) * ROUND_LARGE
