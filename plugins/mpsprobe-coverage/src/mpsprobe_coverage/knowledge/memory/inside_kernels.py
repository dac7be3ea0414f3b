"""What MPS's kernels allocate besides their results, where PyTorch's sources say it; freed before the call ends.

Established from ``aten/src/ATen/native/mps``:

- ``operations/Convolution.mm``: a convolution of five dimensions makes its input contiguous first.
- ``operations/Attention.mm``: attention allocates the scores of all heads as its second result, and they are counted as
  such. Inside its graph there are more of them, in float32, masked, and after the softmax; those are MPSGraph's. From
  2.13 on, queries of more than 8 tokens go through one kernel without scores (``sdpa_prefill_mps``, pytorch#181575),
  which returns its output twice. The widths of heads are those in the names of its kernels, alike in 2.13.0 to 2.15.0.
- ``OperationUtils.mm``, ``Placeholder``: before macOS 15 a graph takes contiguous tensors alone, and others are copied
  for it. From macOS 15 on it takes strides. Kernels in Metal always do, and which operators are one is not known here.
- ``aten/src/ATen/native/CPUFallback.cpp``: a fallback copies its arguments and results, in the memory of the CPU.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from packaging.version import Version

from mpsprobe_coverage.knowledge.calls.spec import Specs, is_contiguous
from mpsprobe_coverage.knowledge.memory.lifetimes import Event, Made

STRIDES_SINCE = Version("15.0")
_CONVOLUTIONS = frozenset(["aten::_mps_convolution", "aten::convolution_overrideable"])
_ATTENTION = "aten::_scaled_dot_product_attention_math_for_mps"
PREFILL_SINCE, PREFILL_LONGER_THAN = "2.13", 8
_PREFILL_WIDTHS = frozenset([32, 64, 72, 80, 96, 128, 256])
_PREFILL_DTYPES = frozenset([torch.float32, torch.float16, torch.bfloat16])
_ALWAYS = "what Metal and MPSGraph allocate for themselves: compiled graphs, and what is computed inside one"


def bytes_inside(call: Made) -> int:
    """Bytes of buffers that the kernel of ``call`` makes for itself, at most at one time."""
    if call.operator in _CONVOLUTIONS and call.inputs and len(call.inputs[0].shape) == 5:
        return 0 if is_contiguous(call.inputs[0]) else call.inputs[0].nbytes
    return 0


def is_prefill(operator: str, inputs: Specs) -> bool:
    """Whether a call, of 2.13 or later, is attention in one kernel: it has no scores, and returns its output twice."""
    if operator != _ATTENTION or len(inputs) < 3:
        return False
    query, key, value = inputs[:3]
    width, masks = query.shape[-1], {mask.dtype for mask in inputs[3:]}
    return (
        query.dtype in _PREFILL_DTYPES
        and width == value.shape[-1]
        and width in _PREFILL_WIDTHS
        and query.shape[-2] > PREFILL_LONGER_THAN
        and key.shape[-2] > 0
        and masks <= {torch.bool, query.dtype}
    )


def not_counted(events: Iterable[Event], macos: str | None) -> list[tuple[str, int | None]]:
    """What takes memory and is in no figure, in words; with bytes of the call that makes most of it, where known.

    ``macos``: the one that is asked about; None is a new one.
    """
    attention = fallback = strided = 0
    gathers = macos is not None and Version(macos) < STRIDES_SINCE
    for event in events:
        if type(event) is not Made:
            continue
        if event.verdict == "fallback":
            fallback = max(fallback, sum(spec.nbytes for spec in (*event.inputs, *event.outputs)))
        elif event.operator == _ATTENTION and len(event.outputs) > 1:
            attention = max(attention, event.outputs[1].numel * 4)
        if gathers and event.verdict == "native":
            strided = max(strided, sum(spec.nbytes for spec in event.inputs if not is_contiguous(spec)))
    uncounted: list[tuple[str, int | None]] = [(_ALWAYS, None)]
    if attention:
        uncounted.append(("scores in float32 inside the graph of attention, for each of its steps", attention))
    if fallback:
        uncounted.append(("copies that a CPU fallback makes, in the memory of the CPU", fallback))
    if strided:
        uncounted.append(("contiguous copies of a graph's strided inputs, before macOS 15", strided))
    return uncounted
