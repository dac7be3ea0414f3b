"""Convolutions, pooling, interpolation: what a Mac calls, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everyone calls it
from expectations import EVERY, Case, of

_CONVOLUTION = "_mps_convolution | mps_convolution_backward sum.dim_IntList"
_REFUSED = "unsupported:_mps_convolution | unsupported:mps_convolution_backward sum.dim_IntList"
_TRANSPOSED = "_mps_convolution_transpose add.Tensor | mps_convolution_transpose_backward sum.dim_IntList"
_TRANSPOSED_REFUSED = (
    "unsupported:_mps_convolution_transpose add.Tensor | unsupported:mps_convolution_transpose_backward sum.dim_IntList"
)
_AVERAGE = "_adaptive_avg_pool2d | _adaptive_avg_pool2d_backward"
_SELECT = (
    "Convolution.cpp, select_conv_backend: input.is_mps() → Mps; the gradient of the bias is a sum outside the kernel."
)

CONVOLUTIONS = {
    f"conv1d: {_SELECT}": Case(of(F.conv1d, (2, 3, 8), (4, 3, 3), (4,)), _CONVOLUTION),
    f"conv2d: {_SELECT}": Case(of(F.conv2d, (2, 3, 8, 8), (4, 3, 3, 3), (4,)), _CONVOLUTION),
    f"conv2d, depthwise, dilated, strided, padded as needed: {_SELECT} "
    "No other backend for depthwise or dilated ones.": Case(
        of(
            lambda *given: F.conv2d(*given, stride=2, padding=2, dilation=2, groups=4), (2, 4, 9, 9), (4, 1, 3, 3), (4,)
        ),
        _CONVOLUTION,
    ),
    f"conv2d without a bias: {_SELECT}": Case(
        of(F.conv2d, (2, 3, 8, 8), (4, 3, 3, 3)), "_mps_convolution | mps_convolution_backward"
    ),
    "conv3d: 'Conv3D is not supported on MPS' stands in the libraries of 1.13 to 2.2; 1.12 has no check and no 3-D "
    "graph.": Case(of(F.conv3d, (1, 2, 5, 5, 5), (3, 2, 3, 3, 3), (3,)), {EVERY: _REFUSED, "2.4.1": _CONVOLUTION}),
    "conv_transpose1d: MpsTranspose: the bias is added outside the kernel.": Case(
        of(F.conv_transpose1d, (2, 3, 8), (3, 4, 3), (4,)), _TRANSPOSED
    ),
    "conv_transpose2d: MpsTranspose: the bias is added outside the kernel.": Case(
        of(lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2, output_padding=1), (2, 3, 8, 8), (3, 4, 3, 3), (4,)),
        _TRANSPOSED,
    ),
    "conv_transpose3d: 'ConvTranspose 3D is not supported on MPS' up to 2.7; from 2.8.0 on for 16-bit types "
    "only.": Case(
        of(F.conv_transpose3d, (1, 2, 5, 5, 5), (2, 3, 3, 3, 3), (3,)),
        {EVERY: _TRANSPOSED_REFUSED, "2.13.0": _TRANSPOSED},
    ),
    "conv_transpose3d of float16: 'ConvTranspose 3D with BF16 or FP16 types is not supported on MPS' from 2.8.0 "
    "on.": Case(
        of(F.conv_transpose3d, lambda: [torch.rand(1, 2, 5, 5, 5).half(), torch.rand(2, 3, 3, 3, 3).half()]),
        "unsupported:_mps_convolution_transpose",
    ),
    "conv2d of whole numbers: 'Convolution is supported only for Floating types' from 2.0.0 on.": Case(
        of(F.conv2d, lambda: [torch.ones(1, 2, 5, 5, dtype=torch.long), torch.ones(3, 2, 3, 3, dtype=torch.long)]),
        {"2.0.0": "unsupported:_mps_convolution"},
    ),
}


_DECLARED = "native_functions.yaml: structured; the MPS key of its out form says since when."


def _resized(
    mode: str, dimensions: int, expected: Mapping[str, str] | str, because: str = _DECLARED, **options: Any
) -> tuple[str, Case]:
    name = f"interpolate {mode} {dimensions}-D" + (", antialiased" if options.get("antialias") else "")
    side = 8 if mode == "area" else 3
    program = of(
        lambda x: F.interpolate(x, size=(4,) * dimensions, mode=mode, **options), (1, 2, *(side,) * dimensions)
    )
    return f"{name}: {because}", Case(program, expected)


def _structured(name: str, forward: str, backward: str | None = None) -> dict[str, str]:
    """Missing, as the .out form that its composite calls, until ``forward``; its gradient until ``backward``."""
    out, grad_input = f"missing:{name}.out", f"missing:{name}_backward.grad_input"
    found = {EVERY: f"{out} | {grad_input}"}
    found[forward] = f"{name} | {grad_input}"
    found[backward or forward] = f"{name} | {name}_backward"
    return found


INTERPOLATION = dict(
    [
        _resized("nearest", 1, _structured("upsample_nearest1d", "1.13.1", "2.0.0")),
        _resized("nearest", 2, "upsample_nearest2d | upsample_nearest2d_backward"),
        _resized(
            "nearest",
            3,
            {
                EVERY: "missing:upsample_nearest3d.vec",
                "2.0.0": "fallback:upsample_nearest3d.vec",
                "2.13.0": "upsample_nearest3d",
            },
            "upsample_nearest3d.vec has keys of its own up to 1.13 (CPU, CUDA); 2.0 to 2.7 register it to fall back to "
            "the CPU, which hides its composite form and with it its derivative.",
        ),
        _resized("nearest-exact", 1, _structured("_upsample_nearest_exact1d", "2.0.0")),
        _resized("nearest-exact", 2, "_upsample_nearest_exact2d | _upsample_nearest_exact2d_backward"),
        _resized(
            "nearest-exact",
            3,
            {
                EVERY: "missing:_upsample_nearest_exact3d.vec",
                "2.0.0": "missing:_upsample_nearest_exact3d.out",
                "2.13.0": "_upsample_nearest_exact3d",
            },
            "_upsample_nearest_exact3d.vec has keys of its own up to 1.13 (CPU, CUDA) and is composite later.",
        ),
        _resized("linear", 1, _structured("upsample_linear1d", "2.4.1")),
        _resized("bilinear", 2, "upsample_bilinear2d | upsample_bilinear2d_backward"),
        _resized("trilinear", 3, _structured("upsample_trilinear3d", "2.13.0")),
        _resized("bicubic", 2, _structured("upsample_bicubic2d", "2.6.0")),
        _resized("bilinear", 2, _structured("_upsample_bilinear2d_aa", "2.13.0", "2.15.0"), antialias=True),
        _resized("bicubic", 2, _structured("_upsample_bicubic2d_aa", "2.13.0", "2.15.0"), antialias=True),
        _resized("area", 1, _AVERAGE, "adaptive_avg_pool1d is the 2-D one on a view."),
        _resized("area", 2, _AVERAGE, "adaptive_avg_pool2d is composite: _adaptive_avg_pool2d."),
        _resized(
            "area",
            3,
            "missing:_adaptive_avg_pool3d | missing:_adaptive_avg_pool3d_backward",
            "_adaptive_avg_pool3d has no MPS kernel in any release.",
        ),
    ]
)

POOLING = {
    "max_pool2d: Pooling.cpp asks is_mps() and calls _mps_max_pool2d up to 1.13; max_pool2d has an MPS kernel from "
    "2.0.0 on.": Case(
        of(lambda x: F.max_pool2d(x, 2), (1, 2, 8, 8)),
        {EVERY: "_mps_max_pool2d | mps_max_pool2d_backward", "2.0.0": "max_pool2d | max_pool2d_backward"},
    ),
    "max_pool2d with indices: Structured; MPS kernels in every release.": Case(
        of(lambda x: F.max_pool2d(x, 2, return_indices=True)[0], (1, 2, 8, 8)),
        "max_pool2d_with_indices | max_pool2d_with_indices_backward",
    ),
    "max_pool1d: Away from the CPU MaxPooling.cpp takes max_pool1d_with_indices, which is the 2-D one on a view.": Case(
        of(lambda x: F.max_pool1d(x, 2), (1, 2, 8)), "max_pool2d_with_indices | max_pool2d_with_indices_backward"
    ),
    "max_pool3d: max_pool3d_with_indices has a kernel from 2.9.0 on.": Case(
        of(lambda x: F.max_pool3d(x, 2), (1, 2, 8, 8, 8)),
        {
            EVERY: "missing:max_pool3d_with_indices | missing:max_pool3d_with_indices_backward",
            "2.13.0": "max_pool3d_with_indices | max_pool3d_with_indices_backward",
        },
    ),
    "avg_pool1d and avg_pool2d: avg_pool1d is avg_pool2d on a view; MPS kernels in every release.": Case(
        of(lambda x, y: F.avg_pool1d(x, 2).sum() + F.avg_pool2d(y, 2).sum(), (1, 2, 8), (1, 2, 8, 8)),
        "avg_pool2d*2 sum.dim_IntList*2 add.Tensor | avg_pool2d_backward*2",
    ),
    "avg_pool3d: Structured; MPS kernels from 2.9.0 on.": Case(
        of(lambda x: F.avg_pool3d(x, 2), (1, 2, 8, 8, 8)), _structured("avg_pool3d", "2.13.0")
    ),
    "adaptive pooling to one value: AdaptiveAveragePooling.cpp: an output of 1x1 is a mean.": Case(
        of(lambda x: F.adaptive_avg_pool2d(x, 1), (1, 2, 8, 8)), "mean.dim | div.Tensor"
    ),
}

CASES = CONVOLUTIONS | INTERPOLATION | POOLING
