"""C++ that asks whether a tensor is a subclass: what has no route needs none, and routes keep the gradients."""

from __future__ import annotations

import pytest
import torch

from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.device.routing.subclasses import IN_PLACE
from mpsprobe_coverage.kernels.compositions import load_compositions
from mpsprobe_coverage.kernels.mps import load_table
from mpsprobe_coverage.kernels.releases import torch_releases


def _verdicts(operator: str, release: str) -> set[str]:
    """Of the operator, or of what it is made of."""
    table = load_table(release)
    verdict = table.verdict(f"aten::{operator}")
    if verdict != "composite":
        return {verdict}
    parts = load_compositions(release).reached([operator], table)
    return {table.verdict(f"aten::{part}") for part in parts}


def test_no_release_treats_an_operator_otherwise_when_it_writes_in_place() -> None:
    differ = [
        (release, operator)
        for release in torch_releases()
        for operator, in_place in IN_PLACE.items()
        if _verdicts(operator, release) - {"composite"} != _verdicts(in_place, release) - {"composite"}
    ]
    assert not differ


@pytest.mark.parametrize("of", [torch.max, torch.median, torch.prod, lambda x: x.prod(1), lambda x: x.cumprod(0)])
def test_gradients_are_those_of_the_cpu(of: torch.nn.Module) -> None:
    values = torch.tensor([[1.0, 2.0], [4.0, 0.5]])
    expected = values.clone().requires_grad_()
    of(expected).sum().backward()
    device = VirtualDevice(load_table("2.13.0"), keep_weights=True)
    with device:
        moved = device.move(values).requires_grad_()
        of(moved).sum().backward()
        gradient = moved.grad.cpu()
    assert expected.grad is not None
    torch.testing.assert_close(gradient, expected.grad)


def test_a_product_of_another_dtype_keeps_its_gradient() -> None:
    device = VirtualDevice(load_table("2.13.0"))
    with device:
        tensor = device.move(torch.rand(3, 4)).requires_grad_()
        tensor.prod(1, keepdim=True, dtype=torch.float16).sum().backward()
        assert tensor.grad is not None
        assert (tensor.grad.shape, tensor.grad.dtype) == ((3, 4), torch.float32)
