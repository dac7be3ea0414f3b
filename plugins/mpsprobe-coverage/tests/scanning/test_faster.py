"""What would make a step faster: recorded calls under a change cost what calls that are recorded under it do."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from mpsprobe.plugins.registry import get_registry
from mpsprobe.protocols import RunOptions
from mpsprobe.schemas import TimePrediction
from mpsprobe_coverage.knowledge.chips.store import all_chips
from mpsprobe_coverage.knowledge.kernels.backends import family_named
from mpsprobe_coverage.knowledge.times.model import estimate
from mpsprobe_coverage.recording.trace import Trace
from mpsprobe_coverage.reporting import faster
from mpsprobe_coverage.reporting.works import Works, calls_of, works_of
from mpsprobe_coverage.scanning.scan import CoverageScanner, scanned
from mpsprobe_devkit.testing.fakes import FakeProgress

RELEASE = "2.13.0"
ROWS = torch.zeros(4, 512, 256)


class Eager(nn.Module):
    """Attention of eight heads that is written out, on (N, 512, 256)."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList(nn.Linear(256, 256) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = (part(x).view(-1, 512, 8, 32).transpose(1, 2) for part in self.parts)
        return (query @ key.transpose(-2, -1) * 0.17).softmax(-1) @ value


class Strided(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1024, 2048))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(x, self.weight.t())


