"""What holds from some macOS on only: dtypes and kernels that a release serves on newer systems than it runs on.

The messages that say so are markers of the tables (``kernels/markers.toml``). Releases that need that macOS
anyway no longer have them: 2.9.0 needs macOS 14.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from packaging.version import Version

from mpsprobe_coverage.knowledge.calls.call import Call
from mpsprobe_coverage.knowledge.calls.spec import Specs
from mpsprobe_coverage.knowledge.judging.judgement import Judgement, Rule, refused
from mpsprobe_coverage.knowledge.kernels.table import KernelTable

_FFT = ("aten::_fft_r2c", "aten::_fft_c2r", "aten::_fft_c2c")
_CONVOLUTIONS = ("aten::_mps_convolution", "aten::mps_convolution_backward")


@dataclass(frozen=True, slots=True)
class Condition:
    """A check for a macOS that the library of a release has."""

    marker: str  # the message that it raises with
    macos: str  # the first one that passes
    what: str  # it is about, in words
    operators: tuple[str, ...]  # without overload; empty for every operator
    applies: Callable[[Specs, Specs], bool]  # whether the inputs and outputs of such an operator are what it is about


def _of_dtypes(*dtypes: torch.dtype) -> Callable[[Specs, Specs], bool]:
    return lambda inputs, outputs: any(spec.dtype in dtypes for spec in (*inputs, *outputs))


def _has_many_channels(_inputs: Specs, outputs: Specs) -> bool:
    return any(size > 1 << 16 for spec in outputs[:1] for size in spec.shape)  # backward: the gradient of the input


_CONDITIONS = (
    Condition(
        "conv_channels_2_to_16_refused", "15.1", "convolutions with over 65536 channels",
        (*_CONVOLUTIONS, "aten::_mps_convolution_transpose"), _has_many_channels,
    ),
    Condition(
        "matmul_tiling_macos15", "15.0", "products of over 2**32 elements", ("aten::bmm",),
        lambda _, outputs: any(spec.numel > 1 << 32 for spec in outputs),
    ),
    Condition(
        "isin_macos14", "14.0", "isin of integers", ("aten::isin",),
        lambda inputs, _: not inputs[0].dtype.is_floating_point,
    ),
    Condition("bfloat16_macos14", "14.0", "bfloat16", (), _of_dtypes(torch.bfloat16)),
    Condition("complex_macos14", "14.0", "complex numbers", (), _of_dtypes(torch.complex64, torch.complex32)),
    Condition("fft_macos14", "14.0", "Fourier transforms", _FFT, lambda *_: True),
    Condition(
        "conv3d_macos13_2", "13.2", "convolutions in three dimensions", _CONVOLUTIONS,
        lambda inputs, _: any(len(spec.shape) == 5 for spec in inputs),
    ),
    Condition(
        # Input, two states, and for each layer two weights and mostly two biases: over eleven in every kind of stack.
        "lstm_multi_layer_macos13", "13.0", "an LSTM of several layers", ("aten::_lstm_mps",),
        lambda inputs, _: len(inputs) > 11,
    ),
)  # fmt: skip


def rules_of(operator: str, table: KernelTable, macos: Version | None) -> tuple[Rule, ...]:
    conditions = () if macos is None else conditions_of(operator, table)
    return (Rule("macos", _refuse, (macos, conditions), (table.release,)),) if conditions else ()


def _refuse(call: Call, macos: Version, conditions: Sequence[Condition], release: str) -> Judgement | None:
    condition = first_condition(conditions, call.inputs, call.outputs)
    if condition is None or macos >= Version(condition.macos):
        return None
    reason = f"{condition.what}: torch {release} needs macOS {condition.macos} for that"
    evidence = f"a check for macOS {condition.macos}"
    return refused(reason, evidence=evidence, needs_macos=condition.macos)


def conditions_of(operator: str, table: KernelTable) -> tuple[Condition, ...]:
    """What a native call of ``operator`` may need on the release of ``table``, where that runs on older ones."""
    base = operator.partition(".")[0]
    present = (condition for condition in _CONDITIONS if condition.marker in table.markers)
    return tuple(condition for condition in present if not condition.operators or base in condition.operators)


def first_condition(conditions: Sequence[Condition], inputs: Specs, outputs: Specs) -> Condition | None:
    return next((condition for condition in conditions if condition.applies(inputs, outputs)), None)
