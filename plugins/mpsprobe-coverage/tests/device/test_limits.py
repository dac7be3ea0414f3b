"""What the device cannot follow or no table covers gets a clear verdict, never a crash and never ``native``."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from expectations import TORCH_2_6, called
from torch.nn.attention.flex_attention import flex_attention

from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.kernels.mps import load_table


@pytest.fixture
def operator() -> Iterator[Callable[..., Any]]:
    """Makes an operator of a library that no table covers, as a user's extension registers it."""
    made: list[Any] = []

    def make(name: str, kernel: Callable[..., Any], types: str | None, sized_by_values: bool = False) -> Any:
        def fake(x: torch.Tensor) -> torch.Tensor:
            return x.new_empty(torch.library.get_ctx().new_dynamic_size()) if sized_by_values else torch.empty_like(x)

        schema, name = "(Tensor x) -> Tensor", f"mpsprobe_tests::{name}"
        one = torch.library.custom_op(name, kernel, mutates_args=(), device_types=types, schema=schema)
        one.register_fake(fake)
        made.append(one)
        return one

    yield make
    for one in made:
        one._lib._destroy()


def test_a_kernel_for_another_device_only_is_not_judged(device: VirtualDevice, operator: Any) -> None:
    scaled = operator("scaled_cuda", lambda x: x * 2, "cuda")
    with device.recording("forward"):
        result = scaled(torch.ones(3, device="mps"))
    assert tuple(result.shape) == (3,) and result.device.type == "mps"
    assert called(device.recorder, "forward") == {"unknown:mpsprobe_tests::scaled_cuda": 1}
    (note,) = device.recorder.not_judged()
    assert note.operator == "mpsprobe_tests::scaled_cuda" and "no kernel table covers" in note.text
    assert note.origin.file == __file__


def test_an_operator_whose_size_depends_on_values_runs_on_the_known_ones(device: VirtualDevice, operator: Any) -> None:
    """Another library's operator carries no tag that says so, and its meta kernel refuses (``torchvision::nms``)."""
    positive = operator("positive", lambda x: x[x > 0], "cpu", sized_by_values=True)
    with device.recording("forward"):
        found = [positive(torch.tensor([first, -1.0, 2.0], device="mps")).tolist() for first in (1.0, -1.0)]
    assert found == [[1.0, 2.0], [2.0]]
    assert called(device.recorder, "forward")["unknown:mpsprobe_tests::positive"] == 2


def test_a_large_call_of_another_library_is_tried_on_few_elements(device: VirtualDevice, operator: Any) -> None:
    """It may compare each with each: ``torchvision::nms`` of 90,000 boxes takes half a minute."""
    seen: list[int] = []

    def kernel(x: torch.Tensor) -> torch.Tensor:
        seen.append(x.shape[0])
        return x.clone()

    with device.recording("forward"):
        result = operator("kept", kernel, "cpu", sized_by_values=True)(torch.rand(90_000, 4, device="mps"))
    assert result.shape == (90_000, 4) and 0 < max(seen) < 100


def test_a_kernel_for_all_devices_is_judged_by_what_it_calls(device: VirtualDevice, operator: Any) -> None:
    # Without device types the Python function is a CompositeExplicitAutograd kernel, which serves MPS too.
    scaled = operator("scaled_everywhere", lambda x: x * 2, None)
    with device.recording("forward"):
        scaled(torch.ones(3, device="mps"))
    assert called(device.recorder, "forward") == {"native:aten::mul.Tensor": 1}


def test_cond_runs_the_branch_that_is_taken(device: VirtualDevice) -> None:
    x = torch.ones(3, device="mps")
    if TORCH_2_6:  # it asks no mode
        with pytest.raises(NotImplementedError, match="no rule registered"):
            torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))
        return
    with device.recording("forward"):
        result = torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))
    assert tuple(result.shape) == (3,)
    seen = called(device.recorder, "forward")
    assert seen["native:aten::sin"] == 1 and not seen["native:aten::cos"]
    assert not any("higher_order" in r.operator for r in device.recorder.calls())


def test_flex_attention_is_judged_by_its_pieces(device: VirtualDevice) -> None:
    q = torch.rand(1, 2, 16, 8, device="mps")
    if TORCH_2_6:  # on a Mac too
        with pytest.raises(ValueError, match="only supported on CUDA or CPU"):
            flex_attention(q, q, q)
        return
    with device.recording("forward"), torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is slow without torch.compile
        result = flex_attention(q, q, q)
    assert result.shape == q.shape
    assert any("flex_attention" in note.operator for note in device.recorder.not_judged())


def test_a_compiled_model_is_judged_by_its_operators(device: VirtualDevice) -> None:
    model, x = torch.compile(device.move(torch.nn.Linear(4, 2))), torch.rand(3, 4, device="mps")
    with device.recording("forward"):
        model(x)
    assert called(device.recorder, "forward") == {"native:aten::linear": 1}


def test_an_operator_that_the_release_does_not_know_is_not_native() -> None:
    with VirtualDevice(load_table("1.12.1")) as device, device.recording("forward"):
        torch.ones(2, device="mps").logcumsumexp(0)
        torch.special.bessel_j0(torch.ones(2, device="mps"))
    verdicts = {record.operator: record.judgement.verdict for record in device.recorder.calls()}
    assert "native" not in {v for name, v in verdicts.items() if "bessel" in name or "logcumsumexp" in name}
