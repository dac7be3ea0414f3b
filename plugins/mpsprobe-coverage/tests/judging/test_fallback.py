"""What PYTORCH_ENABLE_MPS_FALLBACK=1 helps with is ``missing``; what it cannot help with is ``unsupported``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.judging.fallback import LOST, MISSING, without_kernel
from mpsprobe_coverage.judging.registration import registered
from mpsprobe_coverage.kernels.mps import load_table


def _verdict(release: str, operator: str, run: Callable[[], Any]) -> tuple[str, str]:
    with VirtualDevice(load_table(release)) as device, device.recording("forward"):
        run()
    (record,) = [r for r in device.recorder.calls() if r.operator == operator]
    return record.judgement.verdict, record.judgement.reason or ""


_aten = torch.ops.aten
RAISES = MISSING.format(label="MPS", variable="PYTORCH_ENABLE_MPS_FALLBACK=1")
WRITES = LOST.format(label="MPS", variable="PYTORCH_ENABLE_MPS_FALLBACK=1")
CASES: list[tuple[str, str, Callable[[], Any], str, str]] = [
    ("1.13.1", "aten::unfold", lambda: torch.ones(6, device="mps").unfold(0, 2, 1), "unsupported", "view operator"),
    ("2.3.1", "aten::tril_indices", lambda: torch.tril_indices(3, 3, device="mps"), "unsupported", "in torch 2.3.1"),
    ("2.4.0", "aten::tril_indices", lambda: torch.tril_indices(3, 3, device="mps"), "missing", RAISES),
    ("2.13.0", "aten::poisson", lambda: torch.poisson(torch.ones(3, device="mps")), "missing", RAISES),
    (
        "2.13.0",
        "aten::poisson",
        lambda: torch.poisson(torch.ones(3, device="mps"), torch.Generator("mps")),
        "unsupported",
        "refuses a generator",
    ),
    (
        "2.14.0",
        "aten::poisson",
        lambda: torch.poisson(torch.ones(3, device="mps"), torch.Generator("mps")),
        "native",
        "",
    ),
    (
        "2.0.1",
        "aten::_foreach_add_.List",
        lambda: torch._foreach_add_([torch.ones(3, device="mps")], [torch.ones(3, device="mps")]),
        "missing",
        WRITES,
    ),
    ("2.13.0", "aten::geqrf", lambda: torch.geqrf(torch.eye(2, device="mps")), "missing", RAISES),
]


@pytest.mark.parametrize(("release", "operator", "run", "verdict", "reason"), CASES)
def test_what_can_and_cannot_fall_back(
    release: str, operator: str, run: Callable[[], Any], verdict: str, reason: str
) -> None:
    found, why = _verdict(release, operator, run)
    assert (found, reason in why) == (verdict, True)


def test_without_a_cpu_kernel_nothing_helps() -> None:
    table = load_table("2.13.0")
    for func in (_aten._fused_dropout.default, _aten._cudnn_rnn.default, _aten._flash_attention_forward.default):
        judgement = registered(func, func._schema.name, table)
        assert judgement.verdict == "unsupported" and "no CPU kernel" in (judgement.reason or "")


@pytest.mark.parametrize(
    ("release", "key", "operator", "verdict"),
    [
        ("2.6.0", "SparseMPS", "mm", "unsupported"),
        ("2.13.0", "SparseMPS", "mm", "native"),
        ("2.13.0", "SparseCsrMPS", "sparse_sampled_addmm", "unsupported"),
    ],
)
def test_sparse_tensors_do_not_fall_back(release: str, key: str, operator: str, verdict: str) -> None:
    judgement = registered(getattr(_aten, operator).default, f"aten::{operator}", load_table(release), key)
    assert judgement.verdict == verdict
    if verdict == "unsupported":
        assert "sparse tensors" in (judgement.reason or "")


def test_a_collective_cannot_fall_back() -> None:
    for func in (torch.ops.c10d.allreduce_.default, torch.ops.c10d.barrier.default):
        assert without_kernel(func, func.name(), load_table("2.13.0"), "MPS")[0] == "unsupported"
