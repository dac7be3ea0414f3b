"""The same step on several devices: its modules' outputs, loss, gradients and updated parameters next to each other."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import torch
from torch.nn.modules.module import register_module_forward_hook
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map

from mpsprobe.errors import WorkloadError
from mpsprobe.protocols import RunOptions, TorchRun
from mpsprobe.stepping import TorchStep, forward, settled
from mpsprobe.suggestions import in_short
from mpsprobe_coverage.verifying.comparing import Distance, distance
from mpsprobe_coverage.verifying.copying import to_device

What = Literal["output", "loss", "gradient", "parameter"]
Key = tuple[What, str, int]
"""What, of which module or parameter, at which of its calls."""


@dataclass(slots=True)
class Seen:
    """What a run has made: of the float64 one the tensors, of others how far they are from those."""

    order: list[str] = field(default_factory=list)  # modules in the order in which their calls ended
    kept: dict[Key, torch.Tensor] = field(default_factory=dict)
    distances: dict[Key, Distance] = field(default_factory=dict)
    read: list[Any] = field(default_factory=list)


class Following:
    """Keeps the tensors of a run, or compares them with those that ``judge`` kept."""

    def __init__(self, model: torch.nn.Module, judge: Seen | None) -> None:
        self.seen = Seen()
        self._judge = judge
        self._names = {id(module): name or "(model)" for name, module in model.named_modules()}
        self._calls: dict[str, int] = {}
        self._same: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # what a module returns as its last child did

    def add(self, what: What, name: str, tensor: torch.Tensor, number: int = 0) -> None:
        if not tensor.is_floating_point():
            return
        key: Key = (what, name, number)
        if self._judge is None:
            known = self._same.get(id(tensor))
            if known is None or known[0] is not tensor:
                self._same = {id(tensor): (tensor, to_device(tensor, "cpu"))}
            self.seen.kept[key] = self._same[id(tensor)][1]
        elif (exact := self._judge.kept.get(key)) is not None:
            found = distance(to_device(tensor, "cpu"), exact)
            if found is not None:
                self.seen.distances[key] = found

    @contextmanager
    def open(self) -> Iterator[None]:
        def ended(module: torch.nn.Module, _args: Any, result: Any) -> None:
            name = self._names.get(id(module))
            if name is not None:
                self.seen.order.append(name)
                number = self._calls[name] = self._calls.get(name, -1) + 1
                leaves = [one for one in tree_leaves(_plain(result)) if isinstance(one, torch.Tensor)]
                for position, leaf in enumerate(leaves):
                    with torch.no_grad(), _disable_current_modes():
                        self.add("output", name, leaf.detach(), number * len(leaves) + position)

        with register_module_forward_hook(ended):
            yield


def _plain(value: Any) -> Any:
    """Outputs of transformers are dicts, though registered as other things."""
    return dict(value) if isinstance(value, dict) else value


def taken(
    run: TorchRun,
    options: RunOptions,
    device: str,
    mode: Any,
    judge: Seen | None,
    follow: bool = True,
) -> Seen:
    """One step of ``run``, whose model is on ``device``, under the dispatch mode ``mode``; what was seen of it."""
    following = Following(run.model, judge)
    opened = following.open() if follow else nullcontext()
    with opened, mode:
        if options.phase == "inference":
            with torch.no_grad():
                forward(run, options, device, run.args, run.kwargs)
        else:
            step = TorchStep(run, options, device, foreach=False)
            loss = step.loss()
            (loss if step.scaler is None else step.scaler.scale(loss)).backward()
            if step.scaler is not None:
                step.unscale()
            with _disable_current_modes():
                following.add("loss", "", loss.detach())
                for name, parameter in run.model.named_parameters():
                    if parameter.grad is not None:
                        following.add("gradient", name, parameter.grad)
            if step.scaler is None:
                step.update()
                with _disable_current_modes():
                    for name, parameter in run.model.named_parameters():
                        following.add("parameter", name, parameter.detach())
    following.seen.read = list(mode.read)
    return following.seen


def placed(run: TorchRun, device: str, *, wide: bool = False) -> TorchRun:
    """A copy of ``run`` with model and inputs on ``device``; ``wide``: in float64.

    Raises:
        WorkloadError: the model cannot be copied.
    """
    try:
        model = copy.deepcopy(run.model)
    except Exception as error:  # whatever a model is made of
        why = f"'{run.architecture or type(run.model).__name__}' cannot be copied: {in_short(error)}"
        raise WorkloadError(why, "Hand over a function without inputs, which makes the model.") from error

    def moved(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        leaf = leaf.detach().clone() if leaf.device.type == device else leaf.to(device)
        return leaf.double() if wide and leaf.is_floating_point() else leaf

    model = model.double().to(device) if wide else model.to(device)
    return replace(run, model=model, args=tree_map(moved, tuple(run.args)), kwargs=tree_map(moved, dict(run.kwargs)))


def built(workload: Any, options: RunOptions) -> TorchRun:
    """The run of ``workload``, its inputs on the CPU and such as its model takes.

    Raises:
        WorkloadError: it is none of torch, or its inputs have no values.
    """
    run = workload.build(options)
    if not isinstance(run, TorchRun):
        raise WorkloadError(f"'{workload.name}' did not build a TorchRun, but {type(run).__name__}")
    tensors = [one for one in tree_leaves((run.args, dict(run.kwargs))) if isinstance(one, torch.Tensor)]
    if any(one.is_meta for one in (*tensors, *run.model.parameters())):
        why = f"'{workload.name}' has tensors without values (on the device 'meta')"
        raise WorkloadError(why, "Hand over a model and inputs on the CPU, with values.")
    return settled(run, options, "cpu", partial(tree_map, lambda one: one))


def all_equal(model: torch.nn.Module) -> bool:
    """Whether every weight of more than one dimension is one number everywhere: then no error of a kernel shows."""
    weights = [one for one in model.parameters() if one.dim() > 1 and one.numel() > 1]
    return bool(weights) and all(bool((one == one.flatten()[0]).all()) for one in weights)


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
    dtypes = (one.dtype for one in model.parameters() if one.dtype.is_floating_point)
    return next(dtypes, torch.float32)
