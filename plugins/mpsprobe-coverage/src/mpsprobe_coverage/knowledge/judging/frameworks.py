"""Calls that fail inside Apple's frameworks, as users report: by their ranks, dtypes and sizes. Most end the process.

Here are those that the words of advisories cannot say; the others are entries of ``advisories/data`` with an effect.

No message of the library says so, so each entry has the thread that reports it. From when to when it holds was read in
the macOS libraries of 1.12.1 to 2.15.0: which functions call the method of MPSGraph that asserts (its selector), and
from which release on the code has the condition, cast or check that its fix brings. A fix that is not there in the code
is no fix.

- Axes that MPSGraph cannot sort, scan or reduce along are counted from the last one; the first four of those are fine.
- MPSGraph infers the type of each result when the graph is made, and gives up where it cannot ("LLVM ERROR: Failed to
  infer result type(s)"). Kernels cast what they hand it (``castMPSTensor``), but for those that are here.
- An MPSGraph's arrays have limits, which also hold for what it keeps between. What a kernel only hands to a graph and
  takes from it is judged by what the library shows (``graphs.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from mpsprobe_coverage.knowledge.calls.call import Call
from mpsprobe_coverage.knowledge.calls.spec import dtype_name, tensors_in
from mpsprobe_coverage.knowledge.judging.conditions import (
    BOOL,
    COMPLEX,
    INTEGRAL,
    LONG,
    Condition,
    Conditions,
    Dtypes,
    has,
)
from mpsprobe_coverage.knowledge.judging.judgement import ENDS
from mpsprobe_coverage.knowledge.judging.left_to_cpu import SVD_ELEMENTS, THREADGROUP_MEMORY, matrices, staged_bytes
from mpsprobe_coverage.knowledge.judging.size import SIZES

Why = Callable[[Call], str | None]
_RANK = 4
_LIMIT = 1 << 32
_HALF = frozenset({torch.float16, torch.bfloat16})
_ATTENTION = "_scaled_dot_product_attention_math_for_mps"
_BATCH_NORMS = "native_batch_norm _native_batch_norm_legit _batch_norm_with_update"
_BYTES = ENDS + "MPSNDArray asserts that it has no more than 2**32 bytes, and {} has"
_ENTRIES: list[Condition] = []


def _entry(operators: str, evidence: str, first: str, before: str | None = None, **more: Any) -> Callable[[Why], Why]:

    def add(why: Why) -> Why:
        _ENTRIES.append(Condition(operators, why, evidence, first, before, **more))
        return why

    return add


# -- ranks


def _distant(call: Call) -> bool:
    """Whether ``dim`` is none of the last four dimensions."""
    shape, dim = call.inputs[0].shape, call.argument("dim")
    return call.inputs[0].numel > 0 and len(shape) > _RANK and dim % len(shape) < len(shape) - _RANK


def _along(kernel: str) -> Why:
    reason = f"{ENDS}{kernel} asserts that the axis is one of the last four"
    return lambda call: reason if has(call, "dim") and _distant(call) else None


_scanned, _sorted = _along("MPSNDArrayScan"), _along("MPSNDArraySort")
_SCANNED = "pytorch issues 154881, 184844, 187105; mended by PR 185609"
_SORTED = "pytorch issues 184844, 187105; MPSGraph no longer sorts from 2.13.0 on"
_UNSORTED = "pytorch issues 187016, 191694; the kernel no longer sorts from 2.14.0 on"

# UnaryOps.mm, cumulative_op_impl: cumulativeSumWithTensor, cumulativeProductWithTensor; metal from 2.13 on
_entry("cumsum", _SCANNED, "2.0.0", "2.13.0", macos="15.0")(_scanned)
_entry("cumprod", _SCANNED, "2.1.0", "2.13.0", macos="15.0")(_scanned)
# Sort.mm: sortWithTensor, argSortWithTensor
_entry("sort argsort", _SORTED, "2.0.0", "2.12.0", macos="15.0")(_sorted)
# ReduceOps.mm: median_out_mps
_entry("median nanmedian", _UNSORTED, "2.0.0", "2.14.0", macos="15.0")(_sorted)


@_entry("sort argsort", _SORTED, "2.12.0", "2.13.0", macos="15.0")
def _sorted_in_2_12(call: Call) -> str | None:
    """What has one element along the axis is copied."""
    reason = _sorted(call)
    return reason if reason is not None and call.inputs[0].shape[call.argument("dim")] > 1 else None


# It raises from 2.8 on (size.py).
@_entry("topk", "pytorch issue 154890; raises from 2.8.0 on (PR 155475)", "2.0.0", "2.8.0", macos="15.0")
def _top(call: Call) -> str | None:
    return _sorted(call) if call.argument("k") else None


# ReduceOps.mm: all_any_common_impl_mps, which reshapes from 2.5 on
@_entry("all", "pytorch issue 95538; mended by PR 130542", "2.0.0", "2.5.0")
@_entry("any", "pytorch issues 136134, 129960; mended by PR 130542", "2.0.0", "2.5.0", macos="14.0")
def _any_or_all(call: Call) -> str | None:
    spec = call.inputs[0]
    fails = _distant(call) if has(call, "dim") else spec.numel > 0 and len(spec.shape) > _RANK
    return f"{ENDS}MPSGraph asserts that a reduced axis is one of the last four" if fails else None


@_entry(
    "sum nansum mean prod amax amin count_nonzero",
    "pytorch issues 136132, 132732; came with PR 99856, mended by PR 136198",
    "2.1.0",
    "2.5.0",
)
def _squeezed(call: Call) -> str | None:
    """``reduction_out_mps`` drops dimensions of one element from the fifth on, and takes negative dims as they are."""
    shape = call.inputs[0].shape
    given = call.argument("dim") if has(call, "dim") else None
    dims = [given] if isinstance(given, int) else list(given or ())
    reduced = {dim % len(shape) for dim in dims} if len(shape) > _RANK else set()
    if not reduced or max(reduced) >= _RANK or min(dims) >= 0 or math.prod(shape[_RANK:]) != 1 or 0 in shape:
        return None
    meant = {dim if dim >= 0 else _RANK + dim for dim in dims}
    if min(meant) < 0:
        return "raises IndexError: a negative dim counts from the fourth dimension"
    left, wanted = (math.prod(size for i, size in enumerate(shape) if i not in axes) for axes in (meant, reduced))
    if left <= wanted:
        return None
    return f"{ENDS}MPSNDArray asserts that its buffer is large enough, which is one of fewer elements"


# FastFourierTransform.mm; from 2.14 on computeFFTAxisPlan permutes the dimensions
_TRANSFORMED = "pytorch issues 186885, 188864; mended by PR 186967"


@_entry("_fft_c2c _fft_r2c _fft_c2r", _TRANSFORMED, "2.3.0", "2.14.0", macos="14.0")
def _far_transform(call: Call) -> str | None:
    spec, dims = call.inputs[0], call.argument("dim")
    rank = len(spec.shape)
    if not spec.numel or all(dim % rank >= rank - _RANK for dim in dims):
        return None
    return f"{ENDS}MPSGraph asserts that a Fourier transform is along the last four dimensions"


# Linear.mm, _mps_linear
@_entry("linear", "pytorch issue 114942; mended by PR 117837", "2.0.0", "2.3.0")
def _linear(call: Call) -> str | None:
    """The kernel flattens its input itself where there is a bias and the second size is up to 32."""
    shape = call.inputs[0].shape
    if len(shape) <= _RANK or shape[0] <= 1 or (call.argument("bias") is not None and 1 <= shape[1] <= 32):
        return None
    return f"{ENDS}MPSNDArray asserts that a matrix of five dimensions keeps its volume"


# LinearAlgebra.metal, svd_jacobi: the scope of its barrier is a value in 2.14.0 and two constants from 2.14.1
# on; compilers of other macOS took it (the figures of PR 185954, issue 196112). Seen on 26.5.1 and 26.6.1.
@_entry("_linalg_svd linalg_lstsq", "pytorch issues 192802, 195937; PR 195949", "2.14.0", "2.14.1", macos="26.5")
def _svd(call: Call) -> str | None:
    spec = matrices(call)
    if spec is None or spec.numel < SVD_ELEMENTS or staged_bytes(spec) > THREADGROUP_MEMORY:
        return None
    return "raises: the Metal compiler does not take the kernel, for a barrier whose scope is not a constant"


# LossOps.mm, bce_loss_out_impl: reduces the axes of its input, of which it has squeezed those of one element
@_entry("binary_cross_entropy", "pytorch issue 81584", "1.12.0", "1.13.0", macos="12.3")
def _squeezed_loss(call: Call) -> str | None:
    spec = call.inputs[0]
    fails = call.argument("reduction") and 1 in spec.shape and spec.numel > 1
    return f"{ENDS}MPSGraph asserts that the axes of a mean are there" if fails else None


# Attention.mm: ensure_4d from 2.7.0 on
@_entry(_ATTENTION, "pytorch issues 147443, 149132; mended by PRs 146623, 147545", "2.5.0", "2.7.0")
def _attention(call: Call) -> str | None:
    """The kernel swaps the third and the fourth dimension of the keys, and has a product broadcast the heads."""
    query, key = call.inputs[:2]
    heads = {query.shape[-3], key.shape[-3]} if len(query.shape) > 3 else set()
    if not query.numel or (len(query.shape) == 4 and (len(heads) == 1 or 1 in heads)):
        return None
    return f"{ENDS}MPSGraph infers no shape of a product, of tensors without four dimensions or of other heads"


# -- dtypes


def _two(first: str, second: str) -> str:
    return f"{ENDS}MPSGraph infers no type for an operation on {first} and {second}"


def _differ(*names: str) -> Why:
    """Of these arguments, those that are tensors of one dimension or more have two dtypes."""

    def why(call: Call) -> str | None:
        specs = [call.spec(name) for name in names if has(call, name)]
        dtypes = dict.fromkeys(spec.dtype for spec in specs if spec is not None and spec.shape and spec.numel)
        return _two(*[dtype_name(dtype) for dtype in dtypes][:2]) if len(dtypes) > 1 else None

    return why


def _lacks(operation: str, dtypes: Dtypes, argument: str = "self") -> Why:
    def why(call: Call) -> str | None:
        spec = call.spec(argument)
        if spec is None or not spec.numel or spec.dtype not in dtypes:
            return None
        return f"{ENDS}MPSGraph has no {operation} for {dtype_name(spec.dtype)}"

    return why


# Distributions.mm, bernoulli_mps_impl
@_entry("bernoulli", "pytorch issue 100717; mended by PR 100946", "2.0.0", "2.1.0")
def _bernoulli(call: Call) -> str | None:
    """Random numbers of float32 are compared with a probability of the result's dtype."""
    integral = (spec.dtype for spec in call.outputs[:1] if spec.numel and spec.dtype in INTEGRAL)
    return next((_two("float32", dtype_name(dtype)) for dtype in integral), None)


