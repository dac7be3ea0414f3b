"""A model in half precision, but for some modules in float32: the code that reports show is the code that was tried."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch.utils._pytree import tree_map


def in_dtype(values: Any, dtype: torch.dtype) -> Any:
    return tree_map(lambda one: one.to(dtype) if torch.is_tensor(one) and one.is_floating_point() else one, values)


def keep_in_float32(model: torch.nn.Module, dtype: torch.dtype, keep: dict[str, bool]) -> None:
    """Put a float32 model into dtype, but for the modules in keep; True: what one puts out is beyond that range."""
    kept = {name: model.get_submodule(name) for name in keep}
    inside = {id(one) for module in kept.values() for one in module.modules()}
    wide = {id(one) for module in kept.values() for one in (*module.parameters(), *module.buffers())}
    for one in (*model.parameters(), *model.buffers()):
        if one.is_floating_point() and id(one) not in wide:
            one.data = one.data.to(dtype)
    for name, module in kept.items():
        module.register_forward_pre_hook(lambda _, *given: in_dtype(given, torch.float32), with_kwargs=True)
        if not keep[name]:
            module.register_forward_hook(lambda _, args, output: in_dtype(output, dtype))
    for module in model.modules() if any(keep.values()) else ():
        if id(module) not in inside and not any(module.children()):
            module.register_forward_pre_hook(lambda _, *given: in_dtype(given, dtype), with_kwargs=True)


def snippet(dtype: torch.dtype, keep: dict[str, bool]) -> str:
    """That code, for the model called ``model``."""
    imports = "from typing import Any\nimport torch\nfrom torch.utils._pytree import tree_map\n"
    sources = inspect.getsource(in_dtype), inspect.getsource(keep_in_float32)
    return "\n\n".join([imports, *sources, f"keep_in_float32(model, {dtype}, {keep})\n"])
