"""What Python code asks torch about MPS, answered as on a Mac while the device is open."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import torch

from mpsprobe_coverage.devices.virtual.mps_in_python import Replace, machine_or_usual, mps_in_python, replacing
from mpsprobe_coverage.knowledge.chips.limits import limits_of

_log = logging.getLogger(__name__)


@contextmanager
def mps_surface(chip: str | None = None) -> Iterator[None]:
    """Make Python's side of torch answer as on a Mac with ``chip``; C++ answers for itself (``native/device.cpp``)."""
    limits = limits_of(machine_or_usual(chip))
    torch.ops.mpsprobe.set_limits(limits.recommended.low, limits.largest_buffer.low)
    with replacing() as (replace, _):
        mps_in_python(replace, torch.ops.mpsprobe.default_generator(), torch._C._mps_currentAllocatedMemory, chip=chip)
        _without_metal(replace)
        _storages_on_mps(replace)
        _compiled_eagerly(replace)
        yield


def _without_metal(replace: Replace) -> None:
    """Say clearly what the virtual device cannot do, where torch's own code would find a function missing."""
    for name in ("compileShader", "loadMetalllib", "loadMetallibFromPath"):
        replace(torch._C, f"_mps_{name}", _no_shaders)
    for name in ("isCaptureEnabled", "isCapturing"):  # only with MTL_CAPTURE_ENABLED=1
        replace(torch._C, f"_mps_{name}", lambda: False)


def _no_shaders(source: Any) -> NoReturn:
    raise RuntimeError(
        "Metal shaders run on a Mac only: the virtual MPS device of mpsprobe has PyTorch's operators. "
        "Leave this part out there, or run the program with --device mps on a Mac."
    )


def _storages_on_mps(replace: Replace) -> None:
    """Let the constructor of storages make those of MPS, without which nothing can be loaded or unpickled there.

    It knows the devices that its build of torch has (``THPStorage_pynew`` in ``torch/csrc/Storage.cpp``), or takes the
    address of an allocator.
    """
    new: Any = torch.UntypedStorage.__new__
    address = torch.ops.mpsprobe.allocator()

    def made(cls: Any, *args: Any, device: Any = None, **options: Any) -> Any:
        if device is None:
            return new(cls, *args, **options)
        if torch.device(device).type != "mps":
            return new(cls, *args, device=device, **options)
        return new(cls, *args, allocator=address, **options)

    replace(torch.UntypedStorage, "__new__", staticmethod(made))


def _compiled_eagerly(replace: Replace) -> None:
    """Run what inductor would compile for MPS operator by operator, and say so once.

    A Mac runs shaders of its own there, which no table has; graphs without a tensor of MPS are compiled as ever.
    """
    wrapper = torch._TorchCompileInductorWrapper
    compiled = wrapper.__call__
    said = False

    def call(self: Any, model_: Any, inputs_: Any, **options: Any) -> Any:
        nonlocal said
        known = [*inputs_, *(model_.buffers() if isinstance(model_, torch.nn.Module) else ())]
        nodes = model_.graph.nodes if isinstance(model_, torch.fx.GraphModule) else ()
        known += [node.meta.get("example_value") for node in nodes]
        if not any(isinstance(one, torch.Tensor) and one.device.type == "mps" for one in known):
            return compiled(self, model_, inputs_, **options)
        if not said:
            _log.warning(
                "torch.compile makes Metal shaders on a Mac. The virtual device runs the same operators one by one, "
                "and the report has those."
            )
            said = True
        return model_.forward if isinstance(model_, torch.nn.Module) else model_

    replace(wrapper, "__call__", call)
