"""The smallest program that shows a wrong result: one operator with made numbers, ready to be sent as an issue."""

from __future__ import annotations

import platform
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from mpsprobe_coverage.verifying.operators import Checking, Found

PROGRAM = '''"""{operator} on {device}: wrong for {inputs}.

Expected {expected}, got {got} at {at} (float64 on the CPU as the reference; the CPU in {dtype} is off by {cpu_error}).
{shown}
torch {torch}, {system}, Python {python}. Found by: mpsprobe verify
"""
import torch

{making}


def run(device, wide):
    def to(x):
        x = x.to(device)
        return x.double() if wide and x.is_floating_point() else x

    results = torch.ops.{call}({arguments})
    results = results if isinstance(results, (tuple, list)) else [results]
    return [x.cpu() for x in results if isinstance(x, torch.Tensor)]


{tensors}
for number, (got, expected) in enumerate(zip(run("{device}", False), run("cpu", True))):
    error = (got.double() - expected.double()).abs().max().item() if got.numel() else 0.0
    print(f"result {{number}}: largest error {{error:.6g}}, largest expected {{expected.abs().max().item():.6g}}")
'''
MAKING = """torch.manual_seed(0)


def tensor(shape, strides, dtype, make):
    memory = 1 + sum((size - 1) * step for size, step in zip(shape, strides)) if 0 not in shape else 0
    return make(torch.empty(memory)).to(dtype).as_strided(shape, strides)"""
SHOWN = {
    True: "With the made numbers below it is wrong too.",
    False: "With the made numbers below it was right when this was written: it needs the model's own values.",
}


def program(wrong: Found, checking: Checking, device: str) -> str:
    """The text of a program that runs the operator of ``found`` with numbers like those that it had.

    Random numbers of the same mean and spread are made for each floating-point tensor, whole ones of the same range for
    others, with the strides that they had.
    """
    report, (args, kwargs) = wrong.report, wrong.inputs
    names: dict[int, str] = {}
    lines = []
    for leaf in tree_leaves((args, kwargs)):
        if isinstance(leaf, torch.Tensor) and id(leaf) not in names:
            names[id(leaf)] = f"x{len(names)}"
            shape, strides = tuple(leaf.shape), tuple(leaf.stride())
            lines.append(f"{names[id(leaf)]} = tensor({shape}, {strides}, {leaf.dtype}, {_made(leaf)})")
    written = [_written(value, names) for value in args]
    written += [f"{name}={_written(value, names)}" for name, value in kwargs.items()]
    return PROGRAM.format(
        operator=report.operator,
        device=device,
        inputs=", ".join(report.inputs) + (f" ({'; '.join(report.layouts)})" if report.layouts else ""),
        expected=report.expected,
        got="a number that is not finite" if report.got is None else report.got,
        at=report.at,
        dtype=report.dtype,
        cpu_error=report.cpu_error,
        shown=SHOWN[_shows(wrong, checking, names, lines)],
        making=MAKING,
        torch=torch.__version__,
        system=f"macOS {platform.mac_ver()[0]}" if platform.mac_ver()[0] else platform.platform(),
        python=platform.python_version(),
        call=str(wrong.call.func),
        arguments=", ".join(written),
        tensors="\n".join(lines),
    )


def _made(tensor: torch.Tensor) -> str:
    """A function of a tensor without values that gives it some like those of ``tensor``."""
    if not tensor.numel():
        return "lambda m: m"
    if tensor.dtype is torch.bool:
        return f"lambda m: (torch.rand_like(m) < {float(tensor.float().mean()):.3g}).float()"
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return f"lambda m: torch.randint({int(tensor.min())}, {int(tensor.max()) + 1}, m.shape)"
    fine = (tensor.real if tensor.is_complex() else tensor).double()
    fine = fine[torch.isfinite(fine)]
    mean, spread = (float(fine.mean()), float(fine.std(correction=0))) if fine.numel() else (0.0, 0.0)
    return f"lambda m: m.normal_({mean:.6g}, {spread:.6g})"


def _shows(wrong: Found, checking: Checking, names: dict[int, str], lines: list[str]) -> bool:
    """Whether the tensors that ``lines`` make are wrong on the device, here and now."""
    made: dict[str, Any] = {"torch": torch}
    with torch.random.fork_rng(devices=[]):
        exec("\n".join([MAKING, *lines]), made)
        inputs = tree_map(lambda leaf: made[names[id(leaf)]] if isinstance(leaf, torch.Tensor) else leaf, wrong.inputs)
        try:
            return checking.is_wrong(wrong.call.func, inputs)
        except RuntimeError:
            return False


def _written(value: Any, names: dict[int, str]) -> str:
    if isinstance(value, torch.Tensor):
        return f"to({names[id(value)]})"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_written(part, names) for part in value)}]"
    if isinstance(value, torch.device):
        return "torch.device(device)"
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return f"float('{value}')"
    return str(value) if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)) else repr(value)