# Eye.mm, eye_out_mps: a constant of the result's dtype; of float32 on macOS 12 from 2.1 on
@_entry("eye", "pytorch issue 91620; mended by PR 97027", "1.13.0", "2.1.0", macos="12.3", macos_before="13.0")
def _eye(call: Call) -> str | None:
    truth = bool(call.outputs) and call.outputs[0].dtype is torch.bool and call.outputs[0].numel > 0
    return f"{ENDS}MPSGraph of macOS 12 has no constant of bool" if truth else None


# TensorCompare.mm, clamp_mps_graph
_entry("clamp clamp_min clamp_max", "mended by pytorch PR 105747", "2.0.0", "2.1.0")(_differ("self", "min", "max"))
# Normalization.mm: batch_norm_mps_out, which layer_norm_mps calls, too; layer_norm_backward_mps
_WITH_VARIANCE = f"native_layer_norm {_BATCH_NORMS}"


@_entry(_WITH_VARIANCE, "pytorch issue 96113, ChatGLM-6B issue 951", "2.0.0", "2.1.0", dtypes=_HALF)
def _variance(call: Call) -> str | None:
    """``eps`` is a constant of float32, which is added to the variance; it is not where running statistics are used."""
    spec = call.inputs[0]
    computes = not has(call, "training") or call.argument("training")
    return _two(dtype_name(spec.dtype), "float32") if computes and spec.numel and spec.dtype in _HALF else None


