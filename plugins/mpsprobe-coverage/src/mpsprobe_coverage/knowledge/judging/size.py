"""Sizes that kernels refuse, judged from the shapes and arguments of a call.

The messages are guards like those of ``guard.py``; files are those of aten/src/ATen/native/mps/operations unless they
say otherwise. What only an older macOS refuses is in ``macos.py``: since 2.6.0 convolutions with more than
65536 output channels (before macOS 15.1).
"""

from __future__ import annotations

from dataclasses import dataclass

from mpsprobe_coverage.knowledge.calls.call import Call
from mpsprobe_coverage.knowledge.judging.guards import Guard, Shape, messages
from mpsprobe_coverage.knowledge.judging.judgement import Rule
from mpsprobe_coverage.knowledge.kernels.table import KernelTable

_CHANNELS = 1 << 16
_2_TO_32 = 1 << 32
_INT_MAX = (1 << 31) - 1
_DIMENSIONS = 16  # EmptyTensor.cpp; Indexing.mm has the same limit for the number of indices


@dataclass(frozen=True, slots=True)
class AdaptivePool:
    """``set_kernel_params`` of AdaptivePooling.mm: what it makes of an input and an output of two sizes each.

    Attributes:
        mixed: refuse an output that is larger one way and smaller the other.
        shrinking, growing: refuse sizes that do not divide, where the output is smaller, or larger.
    """

    mixed: bool = False
    shrinking: bool = False
    growing: bool = False

    def __call__(self, call: Call) -> bool:
        sizes = _pooled(call)
        if sizes is None:
            return False
        smaller = all(put_in >= out for put_in, out in sizes)
        larger = all(put_in <= out for put_in, out in sizes)
        if not smaller and not larger:
            return self.mixed
        if smaller:
            return self.shrinking and any(put_in % out for put_in, out in sizes)
        return self.growing and any(out % put_in for put_in, out in sizes)


def _pooled(call: Call) -> tuple[tuple[int, int], ...] | None:
    """(input, output) in the last two dimensions; None where there is nothing to pool."""
    names = [argument.name for argument in call.func._schema.arguments]
    source = call.spec("self")
    grad = call.spec("grad_output") if "grad_output" in names else None
    out = grad.shape[-2:] if grad is not None else call.argument("output_size") if "output_size" in names else ()
    if source is None or len(out) != 2 or len(source.shape) < 3 or 0 in (*source.shape[-2:], *out):
        return None
    return tuple(zip(source.shape[-2:], (int(size) for size in out), strict=True))


def _has_more_channels(call: Call) -> bool:
    return bool(call.outputs) and any(size > _CHANNELS for size in call.outputs[0].shape)


def _has_large_product(call: Call) -> bool:
    return bool(call.outputs) and any(size > _2_TO_32 for size in call.outputs[0].shape)


def _has_many_dimensions(call: Call) -> bool:
    return bool(call.outputs) and len(call.outputs[0].shape) > _DIMENSIONS


@dataclass(frozen=True, slots=True)
class Elements:
    """The argument ``self`` has ``limit`` elements or more."""

    limit: int

    def __call__(self, call: Call) -> bool:
        source = call.spec("self")
        return source is not None and source.numel >= self.limit


def _is_pooled_in_steps(call: Call) -> bool:
    """``mps_max_pool2d`` makes a graph where the windows lie side by side, and asks no such thing there."""
    return Elements(_INT_MAX)(call) and set(call.argument("stride") or call.argument("kernel_size")) != {1}


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


