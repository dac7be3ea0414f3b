"""What C++ refuses where it asks for the device type, before a kernel or instead of it.

Which operators such C++ calls on MPS instead of others is the device's business (``recording/routing``). Established by
disassembling the functions in the macOS libraries of 1.12.0 to 2.15.0.
"""

from __future__ import annotations

from functools import partial

import torch

from mpsprobe.protocols import Backend
from mpsprobe_coverage.knowledge.calls.call import Call
from mpsprobe_coverage.knowledge.calls.sparse import key_of
from mpsprobe_coverage.knowledge.calls.spec import spec_of
from mpsprobe_coverage.knowledge.judging.conditions import COMPLEX
from mpsprobe_coverage.knowledge.judging.fallback import no_sparse
from mpsprobe_coverage.knowledge.judging.judgement import Judgement, Rule, refused
from mpsprobe_coverage.knowledge.kernels.table import MPS, KernelTable

_CONVOLUTIONS = ("aten::_mps_convolution", "aten::mps_convolution_backward")
_TRANSPOSED = ("aten::_mps_convolution_transpose", "aten::mps_convolution_transpose_backward")
_OVERRIDEABLE = ("aten::convolution_overrideable", "aten::convolution_backward_overrideable")
_CONJUGATE_SINCE = "2.14.1"
_rule = partial(Rule, "route")


def rules_of(operator: str, table: KernelTable) -> tuple[Rule, ...]:
    rule = _rule_of(operator, table)
    return () if rule is None else (rule,)


def _rule_of(operator: str, table: KernelTable) -> Rule | None:
    backend = table.backend
    if operator in _CONVOLUTIONS:
        volumes = None if table.at_least("2.3") else ("Conv3D is not supported on MPS", "2.3.0")
        return _rule(_convolution, (volumes, False, table.at_least("2.0")))
    if operator in _TRANSPOSED:
        takes = table.at_least("2.8")
        volumes = None if takes else ("ConvTranspose 3D is not supported on MPS", "2.8.0")
        return _rule(_convolution, (volumes, takes, table.at_least("2.0")))
    if operator in _OVERRIDEABLE and backend.key == MPS:
        return _rule(_too_large, (None if table.at_least("2.14") else "2.14.0",))
    if operator == "aten::_lstm_mps" and table.at_least("2.0"):
        return _rule(_projections)
    if operator == "aten::tensor_split.tensor_indices_or_sections":
        return _rule(_places_on_the_cpu, (backend.device,))
    if operator == "aten::bincount" and table.at_least("2.0"):
        return _rule(_counts_whole_numbers)
    if operator == "aten::conj_physical_":
        return _rule(_stub_for_complex, (table.at_least(_CONJUGATE_SINCE),), dtypes=COMPLEX)
    if operator == "aten::_nested_tensor_from_tensor_list":
        return _rule(_strided_nested, (backend.device,))
    if operator == "aten::copy_":
        no_dense: frozenset[torch.dtype] = frozenset()
        return _rule(_sparse_copy, (backend, frozenset(table.keys)), dtypes=no_dense)
    return None


def _convolution(
    call: Call, volumes: tuple[str, str] | None, refuses_half_volumes: bool, floating_only: bool
) -> Judgement | None:
    """The checks of ``Convolution.mm``, by the number of dimensions of the weight and the dtype of the input.

    ``volumes``: what it says about three dimensions, and the release that takes them; None if it takes them.
    """
    weight, tensor = spec_of(call.argument("weight")), spec_of(call.argument("self"))
    if len(weight.shape) == 5:
        if volumes is not None:
            return refused(*volumes)
        if refuses_half_volumes and tensor.dtype in (torch.float16, torch.bfloat16):
            return refused("ConvTranspose 3D with BF16 or FP16 types is not supported on MPS")
    if floating_only and not tensor.dtype.is_floating_point:
        return refused("Convolution is supported only for Floating types")
    return None


def _too_large(call: Call, volumes_since: str | None) -> Judgement:
    """A convolution that MPS is not chosen for (``ConvParams::use_mps``) goes to an operator that only raises.

    ``volumes_since``: the first release that chooses MPS for three dimensions, if not transposed.
    """
    transposed, dimensions = call.argument("transposed"), call.argument("input").dim() - 2
    name = call.func._schema.name.removeprefix("aten::")
    return refused(
        f"{name} not implemented: an entry of the batch, or of the result, has over 2**31 - 1 elements",
        volumes_since if dimensions == 3 and not transposed else None,
        source="branch",
        evidence="ConvParams::use_mps says no where 64-bit indices are needed",
    )


def _projections(call: Call) -> Judgement | None:
    """``_lstm_mps`` checks that hidden and cell state have one size (``RnnOps.mm``)."""
    hidden, cell = call.argument("hx")
    if hidden.size(2) == cell.size(2):
        return None
    return refused("LSTM with projections is not currently supported with MPS.")


def _places_on_the_cpu(call: Call, device: str) -> Judgement | None:
    """``tensor_split`` (``TensorShape.cpp``, every release) takes indices on the CPU alone."""
    if call.argument("tensor_indices_or_sections").device.type == "cpu":
        return None
    message = "tensor_split expected tensor_indices_or_sections to be on cpu, but it's on "
    return refused(f"{message}{device}:0", evidence=message)


def _counts_whole_numbers(call: Call) -> Judgement | None:
    """``_bincount_mps`` checks ``isIntegralType`` first, in each release that has it (2.0.0 to 2.15.0)."""
    dtype = spec_of(call.argument("self")).dtype
    if not dtype.is_floating_point and not dtype.is_complex:
        return None
    return refused("Expected c10::isIntegralType(self.scalar_type(), true) to be true, but got false.")


def _stub_for_complex(call: Call, is_set: bool) -> Judgement | None:
    """The composite ``conj_physical_`` calls ``conj_physical_stub`` itself, and no other operator, for complex numbers.

    Read in ``at::native::conj_physical_`` of 1.12.0 to 2.15.0, and in what sets the stubs of each library: the first
    that sets this one for MPS is 2.14.1.
    """
    if not spec_of(call.argument("self")).dtype.is_complex:
        return None
    evidence = "the composite kernel calls conj_physical_stub"
    if is_set:
        return Judgement("native", None, "stub", f"{evidence}, which has a kernel for MPS", _CONJUGATE_SINCE)
    reason = "DispatchStub: missing kernel for mps (conj_physical_stub)"
    return refused(reason, _CONJUGATE_SINCE, source="stub", evidence=f"{evidence}, which nothing sets for MPS")


def _strided_nested(_: Call, device: str) -> Judgement:
    """``NestedTensorImpl.cpp`` takes storage on the devices that it names, in every release without MPS."""
    message = "NestedTensorImpl storage must be either CUDA, CPU, XPU or privateuseone but got "
    return refused(f"{message}{device}", evidence=message)


def _sparse_copy(call: Call, backend: Backend, keys: frozenset[str]) -> Judgement | None:
    """A sparse tensor is made anew on the device from its parts; that needs the key of its layout in the release."""
    for spec in call.outputs:
        key = key_of(spec.layout, backend.key)
        if spec.layout is not torch.strided and key not in keys:
            verdict, reason = no_sparse(backend)
            return Judgement(verdict, reason, "registration", f"nothing is registered under {key}")
    return None