_entry(_BATCH_NORMS, "pytorch issues 154887, 178770; mended by PR 178775", "2.0.0", "2.12.0")(
    _differ("input", "weight", "bias", "running_mean", "running_var")
)
_entry(_BATCH_NORMS, "pytorch issue 188243; mended by PR 188265", "2.0.0", "2.13.0", dtypes=BOOL)(
    _lacks("normalization", BOOL, "input")
)
_entry("native_layer_norm_backward", "mended by pytorch PR 190055", "2.0.0", "2.14.0")(_differ("input", "weight"))
# LossOps.mm: nllnd_loss_backward_impl; mse_loss_out_mps, which raises from 2.6 on
_entry("nll_loss_backward nll_loss2d_backward", "mended by pytorch PR 144170", "2.0.0", "2.7.0")(
    _differ("self", "weight")
)
_entry("mse_loss", "pytorch issues 114532, 139723; mended by PR 139960", "2.0.0", "2.6.0", dtypes=LONG)(
    _lacks("square", LONG)
)
# ReduceOps.mm: amax_out_mps and its like, which raise from 2.10 on
_entry("amax amin aminmax max min", "mended by pytorch PR 166214", "2.1.0", "2.10.0", dtypes=COMPLEX)(
    _lacks("reduction", COMPLEX)
)


