"""Which calls compile MPSGraphs, how many a run compiles, and how many runs of many lengths do."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from made_workloads import Made, calling, scan

from mpsprobe.errors import UsageError, WorkloadError
from mpsprobe.plugins.registry import get_registry
from mpsprobe.protocols import RunOptions, TorchRun
from mpsprobe.schemas import GraphCount
from mpsprobe_coverage.knowledge.kernels.kernel_facts import GRAPH, MAY, facts_releases, load_facts
from mpsprobe_coverage.knowledge.kernels.mps import MPS_FAMILY
from mpsprobe_coverage.scanning.growth import growth
from mpsprobe_coverage.scanning.vary import Vary
from mpsprobe_devkit.testing import FakeProgress

ALWAYS, NEVER = "2.6.0", "2.13.0"  # what GELU does


class Tokens(Made):
    """GELU of as many rows as there are tokens, and of a part that has always the same size."""

    def __init__(self, most: int = 10**9) -> None:
        super().__init__(lambda: None)
        self._most = most

    def build(self, options: RunOptions) -> TorchRun:
        """A run of ``seq_len`` tokens."""
        rows = options.seq_len or 1
        if rows > self._most:
            raise WorkloadError(f"no more than {self._most} tokens")
        return TorchRun(Rows(), (torch.ones(rows, 4),))


class Rows(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(7))

    def forward(self, x: torch.Tensor) -> Any:
        gelu = torch.nn.functional.gelu
        return gelu(x), gelu(x + 1), gelu(self.scale), gelu(x[0])


def test_the_facts_of_every_release() -> None:
    known = [load_facts(release).graphs for release in facts_releases()]
    assert all(not {GRAPH, MAY} <= labels for graphs in known for labels in graphs.values())
    reach = {
        release: sum(bool(labels & {GRAPH, MAY}) for labels in graphs.values())
        for release, graphs in zip(facts_releases(), known, strict=True)
    }
    assert (reach["2.6.0"], reach["2.13.0"], reach["2.15.0"]) == (561, 250, 120)


@pytest.mark.parametrize(("release", "kind", "graphs"), [(ALWAYS, "always", 2), (NEVER, "never", 0)])
def test_of_one_operator(release: str, kind: str, graphs: int) -> None:
    def several(x: torch.Tensor) -> Any:
        gelu = torch.nn.functional.gelu
        return gelu(x), gelu(x), gelu(x.new_ones(5))

    report = scan(calling(several), release)
    [found] = [one for one in report.operators if one.operator == "aten::gelu"]
    assert (found.graph, found.graphs, found.calls) == (kind, graphs, 3)
    assert report.summary.graphs is not None and report.summary.graphs.least == graphs
    assert report.summary.graphs.most >= report.summary.graphs.least


def test_an_operator_without_a_kernel_compiles_none() -> None:
    report = scan(calling(lambda x: torch.linalg.eigvals(x @ x.mT)), ALWAYS)
    assert {one.graph for one in report.operators if one.verdict != "native"} == {None}


def _grown(release: str, vary: Vary, workload: Made | None = None, **options: Any) -> Any:
    table = MPS_FAMILY.load(release)
    return growth(workload or Tokens(), RunOptions(**options), table, vary, FakeProgress())


def test_many_lengths() -> None:
    found = _grown(ALWAYS, Vary("seq-len", 2, 401))
    assert found.tried == [2, 201, 401]
    assert (found.fixed.least, found.each.least) == (2, 1)  # of the parameter and of one row; of all rows
    assert found.total.least == 2 + 400
    assert found.padded_to == 64 and found.padded.least == 2 + 7  # 64, 128, … 448
    assert found.total.most >= found.total.least


def test_one_length_and_none_that_compile() -> None:
    assert _grown(ALWAYS, Vary("seq-len", 3, 3)).total.least == 3
    assert _grown(NEVER, Vary("seq-len", 2, 401)).total == GraphCount(least=0, most=0)


def test_what_cannot_be_counted() -> None:
    with pytest.raises(UsageError, match="does not go with --phase inference"):
        _grown(ALWAYS, Vary("new-tokens", 1, 8))
    with pytest.raises(WorkloadError, match="no more than 300"):
        _grown(ALWAYS, Vary("seq-len", 1, 400), Tokens(300))


def test_images_of_many_widths() -> None:
    class Pictures(Made):
        def build(self, options: RunOptions) -> TorchRun:
            return TorchRun(torch.nn.GELU(), (torch.ones(1, 3, 16, 32),))

    found = _grown(ALWAYS, Vary("size", 32, 63), Pictures(lambda: None))
    assert found.tried == [32, 47, 63] and found.total.least == 32
    with pytest.raises(UsageError, match="has no image to vary"):
        _grown(ALWAYS, Vary("size", 32, 63))


def _generated(vary: Vary, **options: Any) -> Any:
    table = MPS_FAMILY.load(ALWAYS)
    asked = RunOptions(size="small", phase="generate", **options)
    return growth(get_registry().workload("gpt2"), asked, table, vary, FakeProgress())


def test_a_generation_with_a_cache_of_one_size_compiles_nothing_for_a_further_token() -> None:
    found, static = (_generated(Vary("new-tokens", 1, 256), cache=one) for one in ("dynamic", "static"))
    assert found.each.least >= 1 and found.total.least >= 256
    assert static.each.least == 0 and static.total == found.static and static.static is None
    assert static.total.least * 5 < found.total.least and static.total.most * 2 < found.total.most


def test_steps_after_one_prompt_are_those_after_a_longer_one() -> None:
    few, many = (_generated(Vary("seq-len", 1, 101), new_tokens=tokens) for tokens in (4, 8))
    assert abs(many.total.least - few.total.least) < 2 * 101  # not four further steps for each of the lengths
