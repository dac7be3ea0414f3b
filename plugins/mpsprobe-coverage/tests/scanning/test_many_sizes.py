"""What the allocator asks for over batches of many lengths."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from mpsprobe.protocols import RunOptions, TorchRun
from mpsprobe_coverage.knowledge.kernels.mps import load_table
from mpsprobe_coverage.knowledge.memory.lifetimes import of_step
from mpsprobe_coverage.knowledge.memory.timeline import changes
from mpsprobe_coverage.reporting.fitting import Needs
from mpsprobe_coverage.scanning.interpolating import Interpolation
from mpsprobe_coverage.scanning.many_sizes import reserved_growth
from mpsprobe_coverage.scanning.tracing import Tracer
from mpsprobe_coverage.scanning.vary import Vary

VARY = Vary("seq-len", 64, 2048)


class Scores(nn.Module):
    """Storages that grow with the length, and with its square."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.out = nn.Linear(256, 256), nn.Linear(256, 256)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query: Any = self.query(x)
        return self.out((query @ query.mT).softmax(-1) @ x).sum()


def _needs(release: str, length: int) -> Needs:
    run = TorchRun(Scores(), (torch.empty(24, length, 256),), loss=lambda output: output)
    trace = Tracer(run, RunOptions(phase="training")).settled(load_table(release))
    return Needs(release, changes(of_step(trace.events)))


@pytest.mark.parametrize(("release", "keeps"), [("2.13.0", True), ("2.15.0", False)])
def test_buffers_of_each_length_are_kept_until_ranges_are_split(release: str, keeps: bool) -> None:
    runs = {length: _needs(release, length) for length in (64, 1056, 2048)}
    assert Interpolation(runs.__getitem__, [*runs]).at(700).unlimited == _needs(release, 700).unlimited
    found = reserved_growth(VARY, runs, release, 256)
    assert found is not None and found.padded_bytes is not None
    assert found.largest_bytes <= found.emptied_bytes <= found.reserved_bytes
    assert (found.reserved_bytes > 1.3 * found.largest_bytes) == keeps
    assert found.padded_bytes < found.reserved_bytes or not keeps


def test_runs_that_differ_in_more_than_sizes_say_nothing() -> None:
    other = Needs("2.13.0", _needs("2.13.0", 96).steady[:-1])
    assert reserved_growth(VARY, {64: _needs("2.13.0", 64), 96: other}, "2.13.0", 1) is None
