"""The section of a report: what a run holds, for one release or another."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from mpsprobe.plugins.registry import get_registry
from mpsprobe.protocols import RunOptions
from mpsprobe.schemas import CoverageReport
from mpsprobe_coverage.calls.spec import interned
from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.kernels.mps import load_table
from mpsprobe_coverage.memory.inside import bytes_inside, not_counted
from mpsprobe_coverage.memory.lifetimes import Lifetimes, Made
from mpsprobe_coverage.memory.mps_allocator import Limits
from mpsprobe_coverage.memory.timeline import timeline
from mpsprobe_coverage.scanner.memory import figures


def _report(name: str, release: str = "2.13.0", **options: Any) -> CoverageReport:
    from mpsprobe.progress import make_progress
    from mpsprobe_coverage.scanner.scan import CoverageScanner

    with make_progress() as progress:
        asked = RunOptions(size="small", **options)
        report = CoverageScanner().scan(get_registry().workload(name), asked, [release], progress)
    assert isinstance(report, CoverageReport)
    return report


def test_a_training_step() -> None:
    report = _report("bert-base", phase="training")
    memory = report.memory
    assert memory is not None
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
