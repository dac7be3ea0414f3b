"""Programs that train in ways of their own: each returns the tensors on which a gradient may be, for a device type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.utils.checkpoint import checkpoint

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


def checkpointed(device: str) -> Sequence[torch.Tensor]:
    layer, x = torch.nn.Linear(4, 4, device=device), _leaf(device, 2, 4)
    for reentrant in (True, False):
        checkpoint(layer, x, use_reentrant=reentrant).sum().backward()
    return _of(layer, x)


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
    forward_mode, a_gradient_step_inside, checkpointed, saved_elsewhere, hooked, parametrized,
]  # fmt: skip
