"""The section of a report: what a run holds, for one release or another."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
from torch import nn

import mpsprobe
from mpsprobe.plugins.registry import get_registry
from mpsprobe.progress import make_progress
from mpsprobe.protocols import RunOptions
from mpsprobe.schemas import CoverageReport, MatrixReport, MemoryPrediction
from mpsprobe_coverage.calls.spec import interned
from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.kernels.mps import load_table
from mpsprobe_coverage.memory.inside import bytes_inside, not_counted
from mpsprobe_coverage.memory.lifetimes import Lifetimes, Made
from mpsprobe_coverage.memory.mps_allocator import Limits
from mpsprobe_coverage.memory.timeline import timeline
from mpsprobe_coverage.scanner.memory import figures
from mpsprobe_coverage.scanner.scan import CoverageScanner


@functools.cache
def _report(name: str, release: str = "2.13.0", **options: Any) -> CoverageReport:
    with make_progress() as progress:
        asked = RunOptions(size="small", **options)
        report = CoverageScanner().scan(get_registry().workload(name), asked, [release], progress)
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


def test_limits_of_a_device_say_where_it_raises() -> None:
    lifetimes = Lifetimes()
    with VirtualDevice(load_table("2.13.0"), lifetimes=lifetimes) as device:
        model = device.move(nn.Linear(4096, 4096))
        x = torch.empty(8192, 4096, device="mps")
        with device.recording("forward"), torch.no_grad():
            y = model(x).relu()
        events = lifetimes.end()
        del y
    changes = timeline(events).changes
    assert figures(changes, "2.13.0", Limits()).raised is None
    found = figures(changes, "2.13.0", Limits(recommended=2**28, buffer=2**30))
    assert found.raised and found.raised.startswith("MPS backend out of memory") and found.refused
    call = found.refused.call
    assert call is None or call.operator.startswith("aten::")
    assert figures(changes, "2.13.0", Limits(buffer=2**26)).raised == "Invalid buffer size: 64.00 MiB"


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
    with make_progress() as progress:
        asked = RunOptions(size="small", phase="training")
        matrix = CoverageScanner().scan(get_registry().workload("bert-base"), asked, releases, progress)
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
