"""Whatever gets a gradient on the CPU gets one on the virtual device: programs, and PyTorch's database of operators."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch.autograd import forward_ad
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves, tree_map

from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.kernels.mps import load_table

Found = list[tuple[int, ...] | None]
Program = Callable[[str], Sequence[torch.Tensor]]


def _leaf(device: str, *shape: int) -> torch.Tensor:
    return torch.rand(shape or (3,), device=device, requires_grad=True)


def _of(module: torch.nn.Module, *others: torch.Tensor) -> list[torch.Tensor]:
    return [*module.parameters(), *others]


def moved_from_the_cpu(device: str) -> Sequence[torch.Tensor]:
    leaf, inner, cast, copied = (_leaf("cpu") for _ in range(4))
    into = torch.zeros(3, device=device).copy_(copied * 2)
    (leaf.to(device) + (inner * 3).to(device) + torch.as_tensor(cast, device=device).half() + into).sum().backward()
    return [leaf, inner, cast, copied]


def layers_on_two_devices(device: str) -> Sequence[torch.Tensor]:
    first, second = torch.nn.Embedding(5, 4), torch.nn.Linear(4, 4, device=device)
    out = torch.nn.Linear(4, 1)
    out(second(first(torch.tensor([1, 2])).to(device)).cpu()).sum().backward()
    return [*_of(first), *_of(second), *_of(out)]


def written_in_place(device: str) -> Sequence[torch.Tensor]:
    x, value = _leaf(device, 4, 4), _leaf(device, 1)
    y = x * 1
    y[0].mul_(2)
    y[:, 1].zero_()
    y.t_()
    y[1:3, 0] = x[0, :2]
    y.diagonal().mul_(2)
    y[y > 0.5] = value
    y[3].copy_(torch.zeros(4, device=device))
    y.squeeze_().sum().backward()
    return [x, value]


def mapped_over_a_product(device: str) -> Sequence[torch.Tensor]:
    weight, x = _leaf(device, 4, 4), _leaf(device, 5, 4)
    torch.func.vmap(lambda row: (row @ weight).sum())(x).sum().backward()
    return [weight, x]


def gradients_of_a_function(device: str) -> Sequence[torch.Tensor]:
    weight, x = _leaf(device, 4, 4), _leaf(device, 5, 4)
    each = torch.func.vmap(torch.func.grad(lambda row: (row @ weight).pow(2).sum()))(x)
    (each.sum() + torch.func.hessian(lambda v: (v**3).sum())(x[0]).sum()).backward()
    return [weight, x]


def forward_mode(device: str) -> Sequence[torch.Tensor]:
    x = _leaf(device)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, torch.ones(3, device=device))
        tangent: Any = forward_ad.unpack_dual(torch.sin(dual)).tangent
        tangent.sum().backward()
    return [x]


def a_gradient_step_inside(device: str) -> Sequence[torch.Tensor]:
    weight, x = _leaf(device, 4, 4), torch.rand(5, 4, device=device)
    (gradient,) = torch.autograd.grad((x @ weight).pow(2).sum(), weight, create_graph=True)
    (x @ (weight - 0.1 * gradient)).pow(2).sum().backward()
    return [weight]


def saved_elsewhere(device: str) -> Sequence[torch.Tensor]:
    layer, x = torch.nn.Linear(4, 4, device=device), _leaf(device, 2, 4)
    with torch.autograd.graph.save_on_cpu():
        y = torch.relu(layer(x))
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.half(), lambda t: t.float()):
        torch.tanh(y).sum().backward()
    return _of(layer, x)


def hooked(device: str) -> Sequence[torch.Tensor]:
    layer, x = torch.nn.Linear(4, 4, device=device), _leaf(device, 2, 4)
    layer.register_full_backward_hook(lambda module, given, made: (given[0] * 2,))
    layer.weight.register_post_accumulate_grad_hook(lambda parameter: None)
    layer(x).sum().backward()
    return _of(layer, x)


def parametrized(device: str) -> Sequence[torch.Tensor]:
    spectral = torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(4, 4, device=device))
    normed = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(4, 4, device=device))
    normed(spectral(torch.rand(1, 4, device=device))).sum().backward()
    return [*_of(spectral), *_of(normed)]


PROGRAMS: list[Program] = [
    moved_from_the_cpu, layers_on_two_devices, written_in_place, mapped_over_a_product, gradients_of_a_function,
    forward_mode, a_gradient_step_inside, saved_elsewhere, hooked, parametrized,
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # torch itself, for forward-mode autograd
@pytest.mark.parametrize("program", PROGRAMS)
def test_programs(program: Program, device: VirtualDevice) -> None:
    on_device, on_cpu = (_gradients(program(name)) for name in ("mps", "cpu"))
    assert on_device == on_cpu
    assert any(shape is not None for shape in on_cpu)


def test_a_gradient_that_goes_to_the_cpu_is_no_value_that_the_program_reads(device: VirtualDevice) -> None:
    x, weight = torch.rand(3, requires_grad=True), device.move(torch.nn.Parameter(torch.rand(3)))
    with device.recording("forward"):
        loss = (x.to("mps") * weight).sum()
    with device.recording("backward"):
        loss.backward()
    assert x.grad is not None and not list(device.recorder.assumptions())
    (copy,) = (r for r in device.recorder.calls() if (r.phase, r.operator) == ("backward", "aten::copy_"))
    assert copy.judgement.verdict == "native" and copy.calls == 1


@pytest.mark.thorough
def test_operators_of_the_database() -> None:
    """Some of them each time: all were compared, two samples each, for six releases, and take a minute."""
    different = []
    with VirtualDevice(load_table("2.13.0")) as device, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for op in random.sample(op_db, 60):
            if op.supports_autograd and torch.float32 in op.supported_dtypes("cpu"):
                sample = next(iter(op.sample_inputs("cpu", torch.float32, requires_grad=True)))
                given = sample.input, tuple(sample.args), dict(sample.kwargs)
                moved = tree_map(lambda leaf: _on(device, leaf) if isinstance(leaf, torch.Tensor) else leaf, given)
                expected, found = _trained(op, *given), _trained(op, *moved)
                if found != expected:
                    different.append((op.name, op.variant_test_name, expected, found))
    assert different == []


def _on(device: VirtualDevice, leaf: torch.Tensor) -> torch.Tensor:
    moved: torch.Tensor = device.move(leaf.detach().clone())
    return moved.requires_grad_(leaf.requires_grad)


def _trained(op: Any, *given: Any) -> Found:
    """The shapes of the gradients that tensors among ``given`` get from the sum of what ``op`` returns."""
    results = [leaf for leaf in tree_leaves(op(given[0], *given[1], **given[2])) if isinstance(leaf, torch.Tensor)]
    parts = [part.to_dense() if part.layout is not torch.strided else part for part in results if part.requires_grad]
    if parts:
        sum((part.abs() if part.is_complex() else part).sum() for part in parts).backward()  # type: ignore[union-attr]
    return _gradients(leaf for leaf in tree_leaves(given) if isinstance(leaf, torch.Tensor) and leaf.is_leaf)


def _gradients(tensors: Any) -> Found:
    return [None if tensor.grad is None else tuple(tensor.grad.shape) for tensor in tensors]
