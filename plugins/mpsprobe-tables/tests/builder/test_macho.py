"""What is read from a Mach-O library made here: symbols, stubs, Metal kernels, what it registers and raises with."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_library import FALLBACK, RETURN, TEXT_AT, Call, Keep, Load, MadeLibrary, Step, definitions, initialiser
from made_wheel import torch_library

from mpsprobe.errors import TableError
from mpsprobe_tables.builder.macho import MachO
from mpsprobe_tables.builder.messages import read_messages
from mpsprobe_tables.builder.metal import KernelNames, elementwise_types, kernel_sizes
from mpsprobe_tables.builder.registrations import Registrations, read_registrations
from mpsprobe_tables.builder.stubs import read_stubs
from mpsprobe_tables.messages import decisions, load_messages, message_releases

LIBRARY = torch_library().build()


def _written(folder: Path, data: bytes) -> Path:
    path = folder / "library.dylib"
    path.write_bytes(data)
    return path


def test_a_function_ends_where_the_next_one_begins(tmp_path: Path) -> None:
    made = MadeLibrary({"__Z5firstv": [Load("a"), Load("b")], "__Z6secondv": []})
    library = made.read(tmp_path)
    [(_, first)] = library.functions_named("first")
    assert len(library.code(first)) == 4 * 5  # two addresses of two instructions each, and the return
    [(_, second)] = library.functions_named("second")
    assert library.code(second) == RETURN.to_bytes(4, "little")
    assert library.is_function(second) and not library.is_function(second - 4)


def test_stubs_have_the_names_that_they_import_and_strings_are_found_by_a_part(tmp_path: Path) -> None:
    made = MadeLibrary({"__Z5firstv": [Call("_imported"), Call("_other")]}, strings=("one two", "two three", "four"))
    library = made.read(tmp_path)
    stubs = TEXT_AT + 4 * 3  # behind the two calls and the return
    names = [library.symbol_at(stubs + offset) for offset in (0, 12, 4)]
    assert names == ["_imported", "_other", None]
    assert list(library.strings_containing("two")) == ["one two", "two three"]
    assert list(library.strings_containing("five")) == []
    assert [text for _, text in library.strings()] == ["one two", "two three", "four"]
    assert all(library.string_at(address) == text for address, text in library.strings())


def test_what_is_no_whole_library_is_told(tmp_path: Path) -> None:
    no_library = "not a whole arm64 Mach-O"
    for data, said in (
        (b"", no_library),
        (b"\x7fELF" + bytes(100), no_library),
        (LIBRARY[:20], no_library),
        (LIBRARY[:4] + b"\x07\x00\x00\x01" + LIBRARY[8:], no_library),  # x86-64
        (LIBRARY[: len(LIBRARY) // 2], "truncated or corrupted"),
        (LIBRARY[:-1], "truncated or corrupted"),
        (LIBRARY[:16] + bytes(4) + LIBRARY[20:], "it has no code"),  # no load commands
    ):
        with pytest.raises(TableError, match=said):
            MachO(_written(tmp_path, data))


@given(st.integers(0, len(LIBRARY) - 1))
def test_a_truncated_library_is_never_read(tmp_path_factory: pytest.TempPathFactory, length: int) -> None:
    with pytest.raises(TableError):
        MachO(_written(tmp_path_factory.getbasetemp(), LIBRARY[:length]))


def test_a_function_as_long_as_the_library_is_refused(tmp_path: Path) -> None:
    made = MadeLibrary({initialiser("aten", "MPS"): [Load("abs.out")]}).build()
    size = (9 << 20).to_bytes(8, "little")
    at = made.index(b"__text") + 40  # name, segment, address, then the size
    library = MachO(_written(tmp_path, made[:at] + size + made[at + 8 :] + bytes(9 << 20)))
    [(_, address)] = library.functions_named("TORCH_LIBRARY_")
    with pytest.raises(TableError, match="does not end"):
        library.code(address)
    library = MachO(_written(tmp_path, made), most_code=20)
    assert library.code(address)
    with pytest.raises(TableError, match="more than there can be"):
        library.code(address)


def test_names_that_overlap_are_refused_before_they_are_copied(tmp_path: Path) -> None:
    size = 8 << 20
    for symbols in (1, 500_000):
        names_at = len(LIBRARY) + 16 * symbols
        entries = (struct.pack("<IBBHQ", index, 0x0E, 1, 0, TEXT_AT) for index in range(symbols))
        made = bytearray(b"".join((LIBRARY, *entries, b"a" * size, b"\0")))
        command = made.index(struct.pack("<II", 2, 24))
        struct.pack_into("<4I", made, command + 8, len(LIBRARY), symbols, names_at, size + 1)
        with pytest.raises(TableError, match="names without end"):
            MachO(_written(tmp_path, bytes(made)))


def test_sections_of_the_same_bytes_and_symbols_without_end_are_refused(tmp_path: Path) -> None:
    made = bytearray(MadeLibrary({initialiser("aten", "MPS"): [Load("abs.out")]}, strings=["a" * 4000]).build())
    place, size = made.index(b"__cstring"), len(made)
    for section in (b"__stubs", b"metal_basic"):  # where it is, and how long
        other = made.index(section)
        made[other + 32 : other + 52] = made[place + 32 : place + 52]
    with pytest.raises(TableError, match="its sections overlap"):
        MachO(_written(tmp_path, bytes(made)))
    command = made.index(struct.pack("<II", 2, 24))
    struct.pack_into("<I", made, command + 12, 2_000_001)
    with pytest.raises(TableError, match="more than 2,000,000 symbols"):
        MachO(_written(tmp_path, bytes(made)))
    assert len(made) == size


def test_names_are_read_from_the_metal_libraries(tmp_path: Path) -> None:
    names = ("exp_dense_float_int", "renorm_half", "x")
    for kernels, found in (((*names, "no name"), dict.fromkeys(names, 3664)), ((), {})):
        library = MadeLibrary({"_f": []}, strings=("NAME",), kernels=kernels).read(tmp_path)
        assert kernel_sizes(library) == found


READ = {
    "exp_dense_float_int": ("exp", "int"),
    "exp_strided_half_half": ("exp", "half"),
    "exp_dense_scalar_float2_float2": ("exp", "float2"),
    "abs_dense_castout_ilp_bfloat": ("abs", "bfloat"),
    "add_alpha_dense_broadcast_rhs_bool_bool_bool": ("add_alpha", "bool"),
    "eq_dense_bool_uchar": ("eq", "uchar"),
    "mul_dense_scalar_lhs_cast_half_half": ("mul", "cast:half"),
    "mul_strided_cast_long": ("mul", "cast:long"),
    "mul_dense_ilp4_short_short": ("mul", "short"),
    "mul_inner_contiguous_char_char": ("mul", "char"),
    "elu_backward_dense_float_float_ELUBackwardParams_float": ("elu_backward", "float"),
    "i0_dense_float_long": ("i0", "long"),
}


def test_the_types_that_elementwise_kernels_read() -> None:
    for name, (operation, read) in READ.items():
        assert elementwise_types([name]) == {operation: {read}}
    others = ("renorm_half", "dense_float", "exp_dense", "gather_dense_8bit_int", "exp_dense_double")
    assert elementwise_types(others) == {}
    several = ("exp_dense_float_int", "exp_strided_float_int", "exp_dense_half_half", "sin_dense_half_half")
    assert elementwise_types(several) == {"exp": {"int", "half"}, "sin": {"half"}}


UPSAMPLE = ("upsample_bicubic2d_float", "upsample_bicubic2d_half", "upsample_bilinear2d_uchar")
NAMES = KernelNames([*UPSAMPLE, "im2col_float_u32", "copy_8bit"])


def test_a_pattern_fits_names() -> None:
    assert NAMES.fits("upsample_{}_{}") and NAMES.fits("upsample_bicubic2d_float")
    others = ("upsample_nearest_{}", "bicubic2d_{}")
    no_names = ("", "{}", "up", "upsample_{} {}", "upsample_{0}_{1}", "upsample_.*", "ü_{}", "{}" * 200)
    assert not any(map(NAMES.fits, (*others, *no_names)))


def test_the_types_of_a_pattern_stand_in_its_places() -> None:
    assert NAMES.types("upsample_bicubic2d_{}") == {"float", "half"}
    assert NAMES.types("upsample_{}_{}") == {"float", "half", "uchar"}
    assert NAMES.types("im2col_{}{}") == {"float"}
    assert NAMES.types("copy_{}") == frozenset()  # it says nothing of dtypes
    assert NAMES.types("upsample_bicubic2d_float") == frozenset()
    assert NAMES.types("nothing_{}") == frozenset()


EXP = "__ZN2at6native8exp_stubE"
SIN = "__ZN2at6native8sin_stubE"
WHERE = "__ZN2at6native12where_kernelE"
OTHER = "__ZN2at6native10not_a_stubE"
KERNEL = "__ZN2at6nativeL14exp_kernel_mpsERNS_18TensorIteratorBaseE"
CPU_KERNEL = "__ZN2at6native12_GLOBAL__N_110exp_kernelERNS_18TensorIteratorBaseE"


TYPE = "__ZN2at6native12DispatchStubIPFvRNS_18TensorIteratorBaseEENS0_{}E7DEFAULTE"
# The variables with the CPU kernels, whose types name the stubs; the second one as older releases have it.
STUB_TYPES = ("30exp_stub_DECLARE_DISPATCH_typeE", "8sin_stubE", "34where_kernel_DECLARE_DISPATCH_typeE")
DEFAULTS = [TYPE.format(name) for name in STUB_TYPES]
INITIALISERS: dict[str, tuple[dict[str, Sequence[Keep]], int | None, dict[str, str]]] = {
    "one sets a kernel": ({"UnaryKernel.mm": [Keep(KERNEL, EXP, 24)]}, 24, {"exp_stub": KERNEL}),
    "where the pointer lies is read and not assumed": (
        {"UnaryKernel.mm": [Keep(KERNEL, EXP, 32), Keep(KERNEL, SIN, 32)]},
        32,
        {"exp_stub": KERNEL, "sin_stub": KERNEL},
    ),
    "the pointers of other devices are no kernels for MPS": (
        {
            "UnaryKernel.mm": [Keep(KERNEL, EXP, 24)],
            "UnaryOps.cpp": [Keep(CPU_KERNEL, SIN, 8), Keep(CPU_KERNEL, WHERE, 24)],
        },
        24,
        {"exp_stub": KERNEL, "where_kernel": CPU_KERNEL},
    ),
    "files disagree": ({"A.mm": [Keep(KERNEL, EXP, 24)], "B.mm": [Keep(KERNEL, SIN, 16)]}, None, {}),
    "none sets one": ({}, None, {}),
}


def test_stubs_are_known_by_their_types_and_kernels_by_what_initialisers_set(tmp_path: Path) -> None:
    wrong = []
    for name, (files, offset, kernels) in INITIALISERS.items():
        functions = {KERNEL: [], CPU_KERNEL: [], **{f"__GLOBAL__sub_I_{file}": keep for file, keep in files.items()}}
        library = MadeLibrary(functions, objects=(EXP, OTHER, SIN, WHERE, *DEFAULTS)).read(tmp_path)
        stubs = read_stubs(library)
        assert sorted(stubs.names.values()) == ["exp_stub", "sin_stub", "where_kernel"]
        found = {stub: library.symbol_at(address) for stub, address in stubs.kernels.items()}
        wrong += [] if (stubs.offset, found) == (offset, kernels) else [(name, stubs.offset, found)]
    assert not wrong, wrong


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
REGISTERED, SCHEMA = Call("_torch_library_impl"), Call("_aoti_torch_library_def")


def _stable(objects: Sequence[str] = (VARIABLE,), **functions: list[Step]) -> MadeLibrary:
    """Through the stable C ABI, in code as clang makes it for torchvision 0.29."""
    return MadeLibrary({f"__GLOBAL__sub_I_{name}": steps for name, steps in functions.items()}, objects=objects)


def _opened(key: str) -> list[Step]:
    opens = Call("_aoti_torch_library_init_impl")
    return [Load("torchvision", 0), Load(key, 1), Load("ops/nms_kernel.mm", 2), opens]


def test_the_stable_interface(tmp_path: Path) -> None:
    mps = [*_opened("MPS"), Load("nms", 1), REGISTERED, Load("roi_align", 1), REGISTERED]
    schema = Load("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor", 1)
    fragment = [Load("torchvision", 0), Load("nms.cpp", 1), Call("_aoti_torch_library_init_fragment")]
    cpu = [*_opened("CPU"), Load("only_on_the_cpu", 1), REGISTERED]
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
