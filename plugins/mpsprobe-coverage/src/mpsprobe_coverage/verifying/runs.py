"""The same step on several devices: its modules' outputs, loss, gradients and updated parameters next to each other."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import torch
from torch.nn.modules.module import register_module_forward_hook
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map

from mpsprobe import stepping
from mpsprobe.errors import WorkloadError
from mpsprobe.protocols import RunOptions, TorchRun
from mpsprobe.stepping import TorchStep
from mpsprobe.suggestions import in_short
from mpsprobe_coverage.devices.virtual.restoring import as_before
from mpsprobe_coverage.verifying.comparing import distance
from mpsprobe_coverage.verifying.copying import copied_deeply

What = Literal["output", "loss", "gradient", "parameter"]
Key = tuple[What, str, int]
"""What, of which module or parameter, at which of its calls."""
ROOT = "(model)"
"""The name of the model itself, which has none as a module."""


@dataclass(slots=True)
class Seen:
    """What a run has made: the tensors, or how far they are from those of another run."""

    order: list[str] = field(default_factory=list)  # modules in the order in which their calls ended
    kept: dict[Key, Any] = field(default_factory=dict)
    compared: dict[Key, Any] = field(default_factory=dict)
    read: list[Any] = field(default_factory=list)  # what the program read of tensors, as ``Drawing`` has it
    result: list[torch.Tensor] = field(default_factory=list)  # of the last forward pass


class Following(TorchStep):
    """A step that keeps its tensors, or compares them with those of ``right``, which go as they are compared.

    Args:
        compare: gets a tensor of the run and that of ``right``; ``None``: they cannot be compared.
        name: of the run's model in the whole one, of which it is a part.
    """

    def __init__(
        self,
        run: TorchRun,
        options: RunOptions,
        device: str,
        right: dict[Key, Any] | None = None,
        *,
        compare: Callable[[torch.Tensor, Any], Any] = distance,
        name: str = "",
    ) -> None:
        super().__init__(run, options, device, foreach=False)
        self.seen = Seen()
        self._right, self._compare = right, compare
        self._names = {id(module): part or ROOT for part, module in run.model.named_modules(prefix=name)}
        self._calls: Counter[str] = Counter()
        self._last: tuple[Any, ...] = (None,)  # what a module returns as its last child did

    def followed(self, mode: Any) -> Seen:
        """Take the step under the dispatch mode ``mode``; what was seen of it."""
        with register_module_forward_hook(self._ended), mode:
            self.take()
            for name, parameter in self.run.model.named_parameters() if self.options.phase == "training" else ():
                self._add(("parameter", name, 0), parameter)
        self.seen.read = mode.read
        return self.seen

    def forward(self) -> Any:
        output = super().forward()
        self.seen.result = [tensor.detach() for tensor in floats(output)]
        return output

    def loss(self) -> Any:
        loss = super().loss()
        self._add(("loss", "", 0), loss)
        return loss

    def unscale(self) -> None:
        super().unscale()
        for name, parameter in self.run.model.named_parameters():
            if parameter.grad is not None:
                self._add(("gradient", name, 0), parameter.grad)

    def _ended(self, module: torch.nn.Module, _args: Any, result: Any) -> None:
        name, outputs = self._names.get(id(module)), floats(result)
        if name is None:
            return
        self.seen.order.append(name)
        for position, tensor in enumerate(outputs):
            self._add(("output", name, self._calls[name] * len(outputs) + position), tensor)
        self._calls[name] += 1

    def _add(self, key: Key, tensor: torch.Tensor) -> None:
        exact = None if self._right is None else self._right.pop(key, None)
        if (self._right is not None and exact is None) or not tensor.is_floating_point():
            return
        same = tensor, None if tensor.is_inference() else tensor._version, exact
        with torch.no_grad(), _disable_current_modes(), torch._C.DisableTorchFunction():
            if not all(one is other for one, other in zip(same, self._last, strict=False)):
                here = tensor.detach()
                # In float32 it is as near as whole runs are compared, and half as large
                found = here.to(torch.float32, copy=True) if exact is None else self._compare(here, exact)
                self._last = *same, found
        found = self._last[3]
        if exact is None:
            self.seen.kept[key] = found
        elif found is not None:
            self.seen.compared[key] = found


def floats(values: Any) -> list[torch.Tensor]:
    """The floating-point tensors of an output; those of transformers are dicts, though registered as other things."""
    values = dict(values) if isinstance(values, dict) else values
    return [value for value in tree_leaves(values) if isinstance(value, torch.Tensor) and value.is_floating_point()]


def placed(run: TorchRun, device: str, *, wide: bool = False, copied: bool = True) -> TorchRun:
    """A copy of ``run`` with model and inputs on ``device``; ``wide``: in float64; not ``copied``: its model itself.

    Raises:
        WorkloadError: the model cannot be copied.
    """

    def moved(tensor: torch.Tensor) -> torch.Tensor:
        tensor = tensor.detach().clone() if tensor.device.type == device else tensor.detach().to(device)
        return tensor.double() if wide and tensor.is_floating_point() else tensor

    try:
        model = copy.deepcopy(run.model) if copied else run.model
        args, kwargs = copied_deeply((tuple(run.args), dict(run.kwargs)), moved)
    except Exception as error:  # whatever they are made of
        why = f"'{run.architecture or type(run.model).__name__}' cannot be copied: {in_short(error)}"
        raise WorkloadError(why, "Hand over a function without inputs, which makes the model.") from error
    return replace(run, model=(model.double() if wide else model).to(device), args=args, kwargs=kwargs)


def built(workload: Any, options: RunOptions) -> TorchRun:
    """The run of ``workload``, its inputs on the CPU and such as its model takes.

    Raises:
        WorkloadError: it is none of torch, or its inputs have no values.
    """
    run = stepping.built(workload, options)
    tensors = [value for value in tree_leaves((run.args, dict(run.kwargs))) if isinstance(value, torch.Tensor)]
    if any(tensor.is_meta for tensor in (*tensors, *run.model.parameters())):
        why = f"'{workload.name}' has tensors without values (on the device 'meta')"
        raise WorkloadError(why, "Hand over a model and inputs on the CPU, with values.")
    with as_before(run.model.modules()):  # what it keeps for its next call would stay on the CPU
        return stepping.settled(run, options, "cpu", partial(tree_map, lambda value: value))


def all_equal(model: torch.nn.Module) -> bool:
    """Whether every weight of more than one dimension is one number everywhere: then no error of a kernel shows."""
    weights = [weight for weight in model.parameters() if weight.dim() > 1 and weight.numel() > 1]
    return bool(weights) and all(bool((weight == weight.flatten()[0]).all()) for weight in weights)


def parted(device: Seen, cpu: Seen) -> str | None:
    """Where control flow took another course on the device than on the CPU, in words."""
    for number, (here, there) in enumerate(zip(device.order, cpu.order, strict=False)):
        if here != there:
            return f"after {number} calls of modules the device ran '{here}' and the CPU '{there}'"
    if len(device.order) != len(cpu.order):
        return f"the device ran {len(device.order)} modules, the CPU {len(cpu.order)}"
    for number, (here, there) in enumerate(zip(device.read, cpu.read, strict=False)):
        if here != there:
            return f"the {number + 1}. number that the program read of a tensor is {here} there and {there} on the CPU"
    return None


def narrowest(model: torch.nn.Module) -> torch.dtype:
    return next(
        (parameter.dtype for parameter in model.parameters() if parameter.dtype.is_floating_point), torch.float32
    )
