"""Facts about a release that are no registrations: each is a name and the messages in the binary that show it.

To add one, add a line; ``mpsprobe kernels build`` finds it from then on. A marker is set when one of its strings is
part of a C string of libtorch_cpu.dylib. The messages were read in the wheels from 1.12.0 to 2.15.0. A message that a
release lacks says nothing by itself: the ones about macOS 14 go away with the release whose backend needs macOS 14
anyway (``KernelTable.macos_minimum``).
"""

from __future__ import annotations

MARKER_STRINGS: dict[str, tuple[str, ...]] = {
    # Convolution.mm
    "conv3d_refused": ("Conv3D is not supported on MPS",),
    "conv3d_macos13_2": ("Conv3D is only supported on MPS for MacOS_13_2",),
    "conv_transpose3d_refused": ("ConvTranspose 3D is not supported on MPS",),
    "conv_transpose3d_half_refused": ("ConvTranspose 3D with BF16 or FP16 types is not supported on MPS",),
    "conv_channels_2_to_16_refused": ("Output channels > 65536 not supported at the MPS device",),
    # EmptyTensor.cpp, TensorFactory.cpp, OperationUtils.mm
    "float64_refused": ("float64 is not supported on MPS", "the MPS framework doesn't support float64"),
    "bfloat16_refused": ("BFloat16 is not supported on MPS",),
    "bfloat16_macos14": (
        "MPS BFloat16 is only supported on MacOS 14",
        "MPS bfloat16 type is supported on MacOS 14",
    ),
    "complex_refused": ("Complex types are unsupported on MPS",),
    "complex_macos14": (
        "Complex types are supported starting from MacOS 14",
        "MPS complex types are only supported on MacOS 14",
    ),
    # sizes
    "adaptive_pool_divisible": ("Adaptive pool MPS: input sizes must be divisible by output sizes",),
    "matmul_2_to_32_refused": ("Output dim sizes larger than 2**32 elements for matmul not supported",),
    # operators with conditions
    "fft_macos14": ("FFT operations are only supported on MacOS 14",),
    "fused_grad_scale_refused": ("grad_scale and found_inf are not supported on MPS",),
    "lstm_multi_layer_macos13": ("Multi-layer LSTM support in MPS available only on MacOS 13",),
    "softmax_half_to_float_refused": ("with half to float conversion is not supported on MPS",),
}

OPTIMIZER_MARKERS: dict[str, str] = {
    "foreach_mps": "_get_foreach_kernels_supported_devices",
    "fused_mps": "_get_fused_kernels_supported_devices",
}
"""Marker → function of torch/utils/_foreach_utils.py that lists "mps" when the marker is set."""
