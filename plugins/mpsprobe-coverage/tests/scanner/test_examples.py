"""The examples of a finding are calls that its operator really got, and that Python makes again."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mpsprobe.schemas import OperatorFinding
from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.device.recorder import EXAMPLES_KEPT
from mpsprobe_coverage.kernels.mps import load_table
from mpsprobe_coverage.scanner.findings import findings


def found(release: str, *sizes: int) -> dict[str, OperatorFinding]:
    table = load_table(release)
    with VirtualDevice(table) as device:
        device.recorder.phase = "forward"
        for size in sizes:
            square = torch.ones(size, size, device="mps")
            torch.linalg.qr(square.t(), mode="complete")
            torch.linalg.eigvals(square)
            torch.bincount(torch.ones(size, dtype=torch.int64, device="mps"), minlength=2)
            torch.cat([square, square.relu()], dim=1)
    return {one.operator: one for one in findings(device.recorder, table)}


def made_again(example: str) -> Any:
    def tensor(shape: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        return torch.empty_strided(shape, strides, dtype=dtype).zero_()

    return eval(example, {"torch": torch, "tensor": tensor, "device": "cpu"})


def test_each_distinct_call_that_is_not_native_is_kept_and_runs() -> None:
    by_name = found("2.6.0", 3, 4, 3)
    refused = {name: one for name, one in by_name.items() if one.verdict != "native"}
    assert {"aten::linalg_qr.out", "aten::_linalg_eigvals"} <= refused.keys()
    first, second = refused["aten::linalg_qr.out"].examples
    assert first.startswith("torch.ops.aten.linalg_qr.out(tensor((3, 3), (1, 3), torch.float32), 'complete', Q=tensor(")
    assert "(4, 4)" in second
    for one in refused.values():
        for example in one.examples:
            made_again(example)
    assert not any(one.examples for one in by_name.values() if one.verdict == "native")


def test_there_are_no_more_than_one_reads() -> None:
    assert len(found("2.6.0", *range(1, 12))["aten::linalg_qr.out"].examples) == EXAMPLES_KEPT
