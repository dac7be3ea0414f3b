"""The models of allocators do what PyTorch's sources say; and the section of a report that rests on them."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
from torch import nn

import mpsprobe
from benchmarks.real_memory import CudaAllocator
from mpsprobe.errors import UsageError
from mpsprobe.schemas import CoverageReport, MatrixReport, MemoryPrediction
from mpsprobe_coverage.knowledge.calls.spec import interned
from mpsprobe_coverage.knowledge.memory.allocator import Limits, allocator_of, replay, watermarks
from mpsprobe_coverage.knowledge.memory.inside_kernels import bytes_inside, not_counted
from mpsprobe_coverage.knowledge.memory.lifetimes import Made
from mpsprobe_coverage.knowledge.memory.timeline import Change, Storage

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


def test_figures_are_those_of_a_device_with_limits() -> None:
    changes = [Change(Storage(128 * MIB, "temporary", None, None), True)]
    assert replay(changes, allocator_of("2.13.0", Limits())).raised is None
    limited = allocator_of("2.13.0", Limits(buffer=64 * MIB))
    assert replay(changes, limited).raised == "Invalid buffer size: 128.00 MiB"


def test_watermarks_of_the_variables() -> None:
    high, low = "PYTORCH_MPS_HIGH_WATERMARK_RATIO", "PYTORCH_MPS_LOW_WATERMARK_RATIO"
    assert watermarks({}) == (1.7, 1.4)
    assert watermarks({high: "0.0"}) == (0.0, 1.4)
    assert watermarks({high: "0.8", low: "0.5"}) == (0.8, 0.5)
    for wrong in ({high: "2.5"}, {high: "much"}, {high: "-1"}, {high: "1.0"}, {low: "1.8"}):
        with pytest.raises(UsageError, match="WATERMARK_RATIO"):
            watermarks(wrong)


@functools.cache
def _report(name: str, release: str = "2.13.0", **options: Any) -> CoverageReport:
    report = mpsprobe.coverage(name, size="small", torch=release, **options)
    assert isinstance(report, CoverageReport)
    return report


def _training(release: str) -> tuple[CoverageReport, MemoryPrediction]:
    """Asked with all allocations."""
    report = _report("bert-base", release, phase="training", allocations=True)
    assert report.memory is not None
    return report, report.memory


def test_a_training_step() -> None:
    report, memory = _training("2.13.0")
    parameters = report.summary.parameters_bytes
    assert parameters and memory.by_category["parameters"] == parameters
    state = memory.by_category["optimizer state"]
    assert 2 * parameters < state < 2 * parameters + 10_000  # and a count for each of them
    assert set(memory.by_phase) == {"forward", "backward", "optimizer"}
    assert sum(memory.by_category.values()) == memory.peak_bytes == max(memory.by_phase.values())
    assert max(point.bytes for point in memory.curve) == memory.peak_bytes and len(memory.curve) < 260
    assert memory.peak_bytes <= memory.allocated_bytes < memory.reserved_bytes
    kept = [one for one in memory.holders if one.category == "activations"]
    assert kept and all(one.operator and one.call_site and one.modules for one in kept)


def test_the_cache_of_a_generation() -> None:
    memory = _report("gpt2", phase="generate", batch_size=3, seq_len=20, new_tokens=5).memory
    assert memory is not None and memory.phase == "prefill"
    layers, heads, width, kinds = 2, 12, 64, 2
    assert memory.by_category["cache"] == layers * kinds * 3 * heads * 20 * width * 4
    assert {"prefill", "decode", "sampling"} == set(memory.by_phase)
    assert memory.allocations is None  # nobody asked for them


@pytest.mark.parametrize(("stride", "size"), [((240, 60, 20, 5, 1), 0), ((240, 1, 80, 20, 4), 4 * 480)])
def test_a_convolution_of_five_dimensions_copies_a_strided_input(stride: tuple[int, ...], size: int) -> None:
    spec = interned((2, 4, 3, 4, 5), stride, torch.float32)
    assert bytes_inside(Made("aten::_mps_convolution", None, None, 0, (spec,))) == size


def test_what_is_not_counted() -> None:
    query, scores = (interned(shape, (1,) * 4, torch.float16) for shape in ((1, 2, 30, 8), (1, 2, 30, 30)))
    attention = Made("aten::_scaled_dot_product_attention_math_for_mps", None, None, 0, (query,), (query, scores))
    fallback = Made("aten::x", None, None, 0, (query,), (query, query), "fallback")
    strided = Made("aten::y", None, None, 0, (query, query), (), "native")
    events = [attention, fallback, strided]
    assert [size for _, size in not_counted(events, None)] == [None, 4 * 1800, 3 * 960]
    assert [size for _, size in not_counted(events, "14.0")] == [None, 4 * 1800, 3 * 960, 2 * 960]
    assert len(not_counted([], None)) == 1


@pytest.mark.parametrize("release", ["2.9.1", "2.13.0", "2.15.0"])
def test_every_allocation_has_its_place(release: str) -> None:
    _, memory = _training(release)
    found = memory.allocations
    assert found is not None and sum(found.segments) == memory.reserved_bytes
    beginnings = [(one.begins, one) for one in found.storages]
    ends = [(one.ends, one) for one in found.storages if one.ends is not None]
    alive: dict[tuple[int, int], int] = {}  # where each one begins → where it ends
    peak = 0
    for number, one in sorted(beginnings + ends, key=lambda pair: pair[0]):
        if number == one.ends:
            del alive[one.segment, one.offset]
            continue
        end = one.offset + one.size
        there = [(first, last) for (segment, first), last in alive.items() if segment == one.segment]
        assert not [other for other in there if other[0] < end and one.offset < other[1]]
        assert end <= found.segments[one.segment] and one.bytes <= one.size
        alive[one.segment, one.offset] = end
        peak = max(peak, sum(end - offset for (_, offset), end in alive.items()))
    assert peak == memory.allocated_bytes
    moved = {"parameters", "buffers", "inputs"}
    assert {one.category for one in found.storages if one.call is None} == moved & {*memory.by_category}
    kept = {one.category for one in found.storages if one.ends is None and one.bytes > 4}  # and the loss
    assert kept == {"parameters", "buffers", "inputs", "optimizer state"}


def test_each_release_of_a_matrix_has_the_figures_that_it_has_alone() -> None:
    releases = ["2.9.1", "2.15.0"]
    matrix = mpsprobe.coverage("bert-base", size="small", phase="training", torch=releases)
    assert isinstance(matrix, MatrixReport)
    for release, cell in zip(releases, matrix.releases, strict=True):
        assert cell.memory == _training(release)[1].figures() and cell.fit is None


class Finding(nn.Module):
    """What it keeps depends on values: rows or numbers by a mask, or distinct numbers."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.wide = how, nn.Linear(8, 1024)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.how == "rows":
            return self.wide(x[torch.nonzero(x.sum(-1) > 0)[:, 0]]).sum()
        if self.how == "largest":
            return x[x > 0].amax()
        values = torch.unique(x)
        if self.how == "loop":
            return torch.stack([value * 2 for value in values]).sum()
        return self.wide(values[:, None].expand(-1, 8)).sum()


