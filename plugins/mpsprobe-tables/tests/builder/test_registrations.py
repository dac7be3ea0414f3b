"""What a library registers and raises with, read from libraries made here; what was decided of real messages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_library import FALLBACK, Call, Load, MadeLibrary, Step, definitions, initialiser

from mpsprobe.errors import TableError
from mpsprobe_tables.builder.messages import read_messages
from mpsprobe_tables.builder.registrations import Registrations, read_registrations
from mpsprobe_tables.messages import decisions, load_messages, message_releases

OPERATORS = st.from_regex(r"[a-z_][a-z0-9_]{1,20}(\.[A-Za-z_]{1,10})?", fullmatch=True)


def _read(folder: Path, made: MadeLibrary) -> Registrations:
    return read_registrations(made.read(folder))


def test_each_fallback_may_load_its_kernel_anew(tmp_path: Path) -> None:
    steps: list[Step] = [Call(FALLBACK), Load("nonzero"), Call(FALLBACK), Load("masked_select")]  # as 1.12 does
    found = _read(tmp_path, MadeLibrary({FALLBACK: [], initialiser("aten", "MPS"): steps}))
    assert found.fallback == {"aten::nonzero", "aten::masked_select"}
    assert not found.error


def test_a_name_carries_its_namespace_or_has_that_of_the_initialiser(tmp_path: Path) -> None:
    steps = [Load("quantized::mul"), Load("add"), Load("/aten/src/ATen/RegisterMPS.cpp"), Load("two words")]
    found = _read(tmp_path, MadeLibrary({initialiser("_quantized", "QuantizedMPS"): steps}))
    assert found.kernels == {"QuantizedMPS": {"quantized::mul", "_quantized::add"}}


def test_an_old_name_of_a_key_is_that_key(tmp_path: Path) -> None:
    found = _read(tmp_path, MadeLibrary({initialiser("quantized", "CatchAll"): [Load("conv_unpack")]}))
    assert found.kernels == {"CompositeImplicitAutograd": {"quantized::conv_unpack"}}


def test_a_fragment_defines_operators_too(tmp_path: Path) -> None:
    steps = [Load("aten::quantized_lstm.input(Tensor input, Tensor[] hx) -> (Tensor, Tensor)"), Load("no schema")]
    found = _read(tmp_path, MadeLibrary({definitions("aten", 5): steps, definitions("c10d"): [Load("send() -> ()")]}))
    assert found.defined == {"aten::quantized_lstm.input", "c10d::send"}


def test_other_symbols_with_the_same_words_are_no_initialisers(tmp_path: Path) -> None:
    ours = initialiser("aten", "MPS")
    another_length = ours.replace("34", "33")
    static = "_TORCH_LIBRARY_IMPL_static_init_aten_MPS_1"
    others = (f"{ours}.cold.1", another_length, f"__ZTSZ{ours}E3$_0", static)
    assert _read(tmp_path, MadeLibrary({other: [Load("abs.out")] for other in others})).kernels == {}


def test_an_initialiser_of_another_form_is_told(tmp_path: Path) -> None:
    symbol = initialiser("aten", "MPS", 1).replace("34TORCH", "32TORCH").replace("MPS_1E", "MPSE")
    with pytest.raises(TableError, match="unknown form"):
        _read(tmp_path, MadeLibrary({symbol: [Load("abs.out")]}))


def test_the_oldest_macos_is_read_in_every_spelling(tmp_path: Path) -> None:
    for text in ("The MPS backend is supported on MacOS 12.3+.", "The MPS backend is supported on macOS 12.3 +"):
        assert _read(tmp_path, MadeLibrary({"_f": []}, strings=(text,))).macos_minimum == "12.3"


@given(names=st.sets(OPERATORS, min_size=1, max_size=40), near=st.booleans())
def test_every_name_comes_back(tmp_path_factory: pytest.TempPathFactory, names: set[str], near: bool) -> None:
    made = MadeLibrary({initialiser("aten", "MPS"): [Load(name, near=near) for name in sorted(names)]})
    found = _read(tmp_path_factory.getbasetemp(), made)
    assert found.kernels["MPS"] == {f"aten::{name}" for name in names}


VARIABLE = "__ZN6vision3opsL55STABLE_TORCH_LIBRARY_IMPL_static_init_torchvision_MPS_0E"
KERNEL, SCHEMA = Call("_torch_library_impl"), Call("_aoti_torch_library_def")


def _stable(objects: Sequence[str] = (VARIABLE,), **functions: list[Step]) -> MadeLibrary:
    """Through the stable C ABI, in code as clang makes it for torchvision 0.29."""
    return MadeLibrary({f"__GLOBAL__sub_I_{name}": steps for name, steps in functions.items()}, objects=objects)


def _opened(key: str) -> list[Step]:
    opens = Call("_aoti_torch_library_init_impl")
    return [Load("torchvision", 0), Load(key, 1), Load("ops/nms_kernel.mm", 2), opens]


def test_the_stable_interface(tmp_path: Path) -> None:
    mps = [*_opened("MPS"), Load("nms", 1), KERNEL, Load("roi_align", 1), KERNEL]
    schema = Load("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor", 1)
    fragment = [Load("torchvision", 0), Load("nms.cpp", 1), Call("_aoti_torch_library_init_fragment")]
    cpu = [*_opened("CPU"), Load("only_on_the_cpu", 1), KERNEL]
    found = _read(tmp_path, _stable(mps=mps, cpu=cpu, schemas=[*fragment, schema, SCHEMA]))
    assert found.kernels == {"MPS": {"torchvision::nms", "torchvision::roi_align"}}
    assert found.defined == {"torchvision::nms"}
    assert _read(tmp_path, _stable((), x=mps)).kernels == {}, "other static initialisers are not read"


SOURCE = "/build/pytorch/aten/src/ATen/native/mps/operations/Widgets.mm"
CPU = "/build/pytorch/aten/src/ATen/native/Widgets.cpp"
HEADER = "/build/pytorch/c10/core/TensorImpl.h"
RAISE = "__ZN3c106detail14torchCheckFailEPKcS2_jS2_"
ASSERT = "__ZN3c106detail23torchInternalAssertFailEPKcS2_jS2_S2_"
WARN = "__ZN3c104warnERKNS_7WarningE"


def _raised(folder: Path, **functions: list[Step]) -> dict[str, str]:
    return read_messages(MadeLibrary({f"__Z{name}v": steps for name, steps in functions.items()}).read(folder))


def _handed(text: str, path: str, to: str) -> list[Step]:
    return [Load(text, 3), Load(path, 1), Call(to)]


def test_what_a_function_raises_with_is_told_from_what_it_warns_of_and_asserts(tmp_path: Path) -> None:
    steps = [
        *_handed("slow on this system", SOURCE, WARN),
        *_handed("widgets are not supported", SOURCE, RAISE),
        *_handed("count is right", SOURCE, ASSERT),
    ]
    assert _raised(tmp_path, kernel=steps) == {"widgets are not supported": "Widgets.mm"}
    shares_the_call = [*steps[3:6], Load("not for complex numbers", 3)]
    assert "not for complex numbers" in _raised(tmp_path, kernel=shares_the_call)
    mine = [*_handed("must be a matrix", SOURCE, RAISE), *_handed("only for widgets", SOURCE, RAISE)]
    for path in (CPU, HEADER):  # what other code raises with is left out
        found = _raised(tmp_path, kernel=mine, other=_handed("must be a matrix", path, RAISE))
        assert found == {"only for widgets": "Widgets.mm"}


def test_every_message_of_every_release_has_a_guard_or_a_decision() -> None:
    assert message_releases()[0] == "1.12.0"
    undecided = {text for release in message_releases() for text in load_messages(release).undecided()}
    assert sorted(undecided) == []


def test_every_decision_is_about_a_message() -> None:
    texts = {text for release in message_releases() for text in load_messages(release).found}
    every = [(one, pattern) for one in decisions() for pattern in one.messages]
    assert len(every) == len({pattern for _, pattern in every})
    unused = [
        pattern for one, pattern in every if not any(type(one)(one.why, (pattern,)).holds(text) for text in texts)
    ]
    assert unused == []
