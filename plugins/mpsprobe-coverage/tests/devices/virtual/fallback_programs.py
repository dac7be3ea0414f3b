"""Programs that train through fallbacks, and what is compared of them on the virtual device and on a real backend.

``python fallback_programs.py LIBRARY FOLDER`` runs them on the backend of ``fallback_backend.cpp`` and writes
``traces.json``: in a process of its own, because what it registers stays for as long as the process lives.
"""

from __future__ import annotations

import json
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

Program = Callable[[torch.Tensor], torch.Tensor]
Trace = dict[str, Any]

# Name → a release in which its operator is a registered fallback, the shape of the input, the program.
PROGRAMS: dict[str, tuple[str, tuple[int, ...], Program]] = {
    "singular values": ("2.13.0", (5, 3), lambda x: torch.linalg.svd(x)[1].sum()),
    "singular vectors": ("2.13.0", (4, 4), lambda x: sum(part.pow(2).sum() for part in torch.linalg.svd(x))),
    "reduced": ("2.5.1", (2, 5, 3), lambda x: torch.linalg.svd(x, full_matrices=False)[0].pow(2).sum()),
    "nearest in 3d": ("2.7.0", (1, 2, 3, 3, 3), lambda x: torch.nn.functional.interpolate(x, scale_factor=2).sum()),
    "repeated": ("1.13.1", (3, 4), lambda x: x.repeat_interleave(2, dim=1).pow(2).sum()),
    "repeated by tensor": (
        "1.13.1", (3, 4), lambda x: x.repeat_interleave(torch.tensor([1, 0, 2]).to(x.device), dim=0).pow(2).sum(),
    ),
    "unfolded": ("2.5.1", (1, 2, 4, 4), lambda x: torch.nn.functional.unfold(x, 2).pow(2).sum()),
    "folded": ("2.7.0", (1, 8, 9), lambda x: torch.nn.functional.fold(x, (4, 4), 2).pow(2).sum()),
    "gradient of a gradient": ("2.13.0", (3, 3), lambda x: _penalty(x)),
}  # fmt: skip


def _penalty(x: torch.Tensor) -> torch.Tensor:
    (gradient,) = torch.autograd.grad(torch.linalg.svd(x)[1].pow(3).sum(), x, create_graph=True)
    return gradient.pow(2).sum()


def trace(program: Program, x: torch.Tensor) -> Trace:
    """Autograd's graph of ``program``, and which operators its backward pass calls on which device: ``cpu`` or not."""
    x.requires_grad_()
    loss = program(x * 2)
    with _Log() as log:
        loss.backward()
    assert x.grad is not None
    return {"graph": sorted(_nodes(loss.grad_fn)), "backward": log.calls, "gradient": list(x.grad.shape)}


def _nodes(first: Any) -> Iterator[str]:
    seen, waiting = set(), [first]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            yield node.name()
            waiting += [following for following, _ in node.next_functions]


class _Log(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.prim.device.default:  # a question of C++ that only tensors without data pass on to Python
            return func(*args)
        tensors = [value for value in tree_leaves((args, kwargs)) if isinstance(value, torch.Tensor)]
        where = {"cpu" if tensor.device.type == "cpu" else "device" for tensor in tensors}
        self.calls.append(" ".join([str(func), *sorted(where)]))
        return func(*args, **(kwargs or {}))


def main(library: str, folder: str) -> None:
    """Run on the backend, and write."""
    torch.utils.rename_privateuse1_backend("made")
    module = types.ModuleType("torch.made")
    module._lazy_init = lambda: None  # type: ignore[attr-defined]
    torch._register_device_module("made", module)
    torch.ops.load_library(library)
    traces = {}
    for name, (_, shape, program) in PROGRAMS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch warns although the gradients are right
            traces[name] = trace(program, torch.rand(shape).to("made"))
    Path(folder, "traces.json").write_text(json.dumps(traces))


if __name__ == "__main__":
    main(*sys.argv[1:])
