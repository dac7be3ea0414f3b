"""Sizes that kernels refuse, judged from the shapes and arguments of a call.

The messages are guards like those of ``guard.py``; files are those of aten/src/ATen/native/mps/operations unless they
say otherwise. What only an older macOS refuses is in ``macos.py``: since 2.6.0 convolutions with more than
65536 output channels (before macOS 15.1).
"""

from __future__ import annotations

from collections.abc import Callable

from mpsprobe_coverage.knowledge.calls.call import Call
from mpsprobe_coverage.knowledge.judging.conditions import Conditions
from mpsprobe_coverage.knowledge.judging.guard import guard, sentence

_2_TO_32 = 1 << 32
_INT_MAX = (1 << 31) - 1


def _pool(*, mixed: bool = False, shrinking: bool = False, growing: bool = False) -> Callable[[Call], bool]:
    """``set_kernel_params`` of AdaptivePooling.mm: what it makes of an input and an output of two sizes each.

    Args:
        mixed: refuse an output that is larger one way and smaller the other.
        shrinking, growing: refuse sizes that do not divide, where the output is smaller, or larger.
    """

    def refuses(call: Call) -> bool:
        sizes = _pooled(call)
        if all(read >= made for read, made in sizes):
            return shrinking and any(read % made for read, made in sizes)
        if all(read <= made for read, made in sizes):
            return growing and any(made % read for read, made in sizes)
        return mixed

    return refuses


def _pooled(call: Call) -> list[tuple[int, int]]:
    """(input, output) in the last two dimensions; empty where there is nothing to pool."""
    names = [argument.name for argument in call.func._schema.arguments]
    source = call.spec("self")
    grad = call.spec("grad_output") if "grad_output" in names else None
    out = grad.shape[-2:] if grad is not None else call.argument("output_size") if "output_size" in names else ()
    if source is None or len(out) != 2 or len(source.shape) < 3 or 0 in (*source.shape[-2:], *out):
        return []
    return list(zip(source.shape[-2:], map(int, out), strict=True))


def _has_size_above(limit: int) -> Callable[[Call], bool]:
    """Of the first result."""
    return lambda call: any(size > limit for spec in call.outputs[:1] for size in spec.shape)


def _elements(limit: int) -> Callable[[Call], bool]:
    """The argument ``self`` has ``limit`` elements or more."""

    def refuses(call: Call) -> bool:
        source = call.spec("self")
        return source is not None and source.numel >= limit

    return refuses


def _is_pooled_in_steps(call: Call) -> bool:
    """``mps_max_pool2d`` makes a graph where the windows lie side by side, and asks no such thing there."""
    return _elements(_INT_MAX)(call) and set(call.argument("stride") or call.argument("kernel_size")) != {1}


def _is_large_embedding(call: Call) -> bool:
    """More indices, or elements in a gradient, than an int counts; the kernel asks once it knows that none is empty."""
    grad, indices = call.inputs[:2]
    size, rows = grad.shape[-1], call.argument("num_weights")
    elements = (indices.numel, indices.numel * size, rows * size)
    return 0 not in elements and max(elements) > _INT_MAX


def _is_far_from_the_last(call: Call) -> bool:
    source = call.inputs[0]
    dimensions = len(source.shape)
    return dimensions > 4 and source.numel > 0 and dimensions - call.argument("dim") % dimensions > 4


_AVG = "_adaptive_avg_pool2d adaptive_avg_pool2d _adaptive_avg_pool2d_backward"
_MAX = "adaptive_max_pool2d adaptive_max_pool2d_backward"
_POOLS = "max_pool2d_with_indices max_pool3d_with_indices adaptive_max_pool2d"
_OTHER_POOLS = """
    avg_pool2d avg_pool3d avg_pool3d_backward
    max_pool2d_with_indices_backward max_pool3d_with_indices_backward adaptive_max_pool2d_backward
"""
# What calls reduction_dispatch_mps, norm_kernel_mps or argmax_argmin_out_mps, and what does so from 2.15.0 on.
_REDUCTIONS = """
    argmax argmin max min amax amin all any sum nansum mean count_nonzero norm linalg_vector_norm
"""
_REDUCTIONS_2_15 = "prod std var std_mean var_mean"

GUARDS = (
    guard("adaptive_pool_mixed", _AVG, when=_pool(mixed=True)),
    guard("adaptive_pool_mixed", _MAX, when=_pool(mixed=True), before="2.14"),
    guard("adaptive_pool_divisible", _AVG, when=_pool(shrinking=True)),
    guard("adaptive_pool_divisible_growing", _AVG, when=_pool(growing=True)),
    guard("adaptive_pool_multiple", f"{_AVG} {_MAX}", when=_pool(growing=True)),
    # Convolution.mm: any size of the output of _mps_convolution_impl, and of the gradient of the input
    guard(
        "conv_channels_2_to_16_refused",
        "_mps_convolution _mps_convolution_transpose mps_convolution_backward",
        when=_has_size_above(1 << 16),
        before="2.6",
    ),
    # LinearAlgebra.mm, bmm_out_mps
    guard("matmul_2_to_32_refused", "bmm", when=_has_size_above(_2_TO_32)),
    # EmptyTensor.cpp, empty_mps; Indexing.mm has the same limit for the number of indices
    guard("dimensions_16", "empty.memory_format", when=lambda call: len(call.outputs[0].shape) > 16),
    # Sort.mm: topk_out_mps, where k is not 0, and kthvalue_out_mps_impl
    guard("topk_rank", "topk", when=lambda call: call.argument("k") != 0 and _is_far_from_the_last(call)),
    guard("topk_rank", "kthvalue", when=_is_far_from_the_last),
    # Indexing.mm: nonzero_impl_mps, masked_fill__mps
    guard("masked_fill_2_to_32", "masked_fill", when=_elements(_2_TO_32)),
    guard("nonzero_int_max", "nonzero nonzero_static", when=_elements(_INT_MAX)),
    # Embedding.mm, embedding_dense_backward_mps
    guard("embedding_backward_int_max", "embedding_dense_backward", when=_is_large_embedding),
    # ReduceOps.mm, Pooling.mm and LinearAlgebra.mm (geqrf) ask canUse32BitIndexMath (native/IndexingUtils.cpp): no for
    # as many elements; offsets count as well, but the tensor that is asked about may be a contiguous copy. Read in
    # 2.14.0, 2.14.1 and 2.15.0. Other kernels that ask it choose between two Metal kernels, and raise in neither case.
    guard("reduction_2_to_32", _REDUCTIONS, when=_elements(_2_TO_32)),
    guard("reduction_2_to_32", _REDUCTIONS_2_15, when=_elements(_2_TO_32), first="2.15.0"),
    guard("pool_2_to_31", _POOLS, when=_elements(_INT_MAX)),
    guard("pool_2_to_31", "max_pool2d", when=_is_pooled_in_steps),
    guard("pool_2_to_31_other", _OTHER_POOLS, when=_elements(_INT_MAX)),
    guard("geqrf_2_to_31", "geqrf", when=_elements(_INT_MAX)),
)
SIZES = Conditions("size", "unsupported", "message", GUARDS, sentence)
rules_of = SIZES.rules_of