class Then(nn.Module):
    """A layer, and a function of what it gives."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.layer, self.function = nn.Linear(64, 64), function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(self.layer(x))


def time_of(model: nn.Module, x: torch.Tensor, chip: str, release: str = RELEASE, **options: Any) -> TimePrediction:
    workload = get_registry().workload_of(model, x)
    report = CoverageScanner().scan(workload, RunOptions(chip=chip, **options), [release], FakeProgress())
    assert report.kind == "coverage" and report.time is not None
    return report.time


def test_what_computes_nothing_has_no_time_and_the_report_says_so() -> None:
    workload = get_registry().workload_of(nn.Flatten(), torch.zeros(4, 2))
    report = CoverageScanner().scan(workload, RunOptions(chip="m2"), [RELEASE], FakeProgress())
    assert report.kind == "coverage" and report.time is None
    assert "no time is predicted: nothing is computed on the device" in report.workload.notes


def changes(time: TimePrediction) -> dict[str, str]:
    assert [one.gain for one in time.faster] == sorted((one.gain for one in time.faster), reverse=True)
    assert all(one.gain >= 1.05 and len(one.step_ms) == 3 for one in time.faster)
    return {one.kind: one.change for one in time.faster}


def recorded(name: str, **options: Any) -> tuple[int, Trace, Works]:
    run = RunOptions(chip="m2-pro", size="small", **options)
    tables = [family_named("mps").target(RELEASE)]
    info, traces, _ = scanned(
        get_registry().workload(name), run, tables, FakeProgress(), lambda *_: None, with_since=False
    )
    assert info.batch_size is not None
    return info.batch_size, traces[0], works_of(traces[0].recorder.calls())


def likely(works: Works, chip: str) -> float:
    found = estimate(calls_of(works), all_chips()[chip], None, RELEASE)
    assert found is not None
    return found.step_ms.likely


@pytest.mark.parametrize(
    ("name", "options"),
    [("vit-base", {"batch_size": 1}), ("gpt2", {"batch_size": 2, "phase": "generate"}),
     ("resnet50", {"batch_size": 2, "phase": "training"})],
)  # fmt: skip
def test_a_larger_batch_costs_what_it_does_where_it_is_run(name: str, options: dict[str, Any]) -> None:
    batch, trace, works = recorded(name, **options)
    grown = faster.of_batch(works, trace, batch, 4)
    _, _, there = recorded(name, **options | {"batch_size": 4 * batch})
    for chip in ("m1", "m3-max"):
        assert likely(grown, chip) == pytest.approx(likely(there, chip), rel=0.03)
        assert likely(works, chip) < 0.95 * likely(there, chip)


def test_half_precision_costs_what_it_does_where_it_is_run() -> None:
    _, _, works = recorded("bert-base", batch_size=2)
    halved = faster.changed(works, partial(faster.in_dtype, dtype=torch.float16))
    _, _, there = recorded("bert-base", batch_size=2, dtype="float16")
    assert likely(halved, "m1") == pytest.approx(likely(there, "m1"), rel=0.01)


def test_attention_that_is_written_out_may_be_fused_but_not_in_training() -> None:
    assert changes(time_of(Eager(), ROWS, "m2-pro"))["attention"] == "scaled_dot_product_attention"
    assert "attention" not in changes(time_of(Eager(), ROWS, "m2-pro", phase="training"))
    assert "attention" not in changes(time_of(Eager(), ROWS, "m2-pro", "2.1.0")), "no fused kernel there"


def test_weights_may_be_contiguous_where_that_is_faster() -> None:
    x = torch.zeros(512, 1024)
    assert changes(time_of(Strided(), x, "m1"))["layout"] == "contiguous weights"
    assert "layout" not in changes(time_of(Strided(), x, "m3")), "there it is as fast"


def test_half_precision_is_in_hardware_and_has_every_kernel() -> None:
    x = torch.zeros(4096, 2048)
    wide = nn.Linear(2048, 2048)
    assert changes(time_of(wide, x, "m3"))["dtype"] == "float16"
    assert "dtype" not in changes(time_of(wide, x, "m1", phase="training")), "bfloat16 is emulated there"
    assert changes(time_of(wide, x, "m5", phase="training"))["dtype"] == "bfloat16"
    left = Then(torch.lgamma)
    assert "dtype" not in changes(time_of(left, torch.zeros(4096, 64), "m3", "2.1.0")), "one is left to the CPU"


def test_a_newer_release_has_kernels_and_is_not_slow_where_an_older_one_was() -> None:
    x = torch.zeros(4096, 64)
    old = time_of(Then(torch.special.i0), x, "m2-pro", "2.1.0")
    assert changes(old)["release"] == "torch 2.6.0", "the first with a kernel"
    assert changes(time_of(Then(torch.celu), x, "m2-pro", "2.1.0"))["release"] == "torch 2.2.0"
    assert "release" not in changes(time_of(Then(torch.celu), x, "m2-pro"))


def test_a_larger_batch_has_to_fit() -> None:
    def largest(chip: str) -> int:
        run = RunOptions(chip=chip, phase="training", size="small", batch_size=1)
        report = CoverageScanner().scan(get_registry().workload("resnet50"), run, [RELEASE], FakeProgress())
        assert report.kind == "coverage" and report.time is not None and report.memory is not None
        batches = [int(one.change.split()[1]) for one in report.time.faster if one.kind == "batch"]
        fits = [fit for fit in (*report.memory.fits, report.memory.fit) if fit is not None]
        assert all(
            batch * report.memory.reserved_bytes <= max(fit.low.recommended_bytes for fit in fits) for batch in batches
        )
        return max(batches, default=1)

    assert largest("m3-max-128gb") > 1


def test_convolutions_are_trained_faster_without_channels_last() -> None:
    def time(layout: torch.memory_format, release: str, phase: str = "training") -> TimePrediction:
        layers = nn.Conv2d(24, 24, 3, padding=1), nn.ReLU(), nn.Conv2d(24, 24, 3, padding=1)
        model = nn.Sequential(*layers).to(memory_format=layout)
        return time_of(model, torch.zeros(256, 24, 32, 32).to(memory_format=layout), "m5", release, phase=phase)

    last, contiguous = (time(layout, RELEASE) for layout in (torch.channels_last, torch.contiguous_format))
    layout, release = (next(one for one in last.faster if one.kind == kind) for kind in ("layout", "release"))
    assert (layout.change, release.change) == ("contiguous tensors in place of channels last", "torch 2.15.0")
    assert layout.step_ms[1] == pytest.approx(contiguous.step_ms[1], rel=0.03) and layout.gain > 5
    assert last.bound_by == "bandwidth" and "layout" not in changes(contiguous)
    for other, phase in [("2.5.1", "training"), ("2.15.0", "training"), (RELEASE, "inference")]:
        assert "layout" not in changes(time(torch.channels_last, other, phase))
