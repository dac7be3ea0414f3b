"""Tensors that no graph takes, of kernels that always make one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.judging.chain import Chain
from mpsprobe_coverage.judging.judgement import Judgement
from mpsprobe_coverage.kernels.kernel_facts import EMPTY, GRAPH, facts_releases, load_facts
from mpsprobe_coverage.kernels.mps import load_table

INT_MAX = 2**31 - 1


def _judged(release: str, function: Callable[[], Any]) -> Judgement | None:
    """The judgement of ``graphs`` on a call of ``function``."""
    with VirtualDevice(Chain(load_table(release))) as device, device.recording("forward"):
        function()
    judgements = (record.judgement for record in device.recorder.calls())
    return next((one for one in judgements if one.asked[-1] == "graphs"), None)


def _empty(*shape: int, **more: Any) -> torch.Tensor:
    return torch.empty(*shape, device="mps", **more)


@pytest.mark.parametrize(
    ("release", "function", "takes"),
    [
        ("2.1.2", lambda: _empty(0).sort(), "2.2.0"),
        ("2.2.2", lambda: _empty(0, 3).relu(), "2.3.0"),
        ("2.4.1", lambda: functional.mse_loss(_empty(0), _empty(0)), "2.7.0"),
        ("2.4.1", lambda: functional.nll_loss(_empty(2, 3, 0, 7), _empty(2, 0, 7, dtype=torch.int64)), "2.6.0"),
    ],
    ids=["sort", "relu", "mse_loss", "nll_loss"],
)
def test_a_tensor_without_elements(release: str, function: Callable[[], Any], takes: str) -> None:
    judgement = _judged(release, function)
    assert judgement is not None
    assert (judgement.verdict, judgement.reason) == ("unsupported", "Placeholder tensor is empty!")
    assert judgement.accepted_since == takes
    assert _judged(takes, function) is None


def test_an_empty_view_may_lie_in_a_buffer_that_is_not() -> None:
    assert _judged("2.1.2", lambda: _empty(4)[:0].sort()) is None
    with torch.inference_mode():
        assert _judged("2.1.2", lambda: _empty(4)[:0].sort()) is None


def test_where_the_result_is_empty_the_kernel_returns_early() -> None:
    assert _judged("2.4.1", lambda: functional.gelu(_empty(0))) is None
    assert _judged("2.4.1", lambda: functional.gelu(_empty(4))) is None


@pytest.mark.parametrize(("release", "raises"), [("2.7.1", False), ("2.8.0", False), ("2.9.0", True), ("2.12.1", True)])
def test_a_dimension_that_does_not_fit_an_int(release: str, raises: bool) -> None:
    judgement = _judged(release, lambda: torch.randint(0, 9, (INT_MAX + 1,), dtype=torch.uint8, device="mps"))
    assert judgement is not None
    assert str(judgement.reason).startswith("MPSGraph does not" if raises else "ends the process")
    assert _judged(release, lambda: torch.randint(0, 9, (INT_MAX,), dtype=torch.uint8, device="mps")) is None


def test_a_kernel_that_makes_no_graph_takes_it() -> None:
    assert _judged("2.13.0", lambda: _empty(INT_MAX + 1, dtype=torch.float16).exp()) is None


def test_what_is_known_is_about_kernels_that_there_are() -> None:
    assert facts_releases()
    for release in facts_releases():
        graphs = load_facts(release).graphs
        assert graphs.keys() <= load_table(release).native, release
        assert {GRAPH, EMPTY} <= frozenset[str]().union(*graphs.values()), release
