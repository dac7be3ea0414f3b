"""What holds from some macOS on only: dtypes and kernels that a release serves on newer systems than it runs on.

The messages that say so are markers of the tables (``kernels/markers.toml``). Releases that need that macOS
anyway no longer have them: 2.9.0 needs macOS 14.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from packaging.version import Version

from mpsprobe_coverage.knowledge.calls.call import Call
from mpsprobe_coverage.knowledge.calls.spec import Specs
from mpsprobe_coverage.knowledge.judging.judgement import Judgement, refused
from mpsprobe_coverage.knowledge.kernels.table import KernelTable

_FFT = ("aten::_fft_r2c", "aten::_fft_c2r", "aten::_fft_c2c")
_CONVOLUTIONS = ("aten::_mps_convolution", "aten::mps_convolution_backward")
_BFLOAT16 = frozenset({torch.bfloat16})
_COMPLEX = frozenset({torch.complex64, torch.complex32})


@dataclass(frozen=True, slots=True)
class Condition:
    """A check for a macOS that the library of a release has.

    Attributes:
        marker: the message that it raises with.
        macos: the first one that passes.
        what: what it is about, in words.
        operators: their names, any overload; empty for every operator.
        applies: whether the inputs and outputs of such an operator are what it is about.
    """

    marker: str
    macos: str
    what: str
    operators: tuple[str, ...]
    applies: Callable[[Specs, Specs], bool]

    def names(self, operator: str) -> bool:
        """Whether it is about some calls of ``operator``."""
        return not self.operators or operator.partition(".")[0] in self.operators


def _of_dtype(dtypes: frozenset[torch.dtype]) -> Callable[[Specs, Specs], bool]:
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
    Condition("bfloat16_macos14", "14.0", "bfloat16", (), _of_dtype(_BFLOAT16)),
    Condition("complex_macos14", "14.0", "complex numbers", (), _of_dtype(_COMPLEX)),
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


@dataclass(frozen=True)
class OlderMacos:
    """What the release refuses on ``macos``."""

    operator: str
    release: str = field(compare=False)
    macos: Version
    conditions: tuple[Condition, ...]
    judge = "macos"
    dtypes = None

    def __call__(self, call: Call) -> Judgement | None:
        condition = first_condition(self.conditions, call.inputs, call.outputs)
        if condition is None or self.macos >= Version(condition.macos):
            return None
        reason = f"{condition.what}: torch {self.release} needs macOS {condition.macos} for that"
        evidence = f"a check for macOS {condition.macos}"
        return refused(reason, evidence=evidence, needs_macos=condition.macos)


def rules_of(operator: str, table: KernelTable, macos: Version | None) -> tuple[OlderMacos, ...]:
    """The rule of one operator on ``macos``, if the release asks there for a newer one."""
    if macos is None:
        return ()
    present = conditions_of(operator, table)
    return (OlderMacos(operator, table.release, macos, present),) if present else ()


def conditions_of(operator: str, table: KernelTable) -> tuple[Condition, ...]:
    """What a native call of ``operator`` may need on the release of ``table``, where that runs on older ones."""
    return tuple(one for one in _CONDITIONS if one.marker in table.markers and one.names(operator))


def first_condition(conditions: Sequence[Condition], inputs: Specs, outputs: Specs) -> Condition | None:
    """The one that a call is about."""
    return next((one for one in conditions if one.applies(inputs, outputs)), None)
