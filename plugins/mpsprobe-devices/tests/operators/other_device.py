"""A device of torch that falls back to the CPU for everything, run by ``test_other_device.py`` in a process of its own.

It is made from torch's own parts: the PrivateUse1 key, autograd's engine with a thread for the device, a boxed fallback
for every operator that warns through TORCH_WARN_ONCE (``Tensor.T`` of more than two dimensions does), as
``mps_fallback`` is. Prints JSON.
"""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

import torch
from torch.utils._pytree import tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from mpsprobe_devices.operators import slow
from mpsprobe_devices.operators.probe import OperatorsProbe
from mpsprobe_devkit.testing.fakes import FakeDevice

CUBE = torch.zeros(2, 2, 2)


class There(torch.Tensor):
    """A tensor on the device; what it holds lies on the CPU."""

    raw: torch.Tensor

    @staticmethod
    def __new__(cls, raw: torch.Tensor) -> There:
        made: Any = torch._C._acc.create_empty_tensor(tuple(raw.shape), raw.dtype)
        made.__class__ = There
        made.raw = raw
        return made  # type: ignore[no-any-return]


def away(operator: Any, *args: Any, **kwargs: Any) -> Any:
    """Copy to the CPU, warn, run, copy back."""
    torch.ops.aten.numpy_T(CUBE)
    args, kwargs = tree_map(lambda value: value.raw if isinstance(value, There) else value, (args, kwargs))
    kwargs = {name: "cpu" if isinstance(value, torch.device) else value for name, value in kwargs.items()}
    return tree_map(lambda value: There(value) if isinstance(value, torch.Tensor) else value, operator(*args, **kwargs))


class Squares(torch.nn.Module):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs * inputs


class Steps:
    def __init__(self) -> None:
        self.model = Squares()
        self.threads: set[int] = set()

    def step(self) -> None:
        inputs = There(torch.ones(3, 4)).requires_grad_()
        inputs.register_hook(lambda _: self.threads.add(threading.get_ident()))
        self.model(inputs).backward(There(torch.ones(3, 4)))


def main() -> None:
    _setup_privateuseone_for_python_backend("npy")
    library = torch.library.Library("_", "IMPL")
    library.fallback(away, "PrivateUse1")
    slow.TEXT = r"The use of `x\.(?P<operator>T)` on tensors of dimension other than 2"
    steps: Any = Steps()
    device = FakeDevice("npy")
    probe = OperatorsProbe(slow=True)
    reason = probe.unavailable(device)
    probe.start(device, steps)
    for _ in range(2):
        steps.step()
        probe.sample()
    found = probe.stop()
    trace = found["trace"]
    rows = [
        (trace.names[name], trace.categories[category], trace.tracks[track].name)
        for name, category, track in zip(trace.name, trace.category, trace.track, strict=True)
    ]
    answer = {
        "reason": reason,
        "on the main thread": threading.get_ident() in steps.threads,
        "fallbacks": [cost.model_dump() for cost in found["fallbacks"]],
        "operators": {one.operator: one.calls for one in found["operators"]},
        "modules": [(one.module, one.phase, one.calls) for one in found["modules"]],
        "phases": [name for name, category, _ in rows if category == "phase"],
        "products": [(category, track) for name, category, track in rows if name == "aten::mul"],
        "copies": sorted({name for name, category, _ in rows if category == "copy"}),
    }
    sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
