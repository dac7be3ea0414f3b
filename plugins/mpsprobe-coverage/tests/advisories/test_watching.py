"""Which plans watch, what a watched call costs, and which calls are never reported."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from made_workloads import calling, scan

from mpsprobe_coverage.device import VirtualDevice, watching
from mpsprobe_coverage.device.watching import Watching
from mpsprobe_coverage.kernels.mps import load_table

aten = torch.ops.aten


def test_only_operators_that_an_advisory_of_the_release_names_are_watched() -> None:
    newer, older = Watching(load_table("2.13.0")), Watching(load_table("2.2.0"))
    assert {one.id for one in newer.of("aten::adaptive_max_pool2d")} == {"adaptive-max-pool-uneven"}
    assert newer.of("aten::tanh") == older.of("aten::adaptive_max_pool2d") == ()
    assert {one.id for one in older.of("aten::mm")} == {"matmul-large-dimension"}


def test_equal_calls_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    real = watching.matches

    def counted(advisory: Any, call: Any, phase: str) -> bool:
        looked.append(advisory.id)
        return real(advisory, call, phase)

    monkeypatch.setattr(watching, "matches", counted)

    def run(x: torch.Tensor) -> Any:
        for _ in range(5):
            x = torch.nn.functional.softplus(x.t().contiguous().t())
        return x

    report = scan(calling(run), "2.13.0")
    [match] = report.advisories
    assert match.id == "softplus-strided" and match.calls == 5
    assert looked.count("softplus-strided") == 1


def test_what_raises_has_no_wrong_numbers() -> None:
    def doubles(x: torch.Tensor) -> Any:
        return torch.nn.functional.softplus(x.double().t())

    def attention(x: torch.Tensor) -> Any:  # no kernel of its own before 2.5: made of others
        q = x.new_zeros((1, 4, 17, 64), dtype=torch.float16)
        return torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)

    assert scan(calling(doubles), "2.13.0").advisories == []
    assert scan(calling(attention), "2.4.0").advisories == []


def test_nothing_is_told_outside_a_phase() -> None:
    with VirtualDevice(load_table("2.13.0")) as device:
        made = torch.zeros(3, 4, device="mps").t()
        torch.nn.functional.softplus(made)
        assert list(device.recorder.advisories()) == []
        with device.recording("forward"):
            torch.nn.functional.softplus(made)
        [found] = device.recorder.advisories()
    assert (found.advisory, found.operator, found.phase, found.calls) == (
        "softplus-strided",
        "aten::softplus",
        "forward",
        1,
    )
