"""What Python code asks torch about MPS, answered as on a Mac while the virtual device is open.

``torch.tensor(…, device="mps")`` and ``tensor.to("mps")`` look for an MPS device guard in C++ before they
dispatch, so they are replaced for the time being. So is what models and scripts ask to choose a
device (``torch.backends.mps.is_available()``). Everything is put back when the device closes.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch.nn.parameter import is_lazy
from torch.optim.optimizer import _foreach_supported_types
from torch.overrides import _get_current_function_mode_stack
from torch.utils import _foreach_utils
from torch.utils._device import DeviceContext

from mpsprobe_coverage.devices.virtual.cpu_calls import keep_real
from mpsprobe_coverage.devices.virtual.libraries import Libraries
from mpsprobe_coverage.devices.virtual.mps_in_python import (
    Replace,
    accelerator_in_python,
    default_generator,
    mps_in_python,
    replacing,
)
from mpsprobe_coverage.devices.virtual.tensor import (
    VirtualTensor,
    data_of_tensors,
    known_places,
    loading,
    mapped,
    parse_to,
    stands_for,
    undispatched,
    virtual_tensor,
    without_data,
)
from mpsprobe_coverage.devices.virtual.wrapping import uninitialised
from mpsprobe_coverage.knowledge.calls.spec import CPU, META, spec_of
from mpsprobe_coverage.recording.capturing import eager
from mpsprobe_coverage.recording.dispatch import Dispatch

_original_to: Any = torch._C.TensorBase.to
_original_holder: Any = torch._C.TensorBase._make_wrapper_subclass
# What modules of other backends answer; None for what has nothing to do.
_CONSTANTS = {"is_available": True, "device_count": 1, "current_device": 0, "is_initialized": True}
_IDLE = dict.fromkeys(("synchronize", "empty_cache", "manual_seed", "manual_seed_all"))


@contextmanager
def device_in_python(dispatch: Dispatch, libraries: Libraries) -> Iterator[None]:
    with replacing() as (replace, put_back):
        replace(torch.Tensor, "to", _tensor_to(dispatch))
        replace(torch.Tensor, "data", data_of_tensors)
        replace(torch.Tensor, "_make_wrapper_subclass", staticmethod(_holder))
        for name in ("tensor", "as_tensor", "asarray"):
            replace(torch, name, _factory(getattr(torch, name), dispatch))
        put_back.callback(loading(stands_for.device, lambda tensor: _placed(tensor, dispatch), replace))
        replace(torch, "compile", eager)
        replace(VirtualTensor, "__setitem__", _assign_tensors(dispatch))
        for name in ("__getitem__", "__setitem__"):  # their calls are those of the installed torch
            composing = partial(dispatch.composing, f"Tensor.{name}")
            replace(VirtualTensor, name, _composed(getattr(VirtualTensor, name), composing))
        generator = default_generator(replace, stands_for.device)
        if stands_for.type == "mps":
            mps_in_python(replace, generator)
        else:
            _other_module(replace, put_back)
        accelerator_in_python(replace, stands_for.device)
        # Optimizers take their fused or foreach form only for tensor types on a list of their own.
        lists = (_foreach_utils._foreach_supported_types, _foreach_supported_types)
        for supported in {id(listed): listed for listed in lists}.values():
            supported.append(VirtualTensor)
            put_back.callback(supported.remove, VirtualTensor)
        libraries.begin(replace, put_back, note=True)
        yield


def _other_module(replace: Replace, put_back: ExitStack) -> None:
    """``torch.xpu`` and its like: that a device is available, and that it does everything at once.

    Where there is no such module (``torch.privateuseone``), an empty one: C++ imports it to initialise the device.
    """
    name = f"torch.{stands_for.type}"
    module: Any = getattr(torch, stands_for.type, None)
    if module is None and name not in sys.modules:
        module = sys.modules[name] = types.ModuleType(name)
        put_back.callback(sys.modules.pop, name, None)
        module._lazy_init = lambda: None
        vars(module).update(dict.fromkeys(_CONSTANTS))
        replace(torch, stands_for.type, module)
    for attribute, answer in {**_CONSTANTS, **_IDLE}.items():
        if hasattr(module, attribute):
            replace(module, attribute, lambda *args, answer=answer, **kwargs: answer)
    listed = _foreach_utils._get_foreach_kernels_supported_devices()
    if stands_for.type in listed:  # clipping asks C++ for the device of gradients, which says meta
        replace(_foreach_utils, "_get_foreach_kernels_supported_devices", lambda: [*listed, "meta"])
    if stands_for.type in vars(torch._C.TensorBase):  # `tensor.xpu()` looks for its device in C++
        device = stands_for.device
        replace(torch.Tensor, stands_for.type, lambda self, *args, **kwargs: self.to(device))


def _assign_tensors(dispatch: Dispatch) -> Any:
    """Up to 2.14 C++ made a tensor of a number before it wrote it through an index or a mask; 2.15 fills."""

    def assign(self: VirtualTensor, index: Any, value: Any) -> None:
        places = index if isinstance(index, tuple) else (index,)
        indexed = any(isinstance(place, (torch.Tensor, list)) for place in places)
        if indexed and isinstance(value, (int, float, complex)) and not dispatch.release.at_least("2.15"):
            value = torch.full((), value, dtype=self.dtype, device=stands_for.device)
        torch.Tensor.__setitem__(self, known_places(index), value)

    return assign


def _composed(original: Any, composing: Any) -> Any:
    def run(self: VirtualTensor, *args: Any) -> Any:
        with composing() or nullcontext():
            return original(self, *args)

    return run


def _tensor_to(dispatch: Dispatch) -> Any:
    def to(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        device, options = parse_to(args, kwargs)
        if device is None or device.type != stands_for.type:
            # Uninitialised parameters look their caller up among torch's own functions.
            with torch._C.DisableTorchFunctionSubclass() if is_lazy(self) else nullcontext():
                return _original_to(self, *args, **kwargs)
        if is_lazy(self):
            return uninitialised(self)
        dtype = options.get("dtype")
        return _moved(self if dtype is None else _original_to(self, dtype), dispatch)

    return to


def _holder(kind: Any, *args: Any, **kwargs: Any) -> Any:
    """A tensor that holds virtual ones is made as they are: its keys are of the device, and C++ says ``meta``.

    Autograd would look for a guard of its device, and end the process. Jagged ones have a key of their own.
    """
    if not any(map(_is_of_device, (*args, *kwargs.values()))):
        return _original_holder(kind, *args, **kwargs)
    args, kwargs = mapped(lambda value: META if _is_of_device(value) else value, (args, kwargs))
    holder = _original_holder(kind, *args, **kwargs)
    with torch._C.DisableTorchFunctionSubclass(), undispatched():
        if holder.layout is not torch.strided:
            return holder
        return torch.Tensor._make_subclass(
            kind, holder, holder.requires_grad, dispatch_device=False, device_for_backend_keys=stands_for.device
        )


def _is_of_device(value: Any) -> bool:
    return isinstance(value, (str, torch.device)) and str(value).partition(":")[0] == stands_for.type


def _moved(tensor: torch.Tensor, dispatch: Dispatch) -> Any:
    if not (tensor.requires_grad and torch.is_grad_enabled()):
        return adopt(tensor, dispatch)
    moved = torch.ops.aten._to_copy.default(tensor, device=META)
    keep_real(moved)
    return moved


def adopt(tensor: torch.Tensor, dispatch: Dispatch) -> Any:
    """A plain tensor moved to the virtual device, where it is a leaf of autograd; on a Mac this is a copy."""
    spec = spec_of(tensor)
    dispatch.record_transfer(tensor)
    on_cpu = tensor.device.type == "cpu" and type(tensor) not in without_data
    known = on_cpu and tensor.layout is torch.strided and spec.shadow_cost <= dispatch.shadow_limit
    shadow = tensor.detach().clone() if known else None
    with undispatched():
        return virtual_tensor(spec, shadow, tensor.requires_grad and tensor.is_leaf)


def _placed(tensor: torch.Tensor, dispatch: Dispatch) -> Any:
    spec = spec_of(tensor)
    with undispatched():
        return virtual_tensor(spec, tensor if spec.shadow_cost <= dispatch.shadow_limit else None)


def _factory(original: Any, dispatch: Dispatch) -> Any:
    def make(data: Any, *args: Any, **kwargs: Any) -> Any:
        asked = kwargs.get("device")
        target = _default_device() if asked is None else torch.device(asked)
        if type(data) is VirtualTensor:
            kwargs.pop("requires_grad", None)
            return data.to(target if asked is not None else stands_for.device, kwargs.get("dtype") or data.dtype)
        if target.type != stands_for.type:
            return original(_bare(data), *args, **kwargs)
        on_cpu = original(_bare(data), *args, **{**kwargs, "device": CPU})
        return (adopt if kwargs.get("requires_grad") else _moved)(on_cpu, dispatch)

    make.__name__ = original.__name__
    return make


def _default_device() -> torch.device:
    """Of ``with torch.device(…)``; ``torch.get_default_device`` itself calls ``torch.tensor``."""
    modes = reversed(_get_current_function_mode_stack())
    return next((mode.device for mode in modes if isinstance(mode, DeviceContext)), CPU)


def _bare(data: Any) -> Any:
    """Lists of virtual scalars as numbers: C++ would read their (absent) data."""
    if type(data) is VirtualTensor:
        return data.cpu()
    if isinstance(data, (list, tuple)) and any(isinstance(item, (VirtualTensor, list, tuple)) for item in data):
        return type(data)(item.tolist() if type(item) is VirtualTensor else _bare(item) for item in data)
    return data
