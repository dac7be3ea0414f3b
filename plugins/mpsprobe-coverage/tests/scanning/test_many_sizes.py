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
from mpsprobe_coverage.scanning.many_sizes import growth_of_program, reserved_growth
from mpsprobe_coverage.scanning.tracing import Tracer
from mpsprobe_coverage.scanning.vary import Vary

MIB = 2**20
UPDATED, EMPTIED = 0, 1 - 2**63  # as C++ notes them
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
    found = reserved_growth(VARY, runs, release, 256, RunOptions())
    assert found is not None and found.padded_bytes is not None
    assert found.largest_bytes <= found.emptied_bytes <= found.reserved_bytes
    assert (found.reserved_bytes > 1.3 * found.largest_bytes) == keeps
    assert found.padded_bytes < found.reserved_bytes or not keeps


def test_runs_that_differ_in_more_than_sizes_say_nothing() -> None:
    other = Needs("2.13.0", _needs("2.13.0", 96).steady[:-1])
    assert reserved_growth(VARY, {64: _needs("2.13.0", 64), 96: other}, "2.13.0", 1, RunOptions()) is None


def _order(sizes: list[int], *, emptied: bool = False) -> list[int]:
    """What C++ notes of steps that take one block each, of so many MiB."""
    return [
        entry
        for number, size in enumerate(sizes)
        for entry in (size * MIB, -1 - number, *([EMPTIED] if emptied else []), UPDATED)
    ]


def test_steps_of_a_program_keep_buffers_of_each_size() -> None:
    """Buffers of 10 MiB to 512 MiB are from heaps of 1 GiB, and one is used again if it is 32 MiB too large at most."""
    found = growth_of_program(_order([100, 200, 300, 400, 500]), "2.13.0", RunOptions())
    assert found is not None and (found.batches, found.sizes, found.in_use_bytes) == (5, 5, 500 * MIB)
    assert (found.reserved_bytes, found.largest_bytes, found.emptied_bytes) == (2048 * MIB, 1024 * MIB, 1024 * MIB)
    assert found.padded_bytes is None and found.complete  # five sizes are few
    placed = growth_of_program(_order([100, 200, 300, 400, 500]), "2.15.0", RunOptions())
    assert placed is not None and placed.reserved_bytes == 1024 * MIB
    assert growth_of_program(_order([100] * 5), "2.13.0", RunOptions()) is None
    own = growth_of_program(_order([100, 200, 300, 400, 500], emptied=True), "2.13.0", RunOptions())
    assert own is not None and own.reserved_bytes == own.emptied_bytes


def test_padding_a_program_to_eight_of_its_sizes() -> None:
    found = growth_of_program(_order([*range(50, 500, 45)] * 2), "2.13.0", RunOptions(memory=16 * 2**30))
    assert found is not None and found.sizes == 10 and found.padded_bytes is not None
    assert found.largest_bytes < found.padded_bytes < found.reserved_bytes == 3 * 1024 * MIB
    assert found.low_watermark == 0.1 and found.machine == "a Mac with 16 GB"
    assert found.low_watermark_bytes is not None and found.low_watermark_bytes < found.reserved_bytes


def test_a_step_that_frees_what_an_earlier_one_made_is_padded_with_it() -> None:
    """As a loop that keeps the loss, or the output, until the next step has its own."""
    order, kept = [], []
    for number, size in enumerate(range(50, 500, 45)):
        order += [size * MIB, *kept, UPDATED]
        kept = [-1 - number]
    found = growth_of_program(order, "2.13.0", RunOptions())
    assert found is not None and (found.sizes, found.in_use_bytes) == (9, (455 + 410) * MIB)
    assert found.padded_bytes is not None and found.padded_bytes != found.reserved_bytes