_AVG = ("_adaptive_avg_pool2d", "adaptive_avg_pool2d", "_adaptive_avg_pool2d_backward")
_MAX = ("adaptive_max_pool2d", "adaptive_max_pool2d_backward")
_POOLS = ("max_pool2d_with_indices", "max_pool3d_with_indices", "adaptive_max_pool2d")
_OTHER_POOLS = (
    "avg_pool2d",
    "avg_pool3d",
    "avg_pool3d_backward",
    *(f"{pool}_backward" for pool in _POOLS),
)
# What calls reduction_dispatch_mps, norm_kernel_mps or argmax_argmin_out_mps, and what does so from 2.15.0 on.
_REDUCTIONS = (
    *("argmax", "argmin", "max", "min", "amax", "amin", "all", "any", "sum", "nansum", "mean", "count_nonzero"),
    *("norm", "linalg_vector_norm"),
)
_REDUCTIONS_2_15 = ("prod", "std", "var", "std_mean", "var_mean")

GUARDS: tuple[Guard, ...] = (
    Guard("adaptive_pool_mixed", _AVG, Shape(AdaptivePool(mixed=True))),
    Guard("adaptive_pool_mixed", _MAX, Shape(AdaptivePool(mixed=True)), before="2.14"),
    Guard("adaptive_pool_divisible", _AVG, Shape(AdaptivePool(shrinking=True))),
    Guard("adaptive_pool_divisible_growing", _AVG, Shape(AdaptivePool(growing=True))),
    Guard("adaptive_pool_multiple", (*_AVG, *_MAX), Shape(AdaptivePool(growing=True))),
    # Convolution.mm: any size of the output of _mps_convolution_impl, and of the gradient of the input
    Guard(
        "conv_channels_2_to_16_refused",
        ("_mps_convolution", "_mps_convolution_transpose", "mps_convolution_backward"),
        Shape(_has_more_channels),
        before="2.6",
    ),
    # LinearAlgebra.mm, bmm_out_mps
    Guard("matmul_2_to_32_refused", ("bmm",), Shape(_has_large_product)),
    # EmptyTensor.cpp, empty_mps
    Guard("dimensions_16", ("empty.memory_format",), Shape(_has_many_dimensions)),
    # Sort.mm: topk_out_mps, where k is not 0, and kthvalue_out_mps_impl
    Guard("topk_rank", ("topk",), Shape(lambda call: call.argument("k") != 0 and _is_far_from_the_last(call))),
    Guard("topk_rank", ("kthvalue",), Shape(_is_far_from_the_last)),
    # Indexing.mm: nonzero_impl_mps, masked_fill__mps
    Guard("masked_fill_2_to_32", ("masked_fill",), Shape(Elements(_2_TO_32))),
    Guard("nonzero_int_max", ("nonzero", "nonzero_static"), Shape(Elements(_INT_MAX))),
    # Embedding.mm, embedding_dense_backward_mps
    Guard("embedding_backward_int_max", ("embedding_dense_backward",), Shape(_is_large_embedding)),
    # ReduceOps.mm, Pooling.mm and LinearAlgebra.mm (geqrf) ask canUse32BitIndexMath (native/IndexingUtils.cpp): no for
    # as many elements; offsets count as well, but the tensor that is asked about may be a contiguous copy. Read in
    # 2.14.0, 2.14.1 and 2.15.0. Other kernels that ask it choose between two Metal kernels, and raise in neither case.
    Guard("reduction_2_to_32", _REDUCTIONS, Shape(Elements(_2_TO_32))),
    Guard("reduction_2_to_32", _REDUCTIONS_2_15, Shape(Elements(_2_TO_32)), since="2.15"),
    Guard("pool_2_to_31", _POOLS, Shape(Elements(_INT_MAX))),
    Guard("pool_2_to_31", ("max_pool2d",), Shape(_is_pooled_in_steps)),
    Guard("pool_2_to_31_other", _OTHER_POOLS, Shape(Elements(_INT_MAX))),
    Guard("geqrf_2_to_31", ("geqrf",), Shape(Elements(_INT_MAX))),
)


def rules_of(operator: str, table: KernelTable) -> tuple[Rule, ...]:
    """A rule for each size that the kernel of ``operator`` refuses in the release of ``table``."""
    return messages(GUARDS, operator, table, "size")
