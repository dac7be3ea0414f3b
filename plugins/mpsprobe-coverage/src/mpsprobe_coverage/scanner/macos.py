"""What holds from some macOS on only: dtypes and kernels that a release serves on newer systems than it runs on.

The messages that say so are markers of the tables (``kernels/markers.py``). Releases that need that macOS
anyway no longer have them: 2.9.0 needs macOS 14.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from packaging.version import Version

from mpsprobe.errors import UsageError
from mpsprobe.schemas import MacosCondition
from mpsprobe_coverage.device.recorder import CallRecord, Recorder
from mpsprobe_coverage.device.refusal import Refusal
from mpsprobe_coverage.kernels.table import KernelTable

_CONVOLUTIONS = frozenset({"aten::_mps_convolution", "aten::mps_convolution_backward"})
_FFT = ("aten::_fft_r2c", "aten::_fft_c2r", "aten::_fft_c2c")
_LSTM = "aten::_lstm_mps"
_COMPLEX = frozenset({torch.complex64, torch.complex32})


def _has_dtype(record: CallRecord, dtypes: frozenset[torch.dtype]) -> bool:
    return any(spec.dtype in dtypes for spec in (*record.inputs, *record.outputs))


def _convolves_volumes(record: CallRecord) -> bool:
    return record.operator in _CONVOLUTIONS and any(len(spec.shape) == 5 for spec in record.inputs)


def _stacks_layers(record: CallRecord) -> bool:
    # Input, two states, and for each layer two weights and mostly two biases: more than eleven in every kind of stack.
    return record.operator == _LSTM and len(record.inputs) > 11


def _has_many_channels(record: CallRecord) -> bool:
    made = record.outputs[:1]  # for the backward pass, the gradient of the input
    convolves = record.operator.startswith(("aten::_mps_convolution", "aten::mps_convolution_backward"))
    return convolves and any(size > 1 << 16 for spec in made for size in spec.shape)


def _multiplies_in_tiles(record: CallRecord) -> bool:
    return record.operator.startswith("aten::bmm") and any(spec.numel > 1 << 32 for spec in record.outputs)


def _looks_up_integers(record: CallRecord) -> bool:
    return record.operator.startswith("aten::isin") and not record.inputs[0].dtype.is_floating_point


@dataclass(frozen=True, slots=True)
class _Condition:
    marker: str
    macos: str
    what: str
    applies: Callable[[CallRecord], bool]


_CONDITIONS = (
    _Condition("conv_channels_2_to_16_refused", "15.1", "convolutions with over 65536 channels", _has_many_channels),
    _Condition("matmul_tiling_macos15", "15.0", "products of over 2**32 elements", _multiplies_in_tiles),
    _Condition("isin_macos14", "14.0", "isin of integers", _looks_up_integers),
    _Condition("bfloat16_macos14", "14.0", "bfloat16", lambda r: _has_dtype(r, frozenset({torch.bfloat16}))),
    _Condition("complex_macos14", "14.0", "complex numbers", lambda r: _has_dtype(r, _COMPLEX)),
    _Condition("fft_macos14", "14.0", "Fourier transforms", lambda r: r.operator.startswith(_FFT)),
    _Condition("conv3d_macos13_2", "13.2", "convolutions in three dimensions", _convolves_volumes),
    _Condition("lstm_multi_layer_macos13", "13.0", "an LSTM of several layers", _stacks_layers),
)


def check_macos(text: str, table: KernelTable) -> Version:
    """``--macos`` as a version.

    Raises:
        UsageError: the release does not run on that macOS.
    """
    macos = Version(text)
    if table.macos_minimum is not None and macos < Version(table.macos_minimum):
        raise UsageError(
            f"torch {table.release} needs macOS {table.macos_minimum} or newer for MPS, not {text}",
            "Judge an older torch release with --torch, or leave --macos out.",
        )
    return macos


def conditions(recorder: Recorder, table: KernelTable) -> list[MacosCondition]:
    """What of the run needs a newer macOS than ``table``'s release itself, the newest first."""
    found: dict[_Condition, dict[str, None]] = {}
    for record, condition in _met(recorder, table):
        found.setdefault(condition, {})[record.operator] = None
    ordered = sorted(found.items(), key=lambda one: Version(one[0].macos), reverse=True)
    return [MacosCondition(macos=c.macos, what=c.what, operators=list(operators)) for c, operators in ordered]


def refuse_before(recorder: Recorder, table: KernelTable, macos: Version) -> None:
    """Call unsupported what the release refuses on ``macos``."""
    for record, condition in list(_met(recorder, table)):
        if macos < Version(condition.macos):
            reason = f"{condition.what}: torch {table.release} needs macOS {condition.macos} for that"
            record.verdict = "unsupported"
            found = f"a check for macOS {condition.macos}"
            record.reason = Refusal(reason, source="message", evidence=found, needs_macos=condition.macos)


def _met(recorder: Recorder, table: KernelTable) -> Iterator[tuple[CallRecord, _Condition]]:
    present = [condition for condition in _CONDITIONS if condition.marker in table.markers]
    for record in recorder.calls() if present else ():
        if record.verdict == "native":
            for condition in present:
                if condition.applies(record):
                    yield record, condition
                    break
