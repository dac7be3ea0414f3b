"""Ranks with which a kernel fails inside Apple's frameworks, mostly by ending the process: nothing can be caught.

No message of the library says so, so each entry has the thread that reports it. From when to when it holds was read in
the macOS libraries of 1.12.1 to 2.15.0: which functions call the method of MPSGraph that asserts (its selector), and
from which release on the code has the condition that its fix brings. A fix that is not there in the code is no fix.

Axes that MPSGraph cannot sort, scan or reduce along are counted from the last one; the first four of those are fine.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from mpsprobe_coverage.knowledge.calls.call import Call
from mpsprobe_coverage.knowledge.judging.conditions import Condition, has
from mpsprobe_coverage.knowledge.judging.left_to_cpu import SVD_ELEMENTS, THREADGROUP_MEMORY, matrices, staged_bytes

_RANK = 4
_INVERSE = 1024
_TRANSFORMED = "ends the process: MPSGraph asserts that a Fourier transform is along the last four dimensions"
_AXIS = "ends the process: {} asserts that the axis is one of the last four"
_REDUCED = "ends the process: MPSGraph asserts that a reduced axis is one of the last four"
_BUFFER = "ends the process: MPSNDArray asserts that its buffer is large enough, which is one of fewer elements"
_RANGE = "raises IndexError: a negative dim counts from the fourth dimension"
_VOLUME = "ends the process: MPSNDArray asserts that a matrix of five dimensions keeps its volume"
_INVERTED = "ends the process: MPSNDArray asserts that what it inverts has a third dimension"
_AXES = "ends the process: MPSGraph asserts that the axes of a mean are there"
_MULTIPLIED = (
    "ends the process: MPSGraph infers no shape of a product, of tensors without four dimensions or of other heads"
)
_ATTENTION = ("_scaled_dot_product_attention_math_for_mps",)
_COMPILED = "raises: the Metal compiler does not take the kernel, for a barrier whose scope is not a constant"


def _distant(call: Call) -> bool:
    """Whether ``dim`` is none of the last four dimensions."""
    shape, dim = call.inputs[0].shape, call.argument("dim")
    return call.inputs[0].numel > 0 and len(shape) > _RANK and dim % len(shape) < len(shape) - _RANK


def _along(kernel: str) -> Callable[[Call], str | None]:
    def why(call: Call) -> str | None:
        return _AXIS.format(kernel) if has(call, "dim") and _distant(call) else None

    return why


def _sorted_in_2_12(call: Call) -> str | None:
    """What has one element along the axis is copied."""
    reason = _along("MPSNDArraySort")(call)
    return reason if reason is not None and call.inputs[0].shape[call.argument("dim")] > 1 else None


def _top(call: Call) -> str | None:
    return _along("MPSNDArraySort")(call) if call.argument("k") else None


def _any_or_all(call: Call) -> str | None:
    spec = call.inputs[0]
    fails = _distant(call) if has(call, "dim") else spec.numel > 0 and len(spec.shape) > _RANK
    return _REDUCED if fails else None


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
        return _RANGE
    left, wanted = (math.prod(size for i, size in enumerate(shape) if i not in axes) for axes in (meant, reduced))
    return _BUFFER if left > wanted else None


def _far_transform(call: Call) -> str | None:
    spec, dims = call.inputs[0], call.argument("dim")
    rank = len(spec.shape)
    return _TRANSFORMED if spec.numel > 0 and any(dim % rank < rank - _RANK for dim in dims) else None


def _linear(call: Call) -> str | None:
    """The kernel flattens its input itself where there is a bias and the second size is up to 32."""
    shape = call.inputs[0].shape
    flattened = call.argument("bias") is not None and 1 <= shape[1] <= 32 if len(shape) > 1 else False
    return _VOLUME if len(shape) > _RANK and shape[0] > 1 and not flattened else None


def _inverse(call: Call) -> str | None:
    """The assertion is about one matrix without a batch."""
    shape = call.inputs[0].shape
    return _INVERTED if len(shape) == 2 and shape[0] > _INVERSE else None


def _svd(call: Call) -> str | None:
    spec = matrices(call)
    computed = spec is not None and spec.numel >= SVD_ELEMENTS and staged_bytes(spec) <= THREADGROUP_MEMORY
    return _COMPILED if computed else None


def _squeezed_loss(call: Call) -> str | None:
    shape = call.inputs[0].shape
    return _AXES if call.argument("reduction") and 1 in shape and call.inputs[0].numel > 1 else None


def _attention(call: Call) -> str | None:
    """The kernel swaps the third and the fourth dimension of the keys, and has a product broadcast the heads."""
    query, key = call.inputs[:2]
    heads = {query.shape[-3], key.shape[-3]} if len(query.shape) > 3 else set()
    if not query.numel or (len(query.shape) == 4 and (len(heads) == 1 or 1 in heads)):
        return None
    return _MULTIPLIED


_SCANNED = "pytorch issues 154881, 184844, 187105; mended by PR 185609"
_SORTED = "pytorch issues 184844, 187105; MPSGraph no longer sorts from 2.13.0 on"
_ALL_MENDED = "mended by PR 130542"


RANKS: tuple[Condition, ...] = (
    # UnaryOps.mm, cumulative_op_impl: cumulativeSumWithTensor, cumulativeProductWithTensor; metal from 2.13 on
    Condition(("cumsum",), _along("MPSNDArrayScan"), _SCANNED, "2.0.0", "2.12.1", macos="15.0"),
    Condition(("cumprod",), _along("MPSNDArrayScan"), _SCANNED, "2.1.0", "2.12.1", macos="15.0"),
    # Sort.mm: sortWithTensor, argSortWithTensor; topk raises from 2.8 on (size.py)
    Condition(("sort", "argsort"), _along("MPSNDArraySort"), _SORTED, "2.0.0", "2.11.0", macos="15.0"),
    Condition(("sort", "argsort"), _sorted_in_2_12, _SORTED, "2.12.0", "2.12.1", macos="15.0"),
    Condition(
        ("topk",), _top, "pytorch issue 154890; raises from 2.8.0 on (PR 155475)", "2.0.0", "2.7.1", macos="15.0",
    ),
    # ReduceOps.mm: median_out_mps; all_any_common_impl_mps, which reshapes from 2.5 on; reduction_out_mps
    Condition(
        ("median", "nanmedian"), _along("MPSNDArraySort"),
        "pytorch issues 187016, 191694; the kernel no longer sorts from 2.14.0 on", "2.0.0", "2.13.0", macos="15.0",
    ),
    Condition(("all",), _any_or_all, f"pytorch issue 95538; {_ALL_MENDED}", "2.0.0", "2.4.1"),
    Condition(("any",), _any_or_all, f"pytorch issues 136134, 129960; {_ALL_MENDED}", "2.0.0", "2.4.1", macos="14.0"),
    Condition(
        ("sum", "nansum", "mean", "prod", "amax", "amin", "count_nonzero"), _squeezed,
        "pytorch issues 136132, 132732; came with PR 99856, mended by PR 136198", "2.1.0", "2.4.1",
    ),
    # FastFourierTransform.mm; from 2.14 on computeFFTAxisPlan permutes the dimensions
    Condition(
        ("_fft_c2c", "_fft_r2c", "_fft_c2r"), _far_transform,
        "pytorch issues 186885, 188864; mended by PR 186967", "2.3.0", "2.13.0", macos="14.0",
    ),
    # Linear.mm, _mps_linear
    Condition(("linear",), _linear, "pytorch issue 114942; mended by PR 117837", "2.0.0", "2.2.2"),
    # LinearAlgebra.mm, linalg_inv_ex_out_mps: inverseOfTensor; solves from 2.8 on
    Condition(
        ("linalg_inv_ex",), _inverse, "pytorch issues 101251, 138200; mended by PR 146754", "2.0.0", "2.7.1",
        macos="13.3",
    ),
    # LinearAlgebra.metal, svd_jacobi: the scope of its barrier is a value in 2.14.0 and two constants from 2.14.1 on
    Condition(
        ("_linalg_svd", "linalg_lstsq"), _svd, "pytorch issues 192802, 195937; mended by PR 195949", "2.14.0", "2.14.0"
    ),
    # LossOps.mm, bce_loss_out_impl: reduces the axes of its input, of which it has squeezed those of one element
    Condition(("binary_cross_entropy",), _squeezed_loss, "pytorch issue 81584", "1.12.0", "1.12.1"),
    # Attention.mm: ensure_4d from 2.7.0 on
    Condition(
        _ATTENTION, _attention, "pytorch issues 147443, 149132; mended by PRs 146623, 147545", "2.5.0", "2.6.0"
    ),
)  # fmt: skip
