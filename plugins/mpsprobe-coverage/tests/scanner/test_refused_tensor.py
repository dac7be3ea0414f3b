"""Where the first tensor is made that MPS cannot hold."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.kernels.mps import load_table
from mpsprobe_coverage.scanner.findings import findings, first_refused_tensor


class _Doubles(torch.nn.Module):
    def __init__(self, made: bool) -> None:
        super().__init__()
        self.made = made
        if not made:
            self.register_buffer("scale", torch.ones(3, dtype=torch.float64))

    def forward(self, tensor: Any) -> Any:
        doubled = tensor.double() if self.made else tensor * self.scale.float()
        return doubled + doubled


def _run(model: torch.nn.Module, *inputs: torch.Tensor) -> VirtualDevice:
    device = VirtualDevice(load_table("2.13.0"))
    with device:
        device.move(model)
        moved = device.move(inputs)
        with torch.no_grad(), device.recording("forward"):
            model(*moved)
    return device


def test_the_line_that_makes_the_first_wide_tensor_is_named() -> None:
    device = _run(torch.nn.Sequential(_Doubles(made=True)), torch.ones(3))
    first = first_refused_tensor(device.recorder)
    assert first is not None and (first.dtype, first.phase, first.module) == ("float64", "forward", "0")
    assert first.call_site is not None and "test_refused_tensor.py:" in first.call_site
    line = int(first.call_site.rsplit(":", 1)[1])
    assert line == _Doubles.forward.__code__.co_firstlineno + 1


def test_a_wide_buffer_is_refused_where_it_is_moved() -> None:
    device = _run(torch.nn.Sequential(_Doubles(made=False)), torch.ones(3))
    first = first_refused_tensor(device.recorder)
    assert first is not None and (first.phase, first.module, first.call_site) == ("move", "0", None)
    moved = [one for one in findings(device.recorder, load_table("2.13.0")) if "move" in one.phases]
    assert [(one.operator, one.verdict, one.source) for one in moved] == [("aten::copy_", "unsupported", "dtype")]


def test_a_wide_input_is_refused_where_it_is_moved() -> None:
    device = _run(torch.nn.Identity(), torch.ones(3, dtype=torch.float64))
    first = first_refused_tensor(device.recorder)
    assert first is not None and (first.dtype, first.phase, first.module) == ("float64", "move", None)


def test_float32_alone_names_nothing() -> None:
    device = _run(torch.nn.Linear(3, 3), torch.ones(3))
    assert first_refused_tensor(device.recorder) is None
    assert {one.source for one in findings(device.recorder, load_table("2.13.0"))} == {"registration"}


def test_a_sparse_buffer_is_refused_where_it_is_moved() -> None:
    """As the alignment heads of openai-whisper are, also where nothing uses them; SparseMPS came with 2.1."""
    for release, verdict in (("2.0.1", "unsupported"), ("2.13.0", "")):
        model = torch.nn.Linear(3, 3)
        model.register_buffer("heads", torch.eye(3).to_sparse())
        device = VirtualDevice(load_table(release))
        with device:
            device.move(model)
        moved = [(record.phase, record.judgement.verdict) for record in device.recorder.calls()]
        assert moved == ([("move", verdict)] if verdict else []), release


@pytest.mark.filterwarnings("ignore:.*quantized tensor creation:UserWarning")
def test_quantized_tensors_are_refused_where_they_are_moved() -> None:
    """No release has a kernel under QuantizedMPS; what is done with such a tensor after that is only a consequence."""
    model = torch.nn.Linear(3, 3)
    model.register_buffer("weights", torch.quantize_per_tensor(torch.ones(3, 3), 0.1, 0, torch.qint8))
    device = _run(model, torch.ones(1, 3))
    first = first_refused_tensor(device.recorder)
    assert first is not None and (first.dtype, first.phase) == ("qint8", "move")
    reasons = {
        finding.reason for finding in findings(device.recorder, device.table) if finding.verdict == "unsupported"
    }
    assert reasons == {"a qint8 tensor: MPS has no quantized tensors"}
