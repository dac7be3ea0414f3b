"""For each advisory a small model that makes such a call, and one that differs in what the condition is about.

Tensors are made on the device inside the models, so that they cost nothing, whatever their size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

Function = Callable[..., Any]
aten = torch.ops.aten


@dataclass(frozen=True, slots=True)
class Pair:
    """``hit`` matches on ``release``, ``miss`` does not; both get a small float32 tensor of the device.

    ``macos``: an older one, where a newer one refuses such calls.
    """

    release: str
    hit: Function
    miss: Function
    phase: str = "inference"
    macos: str | None = None


def _of(function: Function, *shapes: tuple[int, ...], dtype: torch.dtype = torch.float32, **options: Any) -> Function:
    """``function`` of zeros of these shapes, which are made on the device."""
    return lambda x: function(*[x.new_zeros(shape, dtype=dtype) for shape in shapes], **options)


def _attention(queries: int, keys: int, dtype: torch.dtype, **options: Any) -> Function:
    shapes = [(1, 4, length, 64) for length in (queries, keys, keys)]
    return _of(functional.scaled_dot_product_attention, *shapes, dtype=dtype, **options)


def _permuted_attention(queries: int) -> Function:
    def run(*given: torch.Tensor) -> Any:
        return functional.scaled_dot_product_attention(*(one.permute(0, 2, 1, 3) for one in given))

    return _of(run, *[(3, queries, 4, 64)] * 3)


def _layer_norm(dtype: torch.dtype) -> Function:
    """In half precision, with weights of ``dtype``."""
    return lambda x: functional.layer_norm(x.new_zeros(4, 8, dtype=BF16), (8,), x.new_zeros(8, dtype=dtype))


def _chunked(batch: int) -> Function:
    """A convolution of the second half of the channels."""
    return lambda x: functional.conv2d(x.new_zeros(batch, 8, 6, 6).chunk(2, dim=1)[1], x.new_zeros(4, 4, 3, 3))


def _mm(rows: int, inner: int, columns: int) -> Function:
    return _of(torch.mm, (rows, inner), (inner, columns))


def _linear(*shape: int, bias: bool = True) -> Function:
    return _of(functional.linear, shape, (512, shape[-1]), *[(512,)] * bias)


def _half_linear(*shape: int, trained: bool = False) -> Function:
    """Without a bias; with ``trained`` its input needs a gradient."""

    def run(x: torch.Tensor) -> Any:
        inner = x.new_zeros(shape, dtype=BF16) + (x.sum().to(BF16) if trained else 0)
        return functional.linear(inner, x.new_zeros((32, shape[-1]), dtype=BF16))

    return run


def _trained_linear(rows: int) -> Function:
    """A linear layer whose weight comes from ``x``, so that its gradient is asked for."""
    return lambda x: functional.linear(x.new_zeros(rows, 32), x.sum() + x.new_zeros(16, 32))


def _one_output(reduced: Function) -> Function:
    return lambda x: reduced(functional.linear(x.sum() + x.new_zeros(3840, 33), x.new_zeros(1, 33)))


def _weighted(shape: tuple[int, ...]) -> Function:
    """A convolution in two dimensions, whose weight may be a slice of one in three."""
    return _of(
        lambda x, weight: functional.conv2d(x, weight[:, :, 1] if len(shape) == 5 else weight), (2, 4, 9, 9), shape
    )


def _volume(layout: torch.memory_format) -> Function:
    shapes = (1, 4, 9, 9, 9), (2, 4, 3, 3, 3)
    return _of(lambda volume, weight: functional.conv3d(volume.contiguous(memory_format=layout), weight), *shapes)


def _sliced_channels(channels: int) -> Function:
    def run(image: torch.Tensor, weight: torch.Tensor) -> Any:
        return functional.conv2d(image.contiguous(memory_format=torch.channels_last)[:, :channels], weight)

    return _of(run, (1, 4, 9, 9), (2, channels, 1, 1))


def _lstm(layers: int, dropout: float) -> Function:
    def run(x: torch.Tensor) -> Any:
        weights = []
        for _ in range(layers):
            weights += [x.sum() + x.new_zeros(12, 3), x.new_zeros(12, 3), x.new_zeros(12), x.new_zeros(12)]
        states = (x.new_zeros(layers, 2, 3), x.new_zeros(layers, 2, 3))
        return torch.lstm(x.new_zeros(5, 2, 3), states, weights, True, layers, dropout, True, False, False)[0]

    return run


def _norm(first: int) -> Function:
    return _of(lambda x: functional.batch_norm(x[first:], None, None, training=True), (2, 3, 5))


def _strided(operator: Callable[..., Any], tensors: int = 1) -> tuple[Function, Function]:
    """The operator on transposed tensors, and on the same ones made contiguous."""
    shapes = [(5, 4)] * tensors
    strided = _of(lambda *made: operator(*(one.t() for one in made)), *shapes)
    return strided, _of(lambda *made: operator(*(one.t().contiguous() for one in made)), *shapes)


def _masked(step: int) -> Function:
    return _of(lambda bits: bits[:, ::step].bitwise_and_(torch.ones_like(bits[:, ::step])), (6, 6), dtype=torch.int32)


def _embedding(rows: int) -> Function:
    return lambda x: functional.embedding(x.new_zeros(3, dtype=torch.int64), x.new_zeros((rows, 10752), dtype=BF16))


BF16 = torch.bfloat16
HALF, FLOAT = torch.float16, torch.float32
PAIRS = {
    "attention-two-pass-bounds": Pair("2.9.0", _attention(1, 1024, BF16), _attention(1, 1023, BF16)),
    "attention-short-permuted": Pair("2.9.0", _permuted_attention(3), _permuted_attention(9)),
    "attention-value-width": Pair(
        "2.11.0",
        *(_of(functional.scaled_dot_product_attention, *[(1, 4, 16, 32)] * 2, (1, 4, 16, width)) for width in (24, 32)),
    ),
    "attention-causal-half": Pair(
        "2.12.0", _attention(17, 17, HALF, is_causal=True), _attention(17, 17, FLOAT, is_causal=True)
    ),
    "matmul-long-reduction": Pair("2.13.0", _mm(16, 32767, 16), _mm(16, 32766, 16)),
    "bmm-long-reduction": Pair(
        "2.14.0", _of(torch.bmm, (2, 16, 40000), (2, 40000, 16)), _of(torch.bmm, (2, 8, 40000), (2, 40000, 16))
    ),
    "linear-backward-many-rows": Pair("2.13.0", _trained_linear(40000), _trained_linear(30000), "training"),
    "linear-backward-one-output": Pair("2.13.0", _one_output(torch.sum), _one_output(torch.mean), "training"),
    "matmul-large-dimension": Pair("2.2.0", _mm(4, 3, 32769), _mm(4, 3, 32768)),
    "matmul-expanded-input": Pair(
        "2.6.0", _of(lambda row, square: row.expand(64, 64) @ square, (1, 64), (64, 64)), _mm(64, 64, 64)
    ),
    "linear-bias-large-batch": Pair("2.13.0", _linear(65537, 11, 8), _linear(65537, 11, 8, bias=False)),
    "linear-bias-m1-macos-26": Pair("2.13.0", _linear(80, 1, 2), _linear(80, 2, 2)),
    "linear-half-m5": Pair("2.12.1", _half_linear(2, 13, 64), _half_linear(26, 64)),
    "linear-backward-half-m5": Pair(
        "2.13.0", _half_linear(2, 13, 64, trained=True), _half_linear(26, 64, trained=True), "training"
    ),
    "bmm-above-32-bits": Pair(
        "2.14.0", *(_of(lambda left, right: left @ right.mT, *[(batch, 256, 4)] * 2) for batch in (65537, 65536))
    ),
    "linear-macos-13-2": Pair("2.0.0", _linear(253, 144, 8), _linear(253, 100, 8)),
    "conv-strided-weight": Pair("2.13.0", _weighted((3, 4, 3, 3, 3)), _weighted((3, 4, 3, 3))),
    "conv-channel-slice": Pair("2.12.1", _sliced_channels(2), _sliced_channels(4)),
    "conv-chunk-batch": Pair("2.9.1", _chunked(2), _chunked(1)),
    "conv-many-channels": Pair(
        "2.4.1", *(_of(functional.conv1d, (2, 4, 9), (number, 4, 3)) for number in (65537, 65536))
    ),
    "conv3d-channels-last": Pair("2.5.1", _volume(torch.channels_last_3d), _volume(torch.contiguous_format)),
    "conv3d-macos-26-2": Pair("2.14.0", _volume(torch.contiguous_format), _volume(torch.channels_last_3d)),
    "lstm-dropout-mask": Pair("2.12.1", _lstm(2, 0.5), _lstm(1, 0.5)),
    "lstm-dropout-gradient": Pair("2.13.0", _lstm(2, 0.5), _lstm(2, 0.0), "training"),
    "batch-norm-slice": Pair("2.4.0", _norm(1), _norm(0)),
    "layer-norm-mixed-dtypes": Pair("2.13.0", _layer_norm(torch.float32), _layer_norm(BF16)),
    "adaptive-max-pool-uneven": Pair(
        "2.13.0", *(_of(functional.adaptive_max_pool2d, (1, 1, size, size), output_size=3) for size in (5, 6))
    ),
    "avg-pool-ceil-mode": Pair(
        "2.8.0",
        _of(functional.avg_pool2d, (1, 1, 5, 5), kernel_size=2, ceil_mode=True),
        _of(functional.avg_pool2d, (1, 1, 5, 5), kernel_size=2),
    ),
    "softplus-strided": Pair("2.13.0", *_strided(functional.softplus)),
    "gelu-strided": Pair("2.3.1", *_strided(functional.gelu)),
    "addcmul-strided": Pair("2.3.1", *_strided(torch.addcmul, 3)),
    "addcmul-integers": Pair(
        "2.14.0", _of(torch.addcmul, *[(4,)] * 3, dtype=torch.int32), _of(torch.addcmul, *[(4,)] * 3)
    ),
    "bitwise-strided-output": Pair("2.6.0", _masked(2), _masked(1)),
    "cumsum-bool": Pair("2.3.1", lambda x: (x > 0).cumsum(0), lambda x: x.cumsum(0)),
    "index-select-large-source": Pair("2.13.0", _embedding(262144), _embedding(2621)),
    "argmax-macos-27": Pair("2.12.1", lambda x: x.argmin(), lambda x: x.amin()),
}
