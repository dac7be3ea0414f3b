"""Whatever gets a gradient on the CPU gets one on the virtual device: programs, and PyTorch's database of operators."""

from __future__ import annotations

import random
import warnings
from typing import Any

import pytest
import torch
from gradient_programs import PROGRAMS, Program
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves, tree_map

from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.kernels.mps import load_table

Found = list[tuple[int, ...] | None]


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # torch itself, for forward-mode autograd
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
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
