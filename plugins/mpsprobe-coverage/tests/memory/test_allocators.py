"""The models of allocators do what PyTorch's sources say."""

from __future__ import annotations

from typing import Any

import pytest

from mpsprobe.errors import UsageError
from mpsprobe_coverage.memory.allocator import replay
from mpsprobe_coverage.memory.cuda_allocator import CudaAllocator
from mpsprobe_coverage.memory.mps_allocator import Limits, allocator_of, watermarks
from mpsprobe_coverage.memory.timeline import Change, Storage

KIB, MIB, GIB = 2**10, 2**20, 2**30
RELEASES = ("2.9.1", "2.12.0", "2.14.0", "2.14.1", "2.15.0")


def _run(allocator: Any, *sizes: int) -> Any:
    """Allocate each size; a negative one frees the oldest of that size."""
    alive: list[Storage] = []
    changes = []
    for size in sizes:
        if size > 0:
            alive.append(Storage(size, "temporary", None, None))
            changes.append(Change(alive[-1], True))
        else:
            gone = next(one for one in alive if one.nbytes == -size)
            alive.remove(gone)
            changes.append(Change(gone, False))
    return replay(changes, allocator)


def test_cuda() -> None:
    for sizes, in_use, reserved in (
        ((1,), 512, 2 * MIB),
        ((MIB, MIB), 2 * MIB, 2 * MIB),
        ((MIB, MIB, 1), 2 * MIB + 512, 4 * MIB),
        ((MIB + 1,), MIB + 512, 20 * MIB),
        ((10 * MIB,), 10 * MIB, 10 * MIB),
        ((11 * MIB,), 12 * MIB, 12 * MIB),  # 1 MiB is left over, which stays with it
        ((5 * MIB, 5 * MIB, -5 * MIB, -5 * MIB, 20 * MIB), 20 * MIB, 20 * MIB),  # merged
        ((40 * MIB, -40 * MIB, 12 * MIB, 12 * MIB), 40 * MIB, 40 * MIB),  # split
    ):
        found = _run(CudaAllocator(), *sizes)
        assert (found.in_use, found.reserved) == (in_use, reserved), sizes


@pytest.mark.parametrize("release", RELEASES)
def test_mps_heaps(release: str) -> None:
    for size, reserved in (
        (KIB, 8 * MIB),
        (MIB + 1, 32 * MIB),
        (10 * MIB, GIB),
        (511 * MIB, GIB),
        (512 * MIB, 512 * MIB),
        (3 * GIB + 1, 3 * GIB + 2 * MIB),
    ):
        found = _run(allocator_of(release, Limits()), size)
        assert (found.live, found.in_use, found.reserved) == (size, -(-size // 256) * 256, reserved)


def test_scalars_have_a_heap_of_their_own_until_2_11() -> None:
    assert _run(allocator_of("2.11.0", Limits()), 4, KIB).reserved == 16 * MIB
    assert _run(allocator_of("2.12.0", Limits()), 4, KIB).reserved == 8 * MIB


def test_placed_heaps_are_split_and_merged_and_buffers_are_not() -> None:
    sizes = (400 * MIB, 400 * MIB, -400 * MIB, -400 * MIB, 200 * MIB, 200 * MIB, 500 * MIB)
    before, after = (_run(allocator_of(release, Limits()), *sizes) for release in ("2.14.0", "2.14.1"))
    assert (before.live, after.live) == (900 * MIB, 900 * MIB)
    assert after.reserved == GIB < before.reserved


def test_a_buffer_that_is_a_little_too_large_is_used_again() -> None:
    found = _run(allocator_of("2.13.0", Limits()), 40 * MIB, -40 * MIB, 20 * MIB)
    assert (found.in_use, found.reserved) == (40 * MIB, GIB)


@pytest.mark.parametrize("release", RELEASES)
def test_it_raises_where_pytorch_does(release: str) -> None:
    limits = Limits(recommended=GIB, buffer=900 * MIB)
    found = _run(allocator_of(release, limits), *[600 * MIB] * 4)
    assert found.live == 2 * 600 * MIB and found.refused and found.refused.nbytes == 600 * MIB
    assert found.raised is not None
    assert found.raised.startswith("MPS backend out of memory (MPS allocated: 1.17 GiB, other allocations: 0 bytes, ")
    pool = "private" if release == "2.9.1" else "shared"
    assert f"max allowed: 1.70 GiB). Tried to allocate 600.00 MiB on {pool} pool. Use PYTORCH_MPS_HIGH" in found.raised
    found = _run(allocator_of(release, limits), 900 * MIB)
    assert found.raised == "Invalid buffer size: 900.00 MiB"
    cached = (600 * MIB, -600 * MIB, 700 * MIB, -700 * MIB, 1600 * MIB)  # which is released before it raises
    assert _run(allocator_of(release, Limits(recommended=GIB)), *cached).raised is None
    unlimited = Limits(recommended=GIB, high=0.0)
    assert _run(allocator_of(release, unlimited), *[600 * MIB] * 4).raised is None


def test_messages_of_older_releases_have_other_units() -> None:
    limits = Limits(recommended=GIB, buffer=900 * MIB)
    assert _run(allocator_of("2.7.1", limits), 900 * MIB).raised == "Invalid buffer size: 900.00 MB"
    assert "(MPS allocated: 1.17 GB, " in str(_run(allocator_of("2.7.1", limits), *[600 * MIB] * 4).raised)


def test_watermarks_of_the_variables() -> None:
    high, low = "PYTORCH_MPS_HIGH_WATERMARK_RATIO", "PYTORCH_MPS_LOW_WATERMARK_RATIO"
    assert watermarks({}) == (1.7, 1.4)
    assert watermarks({high: "0.0"}) == (0.0, 1.4)
    assert watermarks({high: "0.8", low: "0.5"}) == (0.8, 0.5)
    for wrong in ({high: "2.5"}, {high: "much"}, {high: "-1"}, {high: "1.0"}, {low: "1.8"}):
        with pytest.raises(UsageError, match="WATERMARK_RATIO"):
            watermarks(wrong)
