"""Tensors on the CPU together with tensors on the device, where a kernel wants all of them on the device.

An operator with one argument on the device goes to the kernel of the device. On MPS no generated code compares the
devices before that (``common_device_check_failure`` is called from nowhere in the macOS libraries of 2.7.0 to 2.13.0);
the kernel raises where it asks for the memory of a tensor: ``Placeholder`` ("Placeholder storage has not been allocated
on MPS device!", every release) and ``mtl_setBuffer`` ("Passed CPU tensor to MPS op", from 2.7 on), or before that where
a ``TensorIterator`` or a check of its own asks ("Expected all tensors to be on the same device"). A tensor of no
dimensions is taken for a number. One without elements may be skipped, so it is not judged. A generator of the CPU
raises in ``check_generator`` (``aten/src/ATen/core/Generator.h``).
"""

from __future__ import annotations

import torch

from mpsprobe_coverage.knowledge.calls.call import Call
from mpsprobe_coverage.knowledge.calls.spec import tensors_in
from mpsprobe_coverage.knowledge.judging.judgement import Judgement, Rule, refused
from mpsprobe_coverage.knowledge.kernels.table import KernelTable

# ``make_info`` in native/TensorAdvancedIndexing.cpp moves indices to the device of what they index;
# ``masked_select_out_mps_impl`` indexes with its mask (disassembled in 1.13.1 and 2.13.0).
_MOVED = {
    **dict.fromkeys(("index", "_unsafe_index", "index_put", "_unsafe_index_put", "_index_put_impl"), "indices"),
    "masked_select": "mask",
}
# Arguments in words of who calls an operator from Python, where none is called ``self``.
_OPERANDS = {
    "self": "the first tensor of {}",
    **dict.fromkeys(("other", "mat2", "batch2", "vec2"), "the second tensor of {}"),
}
_OF_INDEXING = {"self": "the tensor that is indexed (x of x[i])", "values": "the value (v of x[i] = v)"}
# Copies are between devices; lists of optimizers are taken apart where devices differ (``can_use_fast_route``).
_ANY_DEVICE = ("copy", "_to_copy", "_copy_from", "_copy_from_and_resize", "_foreach_", "_fused_", "_amp_foreach_")


def rules_of(operator: str, table: KernelTable) -> tuple[Rule, ...]:
    name = operator.partition("::")[2].partition(".")[0]
    base = name.removesuffix("_")
    if base in _ANY_DEVICE or name.startswith(_ANY_DEVICE[-3:]):
        return ()
    return (Rule("devices", _refuse, (table.backend.label, _MOVED.get(base), name)),)


def _refuse(call: Call, label: str, moved: str | None, name: str) -> Judgement | None:
    """A tensor of one dimension or more on the CPU, but for the argument ``moved``."""
    if call.cpu_generator:
        reason = f"the random generator is on the CPU, and what it draws is on {label}"
        return refused(reason, source="device", evidence="check_generator in ATen/core/Generator.h")
    on_the_cpu = [_is_on_the_cpu(tensor) for tensor in tensors_in((call.args, dict(call.kwargs)))]
    if not any(on_the_cpu) or all(on_the_cpu) or not any(spec.numel for spec in call.outputs):
        return None
    for argument in call.func._schema.arguments:
        tensors = [] if argument.name == moved else tensors_in([call.argument(argument.name)])
        for tensor in tensors:
            if _is_on_the_cpu(tensor) and tensor.dim() and tensor.numel():
                names = _OF_INDEXING if moved == "indices" else _OPERANDS
                named = names.get(argument.name, f"'{argument.name}' of {{}}").format(name)
                reason = f"{named} is on the CPU, and other tensors are on {label}"
                judgement = refused(reason, source="device", evidence="Expected all tensors to be on the same device")
                return judgement._replace(made_at=getattr(tensor, "made_at", None))
    return None


def _is_on_the_cpu(tensor: torch.Tensor) -> bool:
    """A tensor that was asked for on the device while the model was built is real, and marked (``Construction``)."""
    return tensor.device.type == "cpu" and not getattr(tensor, "placed", False)
