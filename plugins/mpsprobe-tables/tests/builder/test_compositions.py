"""Which operators composite kernels, derivatives and indexing call, read from made libraries."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from made_kernels import REGISTER, native, operator_call, wrapper
from made_library import Address, Call, Load, MadeLibrary, Step, initialiser

from mpsprobe_coverage.kernels.compositions import Compositions
from mpsprobe_tables.builder.compositions import read_compositions
from mpsprobe_tables.builder.macho import MachO

OPERATORS = ("aten::loss", "aten::loss.out", "aten::mul.Tensor", "aten::add_.Tensor", "aten::view", "aten::neg")
REDISPATCH = "__ZN2at4_ops3neg10redispatchEN3c1014DispatchKeySetERKNS_6TensorE"
NODE = "__ZN5torch8autograd9generated13LossBackward05applyEONSt3__16vectorIN2at6TensorENS3_9allocatorIS6_EEEE"
DERIVATIVE = "__ZN5torch8autograd9generated7details13loss_backwardERKN2at6TensorE"
LAMBDA = "__ZZN5torch8autograd9generated7details13loss_backwardERKN2at6TensorEENK3$_0clES5_"
SETITEM = "__ZN5torch8autograd19THPVariable_setitemEP7_objectS2_S2_"
INDEX = "__ZN5torch8autogradL10applySliceERKN2at6TensorE"


def _read(
    folder: Path, functions: dict[str, Sequence[Step]], python: dict[str, Sequence[Step]] | None = None
) -> Compositions:
    libraries = []
    for name, made in (("cpu", functions), ("python", python or {"_none": []})):
        (folder / name).write_bytes(MadeLibrary(made).build())
        libraries.append(MachO(folder / name))
    return read_compositions(libraries[0], libraries[1] if python else None, OPERATORS, "2.13.0", "aa")


def _registered(steps: Sequence[Step]) -> dict[str, Sequence[Step]]:
    """``aten::loss``, whose kernel does ``steps``."""
    registered = [Address(wrapper("loss")), Load("loss", 1), Call(REGISTER)]
    return {initialiser("aten", "CompositeImplicitAutograd"): registered, wrapper("loss"): steps}


def test_calls_are_followed_up_to_the_dispatcher(tmp_path: Path) -> None:
    functions = _registered([Call(native("loss")), Call(operator_call("mul_Tensor")), Call(operator_call("view"))])
    functions[native("loss")] = [Call(REDISPATCH), Address(native("passed_on"), 10)]
    functions[native("passed_on")] = [Call(operator_call("add__Tensor"))]
    found = _read(tmp_path, functions)
    assert found.calls == {"loss": {"mul.Tensor", "neg", "add_.Tensor"}}  # a view is left out


def test_shape_functions_and_kernels_of_mps_are_not_followed(tmp_path: Path) -> None:
    elsewhere = ("__ZN2at4meta4lossEv", "__ZN2at6native3mps4lossEv", "__ZN3c104lossEv")
    functions = _registered([*map(Call, elsewhere), Call(native("loss"))])
    functions |= {symbol: [Call(operator_call("neg"))] for symbol in elsewhere}
    functions[native("loss")] = [Call(native("loss"))]
    assert _read(tmp_path, functions).calls == {"loss": frozenset()}


def test_a_derivative_has_the_name_of_its_node_and_indexing_is_read_from_the_bindings(tmp_path: Path) -> None:
    functions: dict[str, Sequence[Step]] = {NODE: [Call(DERIVATIVE)], LAMBDA: [Call(operator_call("neg"))]}
    functions[DERIVATIVE] = [Call(operator_call("mul_Tensor")), Call(LAMBDA)]
    python = {SETITEM: [Call(INDEX)], INDEX: [Call(operator_call("add__Tensor"))]}
    expected = {"LossBackward0": {"mul.Tensor", "neg"}, "Tensor.__setitem__": {"add_.Tensor"}}
    assert _read(tmp_path, functions, python).calls == expected
