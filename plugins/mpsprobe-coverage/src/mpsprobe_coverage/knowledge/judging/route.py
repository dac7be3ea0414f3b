"""What C++ refuses where it asks for the device type, before a kernel or instead of it.

Which operators such C++ calls on MPS instead of others is the device's business (``recording/routing``). Established by
disassembling the functions in the macOS libraries of 1.12.0 to 2.15.0.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from mpsprobe.protocols import Backend
from mpsprobe_coverage.knowledge.calls.call import Call
from mpsprobe_coverage.knowledge.calls.sparse import key_of
from mpsprobe_coverage.knowledge.calls.spec import spec_of
from mpsprobe_coverage.knowledge.judging.fallback import no_sparse
from mpsprobe_coverage.knowledge.judging.judgement import Judgement, Rule, refused
from mpsprobe_coverage.knowledge.kernels.table import MPS, KernelTable

_CONVOLUTIONS = frozenset({"aten::_mps_convolution", "aten::mps_convolution_backward"})
_TRANSPOSED = frozenset({"aten::_mps_convolution_transpose", "aten::mps_convolution_transpose_backward"})
_OVERRIDEABLE = frozenset({"aten::convolution_overrideable", "aten::convolution_backward_overrideable"})
_SPLIT = "aten::tensor_split.tensor_indices_or_sections"
_COUNTS_MESSAGE = "Expected c10::isIntegralType(self.scalar_type(), true) to be true, but got false."
_CONJUGATE, _CONJUGATE_SINCE = "aten::conj_physical_", "2.14.1"
_NESTED = "aten::_nested_tensor_from_tensor_list"
_NESTED_MESSAGE = "NestedTensorImpl storage must be either CUDA, CPU, XPU or privateuseone but got "
_SPLIT_MESSAGE = "tensor_split expected tensor_indices_or_sections to be on cpu, but it's on "


@dataclass(frozen=True)
class Convolution:
    """The checks of ``Convolution.mm``, by the number of dimensions of the weight and the dtype of the input.

    Attributes:
        volumes: what it says about three dimensions, and the release that takes them; None if it takes them.
        half_volumes: it refuses three dimensions of float16 and bfloat16.
        floating_only: it refuses all other dtypes.
    """

    volumes: tuple[str, str] | None
    half_volumes: bool
    floating_only: bool
    judge = "route"
    dtypes = None

    def __call__(self, call: Call) -> Judgement | None:
        weight, tensor = spec_of(call.argument("weight")), spec_of(call.argument("self"))
        if len(weight.shape) == 5:
            if self.volumes is not None:
                return refused(*self.volumes)
            if self.half_volumes and tensor.dtype in (torch.float16, torch.bfloat16):
                return refused("ConvTranspose 3D with BF16 or FP16 types is not supported on MPS")
        if self.floating_only and not tensor.dtype.is_floating_point:
            return refused("Convolution is supported only for Floating types")
        return None


@dataclass(frozen=True)
class TooLarge:
    """A convolution that MPS is not chosen for (``ConvParams::use_mps``) goes to an operator that only raises.

    Attributes:
        volumes_since: the first release that chooses MPS for three dimensions, if not transposed.
    """

    volumes_since: str | None
    judge = "route"
    dtypes = None

    def __call__(self, call: Call) -> Judgement | None:
        transposed, dimensions = call.argument("transposed"), call.argument("input").dim() - 2
        since = self.volumes_since if dimensions == 3 and not transposed else None
        name = call.func._schema.name.removeprefix("aten::")
        return refused(
            f"{name} not implemented: an entry of the batch, or of the result, has over 2**31 - 1 elements",
            since,
            source="branch",
            evidence="ConvParams::use_mps says no where 64-bit indices are needed",
        )


@dataclass(frozen=True)
class Projections:
    """``_lstm_mps`` checks that hidden and cell state have one size (``RnnOps.mm``)."""

    judge = "route"
    dtypes = None

    def __call__(self, call: Call) -> Judgement | None:
        hidden, cell = call.argument("hx")
        if hidden.size(2) == cell.size(2):
            return None
        return refused("LSTM with projections is not currently supported with MPS.")


@dataclass(frozen=True)
class PlacesOnTheCpu:
    """``tensor_split`` (``TensorShape.cpp``, every release) takes indices on the CPU alone."""

    device: str
    judge = "route"
    dtypes = None

    def __call__(self, call: Call) -> Judgement | None:
        if call.argument("tensor_indices_or_sections").device.type == "cpu":
            return None
        return refused(f"{_SPLIT_MESSAGE}{self.device}:0", evidence=_SPLIT_MESSAGE)


@dataclass(frozen=True)
class CountsWholeNumbers:
    """``_bincount_mps`` checks ``isIntegralType`` first, in each release that has it (2.0.0 to 2.15.0)."""

    judge = "route"
    dtypes = None

    def __call__(self, call: Call) -> Judgement | None:
        dtype = spec_of(call.argument("self")).dtype
        return refused(_COUNTS_MESSAGE) if dtype.is_floating_point or dtype.is_complex else None


@dataclass(frozen=True)
class StubForComplex:
    """The composite ``conj_physical_`` calls ``conj_physical_stub`` itself, and no other operator, for complex numbers.

    Read in ``at::native::conj_physical_`` of 1.12.0 to 2.15.0, and in what sets the stubs of each library: the first
    that sets this one for MPS is 2.14.1.
    """

    is_set: bool
    judge = "route"
    dtypes = frozenset({torch.complex32, torch.complex64, torch.complex128})

    def __call__(self, call: Call) -> Judgement | None:
        if not spec_of(call.argument("self")).dtype.is_complex:
            return None
        evidence = "the composite kernel calls conj_physical_stub"
        if self.is_set:
            return Judgement("native", None, "stub", f"{evidence}, which has a kernel for MPS", _CONJUGATE_SINCE)
        reason = "DispatchStub: missing kernel for mps (conj_physical_stub)"
        return refused(reason, _CONJUGATE_SINCE, source="stub", evidence=f"{evidence}, which nothing sets for MPS")


@dataclass(frozen=True)
class StridedNested:
    """``NestedTensorImpl.cpp`` takes storage on the devices that it names, in every release without MPS."""

    device: str
    judge = "route"
    dtypes = None

    def __call__(self, call: Call) -> Judgement:
        return refused(f"{_NESTED_MESSAGE}{self.device}", evidence=_NESTED_MESSAGE)


@dataclass(frozen=True)
class SparseCopies:
    """A sparse tensor is made anew on the device from its parts; that needs the key of its layout in the release."""

    backend: Backend
    keys: frozenset[str]
    judge = "route"
    dtypes = frozenset[torch.dtype]()  # no dense call is refused

    def __call__(self, call: Call) -> Judgement | None:
        for spec in call.outputs:
            key = key_of(spec.layout, self.backend.key)
            if spec.layout is not torch.strided and key not in self.keys:
                verdict, reason = no_sparse(self.backend)
                return Judgement(verdict, reason, "registration", f"nothing is registered under {key}")
        return None


def rules_of(operator: str, table: KernelTable) -> tuple[Rule, ...]:
    """The rule of one operator, if there is one."""
    if operator in _CONVOLUTIONS:
        volumes = None if table.at_least("2.3") else ("Conv3D is not supported on MPS", "2.3.0")
        return (Convolution(volumes, half_volumes=False, floating_only=table.at_least("2.0")),)
    if operator in _TRANSPOSED:
        takes = table.at_least("2.8")
        volumes = None if takes else ("ConvTranspose 3D is not supported on MPS", "2.8.0")
        return (Convolution(volumes, half_volumes=takes, floating_only=table.at_least("2.0")),)
    if operator in _OVERRIDEABLE and table.backend.key == MPS:
        return (TooLarge(None if table.at_least("2.14") else "2.14.0"),)
    if operator == "aten::_lstm_mps" and table.at_least("2.0"):
        return (Projections(),)
    if operator == _SPLIT:
        return (PlacesOnTheCpu(table.backend.device),)
    if operator == "aten::bincount" and table.at_least("2.0"):
        return (CountsWholeNumbers(),)
    if operator == _CONJUGATE:
        return (StubForComplex(table.at_least(_CONJUGATE_SINCE)),)
    if operator == _NESTED:
        return (StridedNested(table.backend.device),)
    if operator == "aten::copy_":
        return (SparseCopies(table.backend, frozenset(table.keys)),)
    return ()
