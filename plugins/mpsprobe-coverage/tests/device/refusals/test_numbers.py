"""Complex factors of products whose kernels take real ones."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.device.refusal import Refusal
from mpsprobe_coverage.kernels.store import load_table

_MATRIX, _VECTOR = torch.ones(3, 3, dtype=torch.complex64), torch.ones(3, dtype=torch.complex64)


def _verdicts(release: str, function: Any, *tensors: torch.Tensor) -> list[tuple[str, str, str | None]]:
    device = VirtualDevice(load_table(release), lists="none")
    with device:
        moved = device.move(tensors)
        with device.recording("forward"):
            function(*moved)
    return [(one.operator.partition(".")[0], one.verdict, one.reason) for one in device.recorder.calls()]


@pytest.mark.parametrize(
    ("release", "factors", "verdict"),
    [
        ("2.13.0", {"alpha": 2 + 3j}, "unsupported"),
        ("2.13.0", {"beta": 1j, "alpha": 2}, "unsupported"),
        ("2.13.0", {"alpha": complex(2, 0)}, "native"),
        ("2.13.0", {}, "native"),
        ("2.14.1", {"alpha": 2 + 3j}, "unsupported"),
        ("2.15.0", {"alpha": 2 + 3j}, "native"),
    ],
)
def test_addmm(release: str, factors: dict[str, complex], verdict: str) -> None:
    found = _verdicts(release, lambda a, b, c: torch.addmm(a, b, c, **factors), _MATRIX, _MATRIX, _MATRIX)
    [(operator, said, reason)] = [one for one in found if one[0] == "aten::addmm"]
    assert (operator, said) == ("aten::addmm", verdict)
    if verdict == "unsupported":
        assert isinstance(reason, Refusal) and (reason.source, reason.accepted_since) == ("message", "2.15.0")


@pytest.mark.parametrize("release", ["2.4.1", "2.15.0"])
def test_addr_takes_real_factors_in_every_release(release: str) -> None:
    refused = _verdicts(release, lambda a, b: torch.addr(a, b, b, beta=1j), _MATRIX, _VECTOR)
    taken = _verdicts(release, lambda a, b: torch.addr(a, b, b, beta=2), _MATRIX, _VECTOR)
    assert {one[1] for one in refused if one[0] == "aten::addr"} == {"unsupported"}
    assert {one[1] for one in taken if one[0] == "aten::addr"} == {"native"}