ROWS, WIDTH = 4096, 1024


@pytest.mark.parametrize("how", ["rows", "distinct"])
def test_what_is_not_known_gives_a_range(how: str) -> None:
    report = mpsprobe.coverage(Finding(how), torch.rand(ROWS, 8), torch="2.13.0", memory=2**23)
    memory = report.memory
    assert memory is not None and memory.range is not None and memory.fit is not None
    found = 8 * ROWS if how == "distinct" else ROWS
    assert memory.range.high_bytes == memory.peak_bytes >= found * WIDTH * 4
    assert memory.range.low_bytes and memory.range.low_bytes < 2**20
    assert [place.split(" at ")[0] for place in memory.range.because] == [
        "aten::_unique2" if how == "distinct" else "aten::nonzero"
    ]
    assert memory.range.low_bytes < memory.fit.memory_bytes and memory.fit.answer == "raises"  # at its high end


def test_where_there_is_no_low_end() -> None:
    loop, largest = (
        mpsprobe.coverage(Finding(how), torch.rand(ROWS, 8), torch="2.13.0").memory for how in ("loop", "largest")
    )
    assert loop is not None and loop.range is None  # all that could be found is not gone through
    assert largest is not None and largest.range is not None and largest.range.low_bytes is None  # of nothing: an error


def test_parameters_are_there_in_each_release_of_a_run_on_several() -> None:
    report = mpsprobe.coverage("bert-base", size="small", torch=["2.12.0", "2.13.0"], memory=2**26)
    answers = [cell.fit.answer for cell in report.releases if cell.fit]
    assert answers == ["raises", "raises"]


@pytest.mark.parametrize(
    ("release", "width", "tokens", "scores"),
    [("2.12.1", 64, 64, True), ("2.13.0", 64, 64, False), ("2.15.0", 64, 8, True), ("2.15.0", 48, 64, True)],
)
def test_attention_in_one_kernel_has_no_scores(release: str, width: int, tokens: int, scores: bool) -> None:
    class Attention(nn.Module):
        def forward(self, query: torch.Tensor) -> torch.Tensor:
            return nn.functional.scaled_dot_product_attention(query, query, query)

    report = mpsprobe.coverage(Attention(), torch.randn(2, 4, tokens, width), torch=release)
    assert report.memory is not None
    query, whole = 2 * 4 * tokens * width * 4, 2 * 4 * tokens * tokens * 4
    assert report.memory.peak_bytes == 2 * query + whole * scores
    assert any("scores in float32" in one.what for one in report.memory.not_counted) == scores
