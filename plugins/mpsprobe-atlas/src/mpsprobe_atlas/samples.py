"""Calls that models make, as a file of samples that the author of a kernel runs: on MPS against the CPU.

The file needs nothing but torch. Its samples have what ``SampleInput`` of PyTorch's OpInfos has (input, args, kwargs),
so that they can be moved there.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

HEAD = '''"""{operator}: calls that models make, as samples.

    python {file}          on MPS, compared with the CPU
    python {file} cpu      on the CPU alone

Values are made up: random numbers, square matrices positive definite, whole numbers 0 so that every index is valid.
Written by mpsprobe {version} from {source}.
"""

import sys
from typing import Any, NamedTuple

import torch

DEVICE = sys.argv[1] if len(sys.argv) > 1 else "mps"


class Sample(NamedTuple):
    """As ``torch.testing._internal.opinfo.core.SampleInput``, with the overload that is called."""

    call: Any
    input: Any
    args: tuple
    kwargs: dict


def tensor(shape, strides, dtype, device, layout=torch.strided):
    """A tensor laid out in memory as the model has it."""
    held = 1 + sum((size - 1) * step for size, step in zip(shape, strides)) if 0 not in shape else 0
    if dtype.is_floating_point or dtype.is_complex:
        drawn = torch.complex64 if dtype.is_complex else torch.float32
        values = torch.rand(held, dtype=drawn, generator=torch.Generator().manual_seed(held)).to(dtype)
    else:
        values = torch.zeros(held, dtype=dtype)
    made = values.as_strided(shape, strides)
    if dtype.is_floating_point and len(shape) > 1 and shape[-1] == shape[-2] and 0 not in strides:
        made.diagonal(dim1=-2, dim2=-1).add_(shape[-1])
    if layout is not torch.strided:
        return made.to_sparse(layout=layout).to(device)
    return values.to(device).as_strided(shape, strides)


def samples(device):
    """Each call once; above it who makes it."""
'''
TAIL = '''

def tensors(value):
    """Those in a result."""
    if isinstance(value, (list, tuple)):
        return [one for item in value for one in tensors(item)]
    return [value] if isinstance(value, torch.Tensor) else []


def results(device):
    """What each call returns: tensors on the CPU."""
    for sample in samples(device):
        yield sample, tensors(sample.call(sample.input, *sample.args, **sample.kwargs))


def main():
    """Run each call on DEVICE; elsewhere than on the CPU, compare it with the CPU."""
    count = 0
    for (sample, found), (_, wanted) in zip(results(DEVICE), results("cpu")):
        if DEVICE != "cpu":
            torch.testing.assert_close([one.cpu() for one in found], wanted, msg=lambda text: f"{sample.call}: {text}")
        count += 1
    print(f"{count} calls, all as on the CPU" if DEVICE != "cpu" else f"{count} calls")


if __name__ == "__main__":
    main()
'''


@dataclass(frozen=True, slots=True)
class Example:
    """A call, as ``mpsprobe_coverage.knowledge.calls.examples`` writes it, and who makes it."""

    call: str
    callers: Sequence[str]


def sample_file(operator: str, examples: Iterable[Example], version: str, source: str) -> str:
    """The file; empty where there is no call that can be written."""
    parts = [sample for example in examples if (sample := _sample(example)) is not None]
    if not parts:
        return ""
    file = f"samples_{operator.rpartition('::')[2].replace('.', '_')}.py"
    head = HEAD
    for name, value in (("operator", operator), ("file", file), ("version", version), ("source", source)):
        head = head.replace("{" + name + "}", _plain(value))
    return head + "\n".join(parts) + "\n" + TAIL


def _sample(example: Example) -> str | None:
    """One call as a sample; ``None`` where its text is none that we wrote: it may come from anybody's store."""
    try:
        tree = ast.parse(example.call, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    # An overload: ``torch.ops.aten.linalg_qr.out``.
    if not (isinstance(tree, ast.Call) and re.fullmatch(r"torch\.ops(\.\w+){3}", ast.unparse(tree.func))):
        return None
    values = [*tree.args, *(keyword.value for keyword in tree.keywords)]
    if not all(map(_is_value, values)) or any(keyword.arg is None for keyword in tree.keywords):
        return None
    if not tree.args:
        return None  # it makes a tensor of nothing: a factory, which has no input
    for made in ast.walk(tree):
        if isinstance(made, ast.Call) and isinstance(made.func, ast.Name) and made.func.id == "tensor":
            made.args.append(ast.Name("device"))
    first, *rest = map(ast.unparse, tree.args)
    args = f"({', '.join(rest)},)" if rest else "()"
    kwargs = ", ".join(f"{word.arg!r}: {ast.unparse(word.value)}" for word in tree.keywords)
    more = f" and {len(example.callers) - 4} more" if len(example.callers) > 4 else ""
    who = ", ".join(map(_plain, example.callers[:4])) + more
    return f"    # {who}\n    yield Sample({ast.unparse(tree.func)}, {first}, {args}, {{{kwargs}}})"


def _plain(text: str) -> str:
    """A name from a store that anyone may have written, which ends no comment and no string."""
    return re.sub(r"[^\w.:,/+ -]", "_", text)[:200]


def _is_value(node: ast.expr) -> bool:
    """What ``examples.py`` writes: tensors, lists, constants, names of torch, ``device``."""
    if isinstance(node, ast.Call):
        name = node.func.id if isinstance(node.func, ast.Name) else None
        inner = [*node.args, *(keyword.value for keyword in node.keywords)]
        return name in ("tensor", "float") and all(map(_is_value, inner))
    if isinstance(node, (ast.List, ast.Tuple)):
        return all(map(_is_value, node.elts))
    if isinstance(node, ast.UnaryOp):
        return _is_value(node.operand)
    if isinstance(node, ast.BinOp):  # a complex number
        return _is_value(node.left) and _is_value(node.right)
    if isinstance(node, ast.Attribute):
        return isinstance(node.value, ast.Name) and node.value.id == "torch"
    return isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and node.id == "device")