# BinaryOps.mm, add_sub_lerp_template
@_entry("add sub", "pytorch issue 143932", "2.4.0", "2.6.0")
def _scaled(call: Call) -> str | None:
    """``alpha`` is multiplied with the second operand before that is cast."""
    return _differ("self", "other")(call) if has(call, "alpha") and call.argument("alpha") != 1 else None


# BinaryKernel.mm, binary_mps_impl
@_entry("fmax fmin", "pytorch issue 143933; mended by PRs 143934, 144055", "2.4.0", "2.6.0")
def _number_on_cpu(call: Call) -> str | None:
    tensors = tensors_in(list(map(call.argument, ("self", "other"))))
    if all(tensor.dim() or tensor.device.type != "cpu" for tensor in tensors):
        return None
    return f"{ENDS}the Metal kernel reads a number on the CPU as memory of the device"


# -- sizes


# Attention.mm; the scores are none of its tensors, so calls with small ones are asked about, too
@_entry(_ATTENTION, "pytorch issue 149261", "2.5.0", "2.8.0", macos="15.0")
def _scores(call: Call) -> str | None:
    query, key = call.inputs[:2]
    if len(query.shape) < 2 or not query.shape[-1]:
        return None
    scores = query.nbytes // query.shape[-1] * key.shape[-2]
    return _BYTES.format("the matrix of scores") if scores > _LIMIT else None


# LinearAlgebra.mm, bmm_out_mps_impl: computes in tiles from 2.5 on, of whole entries of the batch
@_entry("bmm", "pytorch issues 141909, 171026", "2.5.0", "2.6.0")
def _large_entry(call: Call) -> str | None:
    shape = call.outputs[0].shape if call.outputs else ()
    if len(shape) != 3 or shape[1] * shape[2] < _LIMIT:
        return None
    return "raises: Output size of the matrix multiplication is larger than currently supported by the MPS backend"


FRAMEWORKS = Conditions("frameworks", "unsupported", "issue", tuple(_ENTRIES), sizes=SIZES, reported=True)
rules_of = FRAMEWORKS.rules_of
