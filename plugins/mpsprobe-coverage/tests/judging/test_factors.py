"""Complex factors of products whose kernels take real ones."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.judging.chain import Chain
from mpsprobe_coverage.judging.judgement import Judgement
from mpsprobe_coverage.kernels.mps import load_table

_MATRIX, _VECTOR = torch.ones(3, 3, dtype=torch.complex64), torch.ones(3, dtype=torch.complex64)


def _judgements(operator: str, release: str, function: Any, *tensors: torch.Tensor) -> list[Judgement]:
    with VirtualDevice(Chain(load_table(release), lists="none")) as device:
        moved = device.move(tensors)
        with device.recording("forward"):
            function(*moved)
    return [record.judgement for record in device.recorder.calls() if record.operator.partition(".")[0] == operator]


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
    matrices = (_MATRIX, _MATRIX, _MATRIX)
    [judgement] = _judgements("aten::addmm", release, lambda a, b, c: torch.addmm(a, b, c, **factors), *matrices)
    assert judgement.verdict == verdict
    if verdict == "unsupported":
        assert (judgement.source, judgement.accepted_since) == ("message", "2.15.0")


@pytest.mark.parametrize("release", ["2.4.1", "2.15.0"])
def test_addr_takes_real_factors_in_every_release(release: str) -> None:
    for beta, verdict in ((1j, "unsupported"), (2, "native")):
        product = _judgements(
            "aten::addr", release, lambda a, b, beta=beta: torch.addr(a, b, b, beta=beta), _MATRIX, _VECTOR
        )
        assert [judgement.verdict for judgement in product] == [verdict]
