"""What one call costs, whatever the chip: its arithmetic, the bytes that it moves, and the class of its kernel.

Bytes are those that a kernel reads and writes at least: each argument once and each result once, an expanded dimension
not at all. What a fused kernel keeps inside is not counted.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from math import prod
from typing import NamedTuple

import torch

from mpsprobe_coverage.knowledge.calls.spec import Specs, TensorSpec, is_channels_last, is_contiguous

CHANNELS_LAST = "_channels_last"
"""How classes end of which the kernels get tensors whose channels are innermost in memory."""
HOST = "host"
"""The class of what only the CPU does: views, and storages that are handed out."""


class Cost(NamedTuple):
    kind: str  # the class of its kernel, a key of `data/times.toml`
    flops: float
    nbytes: float
    dtype: str  # in which it computes: `float32`, `float16`, `bfloat16`
    kernels: int = 1


@functools.lru_cache(maxsize=2**14)
def cost(operator: str, inputs: Specs, outputs: Specs) -> Cost:
    """What a call of ``operator`` (``aten::linear``) with tensors of these specs costs."""
    name = _name(operator)
    if operator.endswith("out") and outputs and inputs[-len(outputs) :] == outputs:
        inputs = inputs[: -len(outputs)]  # what it writes into
    moved = float(sum(_moved(spec) for spec in inputs) + sum(_moved(output) for output in outputs))
    dtype = _dtype(inputs or outputs)
    if _is_host(name, inputs, outputs):
        return Cost(HOST, 0.0, 0.0, dtype, 0)
    formula = FORMULAS.get(name)
    if formula is not None:
        counted = formula(name, inputs, outputs)
        if counted is not None:
            kind, flops = counted
            return Cost(kind, flops, moved, dtype)
    if name.startswith(("_fused_", "_foreach_")):
        return Cost("optimizer", 0.0, _optimizer_bytes(name, inputs, moved), dtype, _slices(inputs))
    kind = CLASSES.get(name) or _named_kind(name, inputs, outputs)
    if kind in ("gather", "scatter"):
        index = sum(spec.nbytes for spec in inputs if spec.dtype in (torch.int64, torch.int32))
        written = sum(output.nbytes for output in outputs)
        source = min((spec.nbytes for spec in inputs if spec.numel), default=0)
        moved = float(index + (2 * written if kind == "gather" else max(written, source) * 2))
    return Cost(kind, 0.0, moved, dtype)


def gathers(operator: str) -> bool:
    """Whether it reads rows of a table."""
    return CLASSES.get(_name(operator)) == "gather"


def _name(operator: str) -> str:
    """``linear`` of ``aten::linear.out``."""
    return operator.partition("::")[2].partition(".")[0]


def _moved(spec: TensorSpec) -> int:
    return min(spec.nbytes, spec.held)


def _dtype(specs: Specs) -> str:
    kinds = {spec.dtype for spec in specs}
    return next((name for dtype, name in _HALF.items() if dtype in kinds), "float32")


def _is_host(name: str, inputs: Specs, outputs: Specs) -> bool:
    if name in HOST_ONLY or name.startswith(("empty", "new_empty")):
        return True
    return bool(outputs) and not any(output.numel for output in outputs)


def _matmul(name: str, inputs: Specs, outputs: Specs) -> tuple[str, float] | None:
    """Products: every element of the result takes two operations for each element of the summed dimension."""
    matrices = [spec for spec in inputs if len(spec.shape) > 1] or list(inputs)
    if len(matrices) < 2 or not outputs:
        return None
    left, right = matrices[-2:] if name in ("addmm", "baddbmm", "addbmm") else matrices[:2]
    summed = left.shape[-1] if left.shape else 1
    flops = 2.0 * outputs[0].numel * summed
    rows = outputs[0].numel // (outputs[0].shape[-1] if outputs[0].shape else 1)
    if name in ("bmm", "baddbmm"):
        rows = outputs[0].shape[-2]
    if rows <= FEW_ROWS:
        return "matvec", flops
    if min(outputs[0].shape[-1], rows) <= NARROW < summed:
        return "matmul_narrow", flops
    if name == "linear" and not is_contiguous(right):
        return "linear_strided", flops
    return "matmul", flops


def _linear_backward(name: str, inputs: Specs, outputs: Specs) -> tuple[str, float] | None:
    if len(inputs) < 3:
        return None
    grad, weight = inputs[1], inputs[2]
    return "matmul", 2.0 * grad.numel * weight.shape[-1] * sum(len(output.shape) > 1 for output in outputs)


def _convolution(name: str, inputs: Specs, outputs: Specs) -> tuple[str, float] | None:
    x, weight = inputs[0], inputs[1]
    larger = x if "transpose" in name else outputs[0]
    return _window("convolution", weight), 2.0 * larger.numel * weight.numel / max(weight.shape[0], 1) * _padded(weight)


def _convolution_backward(name: str, inputs: Specs, outputs: Specs) -> tuple[str, float] | None:
    """Each of the two gradients takes as much as the forward pass."""
    weight = next((spec for spec in inputs[2:] if len(spec.shape) == len(inputs[0].shape)), None)
    if weight is None:
        return None
    grad = inputs[0] if name.startswith("convolution") else inputs[1]
    gradients = sum(len(output.shape) > 1 for output in outputs) or 1
    flops = 2.0 * grad.numel * weight.numel / max(weight.shape[0], 1) * gradients * _padded(weight)
    strided = CHANNELS_LAST if any(map(is_channels_last, inputs[:2])) else ""
    return _window("convolution_backward", weight) + strided, flops


def _padded(weight: TensorSpec) -> float:
    """How much more a kernel computes that makes ``TILE`` channels at once: those that are not there, too."""
    out = weight.shape[0]
    return -(-out // TILE) * TILE / out if out and weight.shape[1] > 1 else 1.0


def _window(kind: str, weight: TensorSpec) -> str:
    """By the shape (out, in, …) of the weights: depthwise, few channels, a window of one, a larger one."""
    if weight.shape[1] == 1:
        return "convolution_depthwise"
    if weight.shape[0] <= FEW_CHANNELS:
        return "convolution_narrow"
    return kind if prod(weight.shape[2:]) > 1 else f"{kind}_1x1"


def _attention(name: str, inputs: Specs, outputs: Specs) -> tuple[str, float] | None:
    query, key, value = inputs[:3]
    batches = prod(query.shape[:-2])
    flops = 2.0 * batches * query.shape[-2] * key.shape[-2] * (query.shape[-1] + value.shape[-1])
    return ("attention_decode" if query.shape[-2] <= FEW_ROWS else "attention"), flops


def _lstm(name: str, inputs: Specs, outputs: Specs) -> tuple[str, float] | None:
    steps = prod(inputs[0].shape[:-1])
    weights = sum(spec.numel for spec in inputs if len(spec.shape) == 2)
    return "matmul", 2.0 * steps * weights * (3 if "backward" in name else 1)


def _reduction(name: str, inputs: Specs, outputs: Specs) -> tuple[str, float] | None:
    """Along the last dimension neighbouring elements are summed, along others rows of them."""
    x, result = inputs[0], outputs[0] if outputs else inputs[0]
    inner = bool(x.shape) and (result.numel * max(x.shape[-1], 1) == x.numel) and result.shape[:1] == x.shape[:1]
    base = "argmax" if name in ("argmax", "argmin") else "reduction"
    return f"{base}_inner" if inner and len(x.shape) > 1 else base, 0.0


def _batch_norm(name: str, inputs: Specs, outputs: Specs) -> tuple[str, float] | None:
    """With the statistics of the batch, and its gradient; with kept ones it is elementwise."""
    of_batch = "backward" in name or any(output.numel for output in outputs[1:])
    return ("batch_norm" if of_batch else "normalisation"), 0.0


def _named_kind(name: str, inputs: Specs, outputs: Specs) -> str:
    for words, kind in BY_WORD:
        if any(word in name for word in words):
            return kind
    return "elementwise"


def _optimizer_bytes(name: str, inputs: Specs, moved: float) -> float:
    """Adam reads weight, gradient and two moments and writes all but the gradient; lists give their inputs only."""
    return moved * (7 / 4 if name.startswith("_fused_adam") else 1.5)


def _slices(inputs: Specs) -> int:
    return max(1, len(inputs) // 64)


FEW_ROWS = 8  # from there on a product of matrices reads its weights for so few rows that their memory is what counts
NARROW = 64
FEW_CHANNELS = 8  # as the benchmark of operators has them
TILE = 32
_HALF = {torch.bfloat16: "bfloat16", torch.float16: "float16"}
HOST_ONLY = frozenset({
    "view", "_unsafe_view", "reshape", "_reshape_alias", "as_strided", "transpose", "t", "permute", "expand", "slice",
    "select", "unsqueeze", "squeeze", "detach", "detach_", "alias", "split", "split_with_sizes", "unbind", "narrow",
    "diagonal", "view_as_real", "view_as_complex", "unfold", "resize_", "set_", "lift_fresh", "real", "imag", "chunk",
    "_local_scalar_dense",
})  # fmt: skip
CLASSES: Mapping[str, str] = {
    "copy_": "copy", "_to_copy": "copy", "clone": "copy", "cat": "copy", "stack": "copy", "repeat": "copy",
    "fill_": "copy", "zero_": "copy", "roll": "copy", "flip": "copy", "constant_pad_nd": "copy", "_copy_from": "copy",
    "index_select": "gather", "embedding": "gather", "gather": "gather", "index": "gather", "take_along_dim": "gather",
    "scatter": "scatter", "scatter_": "scatter", "scatter_add": "scatter", "scatter_add_": "scatter",
    "scatter_reduce": "scatter_reduce", "index_put_": "scatter", "_index_put_impl_": "scatter", "index_add_": "scatter",
    "index_add": "scatter", "embedding_dense_backward": "scatter", "masked_scatter": "scatter",
    "_softmax": "softmax", "_log_softmax": "softmax", "_softmax_backward_data": "softmax",
    "_log_softmax_backward_data": "softmax", "binary_cross_entropy": "loss", "nll_loss_forward": "loss",
    **dict.fromkeys(("sort", "topk", "argsort", "msort"), "sort"),
}  # fmt: skip
BY_WORD: tuple[tuple[tuple[str, ...], str], ...] = (
    (("norm",), "normalisation"),
    (("bernoulli", "dropout", "rand", "normal_", "uniform_", "exponential_"), "random"),
    (("pool", "upsample", "interpolate", "grid_sampl"), "pooling"),
    (("index", "scatter"), "scatter"),
    (("cumsum", "cumprod", "median", "kthvalue", "unique", "histc"), "sort"),
    (("linalg", "cholesky", "triangular", "fft"), "other_operators"),
    (("loss",), "loss"),
)
Formula = Callable[[str, Specs, Specs], tuple[str, float] | None]
_OF_MATMUL = ("linear", "mm", "bmm", "addmm", "baddbmm", "matmul", "mv", "dot", "addmv", "_int_mm", "addbmm")
_CONVOLUTIONS = (
    "_mps_convolution", "_mps_convolution_transpose", "convolution", "convolution_overrideable", "slow_conv3d_forward",
    "_slow_conv2d_forward", "slow_conv_transpose2d",
)  # fmt: skip
_THEIR_GRADIENTS = ("mps_convolution_backward", "mps_convolution_transpose_backward", "convolution_backward")
_ATTENTION = (
    "_scaled_dot_product_attention_math_for_mps", "scaled_dot_product_attention",
    "_scaled_dot_product_fused_attention_overrideable", "_scaled_dot_product_flash_attention",
)  # fmt: skip
_REDUCTIONS = (
    "sum", "mean", "amax", "amin", "max", "min", "argmax", "argmin", "all", "any", "prod", "var", "std", "norm",
    "linalg_vector_norm", "logsumexp", "var_mean",
)  # fmt: skip
FORMULAS: Mapping[str, Formula] = {
    **dict.fromkeys(_OF_MATMUL, _matmul),
    "linear_backward": _linear_backward,
    **dict.fromkeys(_CONVOLUTIONS, _convolution),
    **dict.fromkeys(_THEIR_GRADIENTS, _convolution_backward),
    **dict.fromkeys(_ATTENTION, _attention),
    **dict.fromkeys(("_lstm_mps", "lstm_mps_backward"), _lstm),
    **dict.fromkeys(_REDUCTIONS, _reduction),
    **dict.fromkeys(("native_batch_norm", "native_batch_norm_backward"), _batch_norm),
}
