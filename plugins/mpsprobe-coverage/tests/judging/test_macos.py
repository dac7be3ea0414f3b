"""What holds from some macOS on only."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from packaging.version import Version

from mpsprobe.errors import UsageError
from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.judging.chain import Chain
from mpsprobe_coverage.kernels.mps import load_table
from mpsprobe_coverage.scanner.findings import findings
from mpsprobe_coverage.scanner.macos import check_macos, conditions


def _run(release: str, model: Any, *inputs: torch.Tensor, macos: str | None = None) -> VirtualDevice:
    device = VirtualDevice(Chain(load_table(release), macos=None if macos is None else Version(macos)))
    with device:
        if isinstance(model, torch.nn.Module):
            device.move(model)
        moved = device.move(inputs)
        with torch.no_grad(), device.recording("forward"):
            model(*moved)
    return device


_CASES = [
    ("2.6.0", torch.nn.Linear(4, 4, dtype=torch.bfloat16), torch.ones(2, 4, dtype=torch.bfloat16), "14.0", "bfloat16"),
    ("2.6.0", torch.neg, torch.ones(2, dtype=torch.complex64), "14.0", "complex numbers"),
    ("2.6.0", torch.fft.rfft, torch.ones(8), "14.0", "complex numbers"),
    ("2.6.0", torch.nn.Conv3d(1, 1, 2), torch.ones(1, 1, 4, 4, 4), "13.2", "convolutions in three dimensions"),
    ("2.6.0", torch.nn.Conv1d(1, 65537, 1), torch.ones(1, 1, 2), "15.1", "convolutions with over 65536 channels"),
    ("2.13.0", torch.nn.Conv1d(1, 65537, 1), torch.ones(1, 1, 2), "15.1", "convolutions with over 65536 channels"),
    ("2.8.0", lambda x: torch.isin(x, x), torch.ones(2, dtype=torch.int32), "14.0", "isin of integers"),
    ("2.0.1", torch.nn.LSTM(4, 4, num_layers=3), torch.ones(2, 1, 4), "13.0", "an LSTM of several layers"),
]


@pytest.mark.parametrize(("release", "model", "tensor", "macos", "what"), _CASES)
def test_conditions_name_the_macos(release: str, model: Any, tensor: torch.Tensor, macos: str, what: str) -> None:
    found = conditions(_run(release, model, tensor).recorder, load_table(release))
    assert [(one.macos, one.what) for one in found] == [(macos, what)]


@pytest.mark.parametrize(
    ("release", "model", "tensor"),
    [
        ("2.6.0", torch.nn.Linear(4, 4), torch.ones(2, 4)),
        ("2.9.0", torch.nn.Linear(4, 4, dtype=torch.bfloat16), torch.ones(2, 4, dtype=torch.bfloat16)),
        ("2.6.0", torch.nn.Conv2d(1, 1, 2), torch.ones(1, 1, 4, 4)),
        ("2.0.1", torch.nn.LSTM(4, 4), torch.ones(2, 1, 4)),
    ],
)
def test_what_every_system_of_the_release_has_needs_no_condition(
    release: str, model: Any, tensor: torch.Tensor
) -> None:
    assert conditions(_run(release, model, tensor).recorder, load_table(release)) == []


@pytest.mark.parametrize(("macos", "verdict"), [("13.3", "unsupported"), ("14.0", "native"), ("15.1", "native")])
def test_an_older_macos_refuses(macos: str, verdict: str) -> None:
    tensor = torch.ones(2, 4, dtype=torch.bfloat16)
    device = _run("2.6.0", torch.nn.Linear(4, 4, dtype=torch.bfloat16), tensor, macos=macos)
    (linear,) = (one for one in findings(device.recorder, device.table) if one.operator == "aten::linear")
    assert linear.verdict == verdict
    assert linear.needs_macos == ("14.0" if verdict == "unsupported" else None)


def test_a_macos_that_the_release_does_not_run_on_is_an_error() -> None:
    with pytest.raises(UsageError, match=r"2\.15\.0 needs macOS 15\.0"):
        check_macos("14.5", load_table("2.15.0"))
    assert check_macos("15.0", load_table("2.15.0")) == Version("15.0")
