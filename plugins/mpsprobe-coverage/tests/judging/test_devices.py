"""What is refused before a kernel is asked: dtypes that no tensor has, routes of C++, arguments on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from judged_calls import Program, judgements, made, not_native, wrong
from torch.nn import functional

from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.kernels.mps import load_table
from mpsprobe_coverage.scanner.findings import findings

ON_CPU = torch.tensor([1, 0, 2])
MAKES: list[Callable[[torch.dtype], Any]] = [
    lambda dtype: torch.ones(2, device="mps", dtype=dtype),
    lambda dtype: torch.ones(2, device="mps").to(dtype),
    lambda dtype: torch.ones(2, dtype=dtype).to("mps"),
    lambda dtype: torch.tensor([1.0], dtype=dtype, device="mps"),
    lambda dtype: torch.ones(2, device="mps").type(dtype),
]


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_64_bit_floating_point_is_unsupported_where_it_is_made(dtype: torch.dtype) -> None:
    for make in MAKES:
        with VirtualDevice(load_table("2.13.0")) as device, device.recording("forward"):
            make(dtype)
        refused = [record for record in device.recorder.calls() if record.judgement.verdict == "unsupported"]
        assert refused and all("64-bit floating point" in str(record.judgement.reason) for record in refused)
        assert {record.judgement.source for record in refused} == {"dtype"}
        assert {record.origin.line for record in refused} == {make.__code__.co_firstlineno}
    on_the_cpu = torch.ones(2, dtype=dtype) * 2  # is nobody's business
    assert not not_native([("2.13.0", lambda: on_the_cpu.real.float().to("mps"), "")])


@pytest.mark.parametrize(
    ("call", "refused"),
    [
        (lambda x: x + torch.ones(3), "other"),
        (lambda x: torch.ones(3) - x, "self"),
        (lambda x: torch.ones(2, 3) @ x.view(3, 1), "self"),
        (lambda x: torch.cat([x, torch.ones(3)]), "tensors"),
        (lambda x: x.index_select(0, ON_CPU), "index"),
        (lambda x: x.gather(0, ON_CPU), "index"),
        (lambda x: torch.where(torch.ones(3) > 0, x, 0.0), "condition"),
        (lambda x: torch.nn.functional.embedding(ON_CPU, x.view(3, 1)), "index"),
        (lambda x: torch.arange(3.0)[x.long()], "self"),
        (lambda x: x.index_put_((ON_CPU,), torch.ones(3)), "values"),
        (lambda x: torch.nn.functional.layer_norm(x, (3,), torch.ones(3)), "weight"),
        # A number on the CPU, indices and masks on the CPU, and copies are taken as they are.
        (lambda x: x + torch.tensor(1.0), None),
        (lambda x: torch.where(x > 0, x, torch.tensor(0.0)), None),
        (lambda x: x[ON_CPU], None),
        (lambda x: x.index_put_((ON_CPU,), torch.tensor(1.0)), None),
        (lambda x: x.masked_select(ON_CPU > 0), None),
        (lambda x: x.copy_(torch.ones(3)), None),
        (lambda x: torch.ones(3).copy_(x), None),
        (lambda x: torch.ones(3) + torch.ones(3), None),
    ],
)
def test_an_argument_on_the_cpu(call: Callable[[Any], Any], refused: str | None) -> None:
    found = judgements("2.13.0", lambda: call(torch.ones(3, device="mps")))
    reasons = [one.reason for one in found if one.source == "device"]
    assert reasons == ([] if refused is None else [f"'{refused}' is on the CPU, and other tensors are on MPS"])


def test_a_fallback_takes_tensors_from_wherever_they_are() -> None:
    """``cpu_fallback`` copies what is not on the CPU; without it, it is the missing kernel that raises."""
    [take] = judgements("2.13.0", lambda: torch.take(torch.ones(3, device="mps"), torch.tensor([0, 2])), "take")
    assert take.verdict == "missing"


class _KeepsTensors(torch.nn.Module):
    """Buffers move with a module; other tensors do not, unless they were made on the device."""

    def __init__(self, where: str | None) -> None:
        super().__init__()
        self.register_buffer("shift", torch.ones(3))
        self.scale = torch.randn(3, device=where) * 2

    def forward(self, tensor: Any) -> Any:
        return tensor * self.scale + self.shift


@pytest.mark.parametrize("where", [None, "cpu", "mps"])
def test_a_tensor_that_a_module_keeps_stays_where_it_was_made(where: str | None) -> None:
    device = VirtualDevice(load_table("2.13.0"))
    with device.construction():
        model = _KeepsTensors(where)
    with device:
        device.move(model)
        x = device.move(torch.ones(3))
        with torch.no_grad(), device.recording("forward"):
            model(x)
    found = {finding.operator: finding for finding in findings(device.recorder, device.table)}
    assert found["aten::add.Tensor"].verdict == "native"
    product = found["aten::mul.Tensor"]
    if where == "mps":
        assert product.verdict == "native"
        return
    line = _KeepsTensors.__init__.__code__.co_firstlineno + 3
    assert product.verdict == "unsupported" and product.reason is not None
    assert product.reason.endswith(f"test_devices.py:{line}")
    assert product.advice is not None and product.advice.startswith('Make it with device="mps"')


def test_each_tensor_is_named_by_the_line_that_made_it(device: VirtualDevice) -> None:
    x = torch.ones(3, device="mps")
    with device.recording("forward"):
        for other in (torch.ones(3), torch.zeros(3)):
            x + other
        first, second = torch.ones(3), torch.ones(3)  # one line
        x + first, x + second
        third = torch.ones(3)
        x + third
    lines = {finding.reason for finding in findings(device.recorder, device.table) if finding.source == "device"}
    assert len(lines) == 3


def test_a_generator_of_the_cpu_is_refused_by_kernels_of_the_device() -> None:
    def draw() -> None:
        for generator in (torch.Generator(), torch.Generator("mps"), None):
            torch.ones(3, device="mps").normal_(generator=generator)
        torch.randn(3, generator=torch.Generator()).to("mps")  # drawn on the CPU

    refused = [one.reason for one in judgements("2.13.0", draw) if one.source == "device"]
    assert refused == ["the random generator is on the CPU, and what it draws on MPS"]


def _refusals(device: VirtualDevice) -> list[str | None]:
    judged = [record.judgement for record in device.recorder.calls()]
    return [one.reason for one in judged if one.asked[-1] == "route"]


def test_indices_of_tensor_split_must_be_on_the_cpu(device: VirtualDevice) -> None:
    """The check in ``TensorShape.cpp`` raises for indices on MPS; sections and CPU indices are taken."""
    tensor, places = torch.arange(6.0, device="mps"), torch.tensor([1, 4])
    with device.recording("forward"):
        parts = [*tensor.tensor_split(places), *tensor.tensor_split(2), *torch.tensor_split(tensor, [2])]
    assert [tuple(part.shape) for part in parts] == [(1,), (3,), (2,), (3,), (3,), (2,), (4,)]
    assert not _refusals(device)
    with device.recording("forward"):
        parts = list(torch.tensor_split(tensor, places.to("mps")))
    assert [tuple(part.shape) for part in parts] == [(1,), (3,), (2,)]
    assert _refusals(device) == ["tensor_split expected tensor_indices_or_sections to be on cpu, but it's on mps:0"]


def test_unknown_indices_of_tensor_split_are_assumed(device: VirtualDevice) -> None:
    with device.recording("forward"):
        places = (torch.rand(100000, device="mps")[:2] * 3).long()
        parts = torch.rand(4, device="mps").tensor_split(places)
    assert len(parts) == 3 and len(_refusals(device)) == 1
    assert any(note.operator.startswith("aten::tensor_split") for note in device.recorder.assumptions())


def _convolve(
    function: Callable[..., torch.Tensor], shape: tuple[int, ...], weight: tuple[int, ...], **rest: Any
) -> Program:
    return lambda: function(made(*shape, dtype=torch.float16), made(*weight, dtype=torch.float16), **rest)


ALL, LONG, WIDE, LARGE = "2.3.1 2.13.0 2.15.0", 2**31, (1, 1, 2**15, 2**15), (1, 2, 2**15, 2**15 - 1)
CONV1D, CONV2D, CONV3D = functional.conv1d, functional.conv2d, functional.conv3d
BACK2D, BACK3D, FOLDED = functional.conv_transpose2d, functional.conv_transpose3d, (1, 1, 2**14, 2**14)
VOLUME = _convolve(CONV3D, (1, 256, 5, 1088, 1920), (128, 256, 1, 1, 1))
FIT = [
    _convolve(CONV1D, (1, 1, LONG - 1), (1, 1, 1)),
    _convolve(CONV1D, (3, 1, LONG - 1), (1, 1, 1)),  # each entry of the batch by itself
    _convolve(CONV2D, WIDE, (2, 1, 2, 2)),
    _convolve(CONV2D, LARGE, (2, 1, 1, 1), groups=2),
    _convolve(CONV2D, LARGE, (2, 1, 1, 3), groups=2, dilation=3),
    _convolve(BACK2D, FOLDED, (1, 2, 1, 1), stride=2),
]
DO_NOT_FIT = [
    _convolve(CONV1D, (1, 1, LONG), (1, 1, 1), stride=2),
    _convolve(CONV2D, WIDE, (2, 1, 1, 1)),  # the result
    _convolve(CONV2D, LARGE, (2, 1, 1, 3), groups=2, padding=(0, 2)),
    _convolve(BACK2D, FOLDED, (1, 2, 2, 2), stride=2),
    _convolve(BACK3D, (*FOLDED, 2), (1, 2, 2, 2, 1), stride=(2, 2, 1)),
]


def test_convolutions_that_mps_is_not_chosen_for() -> None:
    """``ConvParams::use_mps`` says no to them; from 2.14.0 on it takes volumes that are not transposed."""
    assert not wrong("route", [(ALL, one, "convolution_overrideable", "2**31", None) for one in DO_NOT_FIT])
    plain = _convolve(CONV3D, (1, 1, 2, 2, 2), (1, 1, 2, 2, 2))
    assert not wrong("route", [("2.2.2", plain, "", "Conv3D is not supported on MPS", "2.3.0")])
    assert not wrong("route", [("2.3.1 2.13.0", VOLUME, "", "2**31", "2.14.0")])
    assert not not_native([*((ALL, one, "") for one in FIT), ("2.15.0", VOLUME, "")])


def test_the_gradient_of_a_convolution_that_needs_64_bits() -> None:
    with VirtualDevice(load_table("2.13.0")) as device:
        images = torch.empty(1, 1, 2**15, 2**15, device="mps", dtype=torch.float16)
        weight = torch.empty(2, 1, 1, 1, device="mps", dtype=torch.float16, requires_grad=True)
        with device.recording("backward"):
            functional.conv2d(images, weight).sum().backward()
    assert weight.grad is not None and weight.grad.shape == weight.shape
    found = {record.operator: record.judgement.reason for record in device.recorder.calls()}
    assert "2**31" in str(found["aten::convolution_backward_overrideable"])
