"""PyTorch's own autograd runs on virtual tensors: what is recorded, and gradients wherever the CPU gives one."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from expectations import called, in_backward
from torch.autograd import forward_ad
from torch.nn.functional import interpolate
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.checkpoint import checkpoint

from mpsprobe_coverage.devices.virtual import VirtualDevice
from mpsprobe_coverage.knowledge.kernels.compositions import load_compositions
from mpsprobe_coverage.knowledge.kernels.mps import load_table
from mpsprobe_coverage.knowledge.kernels.releases import torch_releases
from mpsprobe_coverage.recording.routing.device_type import IN_PLACE

SVD = "fallback:aten::linalg_svd"


def _mlp() -> torch.nn.Sequential:
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.LayerNorm(8), torch.nn.Linear(8, 2))


def test_gradients_are_seen_by_hooks_add_up_and_are_forgotten(device: VirtualDevice) -> None:
    seen: list[str] = []
    model = device.move(torch.nn.Linear(4, 2))
    model.weight.register_hook(lambda grad: seen.append(grad.device.type))
    model.register_full_backward_hook(lambda module, given, made: seen.append(made[0].device.type))
    for added in (0, 2):  # the second gradients of weight and bias are added to the first
        calls = in_backward(device, model(torch.rand(3, 4, device="mps", requires_grad=True)).sum())
        assert calls["native:aten::add.Tensor"] == added
    assert seen == ["mps"] * 4
    torch.optim.SGD(model.parameters()).zero_grad()
    assert model.weight.grad is None


# Without reentrance the second run stops as soon as everything saved is there again: before the last linear runs.
@pytest.mark.parametrize(("reentrant", "again"), [(False, 1), (True, 2)])
def test_checkpointed_parts_run_twice(device: VirtualDevice, reentrant: bool, again: int) -> None:
    model = device.move(_mlp())
    x = torch.rand(3, 4, device="mps", requires_grad=True)
    with device.recording("forward"):
        loss = checkpoint(model, x, use_reentrant=reentrant).sum()
    forward, backward = called(device.recorder, "forward"), in_backward(device, loss)
    assert forward["native:aten::linear"] == 2
    assert (backward["native:aten::linear"], backward["native:aten::linear_backward"]) == (again, 2)
    assert x.grad is not None and x.grad.shape == x.shape


def test_gradients_of_gradients_of_a_convolution(device: VirtualDevice) -> None:
    x = torch.rand(1, 2, 5, 5, device="mps", requires_grad=True)
    w = torch.rand(3, 2, 3, 3, device="mps", requires_grad=True)
    (gradient,) = torch.autograd.grad(torch.nn.functional.conv2d(x, w).sum(), x, create_graph=True)
    # _convolution_double_backward convolves again, on MPS with the operator of MPS.
    assert in_backward(device, gradient.pow(2).sum())["native:aten::_mps_convolution"] > 0
    assert w.grad is not None and w.grad.shape == w.shape


def test_no_grad_and_inference_mode(device: VirtualDevice) -> None:
    model, lstm = device.move(_mlp()), device.move(torch.nn.LSTM(4, 5))
    x, q = torch.rand(3, 4, device="mps"), torch.rand(1, 2, 3, 4, device="mps")
    for mode in (torch.no_grad(), torch.inference_mode()):
        with mode, device.recording(type(mode).__name__):
            output = model(x)
            torch.nn.functional.scaled_dot_product_attention(q, q, q)
            lstm(torch.rand(2, 3, 4, device="mps"))
            torch.linalg.svd(x)
        assert not output.requires_grad and output.grad_fn is None
    plain, inference = (called(device.recorder, phase) for phase in ("no_grad", "inference_mode"))
    assert plain == inference
    expected = {"linear": 2, "_scaled_dot_product_attention_math_for_mps": 1, "_lstm_mps": 1}
    assert {name: plain[f"native:aten::{name}"] for name in expected} == expected and plain[SVD] == 1


def test_what_is_an_inference_tensor_is_one_on_the_cpu_too(device: VirtualDevice) -> None:
    kinds = []
    for place in ("mps", "cpu"):
        x = torch.randn(2, 4, device=place)
        with torch.inference_mode():
            made = [x + 1, x[0], x.t(), x.view(8), x.detach(), (x + 1).t(), torch.randn(3, device=place)]
        kinds.append([one.is_inference() for one in (*made, x.t())])
    assert kinds[0] == kinds[1]


class _Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return grads[0] * 3 * x.square()


def test_functions_of_the_user(device: VirtualDevice) -> None:
    x = torch.tensor([1.0, 2.0], device="mps", requires_grad=True)
    with device.recording("forward"):
        y = _Cube.apply(x)
    assert called(device.recorder, "forward") == {"native:aten::mul.Tensor": 2}
    assert in_backward(device, y, gradient=torch.ones(2, device="mps"))["native:aten::mul.Tensor"] == 2
    assert x.grad is not None and x.grad.tolist() == [3.0, 12.0]


@pytest.fixture
def weight(device: VirtualDevice) -> Any:
    """A parameter (5, 5) whose values are not known."""
    return device.move(torch.nn.Parameter(torch.rand(5, 5)))


def test_the_derivative_is_a_call_with_the_copies_of_the_gradients(device: VirtualDevice, weight: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with device.recording("forward"):
            values = torch.linalg.svd(weight * 2)[1]
        calls = in_backward(device, values.sum())
    assert weight.grad.shape == (5, 5) and weight.grad.device.type == "mps"
    assert called(device.recorder, "forward")[SVD] == calls[SVD] == 1
    # What it calls on the CPU is no call of MPS.
    assert "native:aten::mm" not in calls
    assert not list(device.recorder.not_judged()) and not list(device.recorder.assumptions())
    forward, backward = (r for r in device.recorder.calls() if r.operator == "aten::linalg_svd")
    assert forward.judgement == backward.judgement and forward.origin == backward.origin
    assert [spec.shape for spec in backward.inputs] == [(5,)]  # of the singular values, to the CPU
    assert [spec.shape for spec in backward.outputs] == [(5, 5)]  # of the matrix, from there


def test_each_backward_pass_counts_and_each_run_of_a_checkpoint(device: VirtualDevice, weight: Any) -> None:
    first, second = (torch.linalg.svd(weight)[1].sum() for _ in range(2))
    assert in_backward(device, first, retain_graph=True)[SVD] == 1
    assert in_backward(device, first)[SVD] == 2
    assert in_backward(device, second)[SVD] == 3
    for after, reentrant in ((5, False), (7, True)):
        loss = checkpoint(lambda x: torch.linalg.svd(x)[1].sum(), weight, use_reentrant=reentrant)
        assert in_backward(device, loss)[SVD] == after


def test_second_derivatives_are_there(device: VirtualDevice, weight: Any) -> None:
    with device.recording("forward"):
        values = torch.linalg.svd(weight)[1]
        (gradient,) = torch.autograd.grad(values.pow(3).sum(), weight, create_graph=True)
    in_backward(device, gradient.pow(2).sum())
    assert weight.grad.shape == (5, 5)
    assert called(device.recorder, "forward")[SVD] == 2


def test_known_values_and_dtypes_of_gradients(device: VirtualDevice) -> None:
    x = torch.tensor([[3.0, 0.0], [0.0, 2.0]], device="mps", requires_grad=True)
    half = torch.ones(2, 2, dtype=torch.float16, device="mps", requires_grad=True)  # the CPU has no code for it
    values, others = (torch.linalg.svd(one)[1] for one in (x, half))
    values.sum().backward()
    others.sum().backward()
    assert values.tolist() == [3.0, 2.0] and half.grad is not None and half.grad.dtype is torch.float16
    assert x.grad is not None and x.grad.abs().tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_an_out_argument_is_refused_as_everywhere(device: VirtualDevice, weight: Any) -> None:
    outputs = tuple(torch.empty(0, device="mps") for _ in range(3))
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        torch.linalg.svd(weight, out=outputs)


@pytest.mark.parametrize(
    ("release", "shape", "operator", "program"),
    [
        ("1.13.1", (3, 4), "repeat_interleave.self_int", lambda x: x.repeat_interleave(2, dim=0)),
        ("2.4.1", (1, 1, 2, 2, 2), "upsample_nearest3d.vec", lambda x: interpolate(x, scale_factor=2)),
    ],
)
def test_those_of_older_releases(release: str, shape: tuple[int, ...], operator: str, program: Any) -> None:
    with VirtualDevice(load_table(release)) as device:
        x = device.move(torch.nn.Parameter(torch.rand(shape)))
        calls = in_backward(device, program(x).sum())
    assert x.grad.shape == shape and calls[f"fallback:aten::{operator}"] == 1


def test_a_kernel_without_a_derivative_ends_the_gradient() -> None:
    with VirtualDevice(load_table("2.9.1")) as device, warnings.catch_warnings():
        warnings.simplefilter("error")
        x = device.move(torch.nn.Parameter(torch.rand(3, 3)))
        with device.recording("forward"):
            factors = torch.linalg.lu_factor(x * 2)
        assert factors[0].requires_grad and not factors[1].requires_grad
        in_backward(device, factors[0].sum())
    assert x.grad is None and set(device.recorder.gradients_end) == {"aten::linalg_lu_factor"}
    assert called(device.recorder, "forward")["native:aten::linalg_lu_factor"] == 1


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


def test_gradients_are_those_of_the_cpu() -> None:
    values, linear = torch.tensor([[1.0, 2.0], [4.0, 0.5]]), torch.nn.functional.linear
    programs = (
        torch.max,
        torch.median,
        torch.prod,
        lambda x: x.prod(1),
        lambda x: x.cumprod(0),
        lambda x: linear(x, x),
    )
    with VirtualDevice(load_table("2.13.0"), keep_weights=True) as device:
        for of in programs:
            here, there = values.clone().requires_grad_(), device.move(values.clone()).requires_grad_()
            for x in (here, there):
                of(x).sum().backward()
            torch.testing.assert_close(there.grad.cpu(), here.grad)


def test_a_product_of_another_dtype_keeps_its_gradient(device: VirtualDevice) -> None:
    tensor = device.move(torch.rand(3, 4)).requires_grad_()
    tensor.prod(1, keepdim=True, dtype=torch.float16).sum().backward()
    assert (tensor.grad.shape, tensor.grad.dtype) == ((3, 4), torch.float32)


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
