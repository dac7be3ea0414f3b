"""Which DispatchStubs a library has, and which of them its initialisers give a kernel for MPS."""

from __future__ import annotations

from pathlib import Path

from made_library import Keep, MadeLibrary

from mpsprobe_tables.builder.macho import MachO
from mpsprobe_tables.builder.stubs import Stubs, read_stubs

EXP = "__ZN2at6native8exp_stubE"
SIN = "__ZN2at6native8sin_stubE"
WHERE = "__ZN2at6native12where_kernelE"
OTHER = "__ZN2at6native10not_a_stubE"
KERNEL = "__ZN2at6nativeL14exp_kernel_mpsERNS_18TensorIteratorBaseE"
CPU_KERNEL = "__ZN2at6native12_GLOBAL__N_110exp_kernelERNS_18TensorIteratorBaseE"


def default_of(stub: str, old: bool = False) -> str:
    """The variable with the CPU kernel of a stub, whose type names the stub."""
    name = stub if old else f"{stub}_DECLARE_DISPATCH_type"
    return f"__ZN2at6native12DispatchStubIPFvRNS_18TensorIteratorBaseEENS0_{len(name)}{name}EE7DEFAULTE"


DEFAULTS = (default_of("exp_stub"), default_of("sin_stub", old=True), default_of("where_kernel"))


def _read(folder: Path, library: MadeLibrary) -> Stubs:
    path = folder / "library.dylib"
    path.write_bytes(library.build())
    opened = MachO(path)
    stubs = read_stubs(opened)
    return Stubs(
        stubs.names,
        {name: opened.symbol_at(address) for name, address in stubs.kernels.items()},  # type: ignore[misc]
        stubs.offset,
    )


def test_stubs_are_known_by_their_types(tmp_path: Path) -> None:
    library = MadeLibrary({KERNEL: []}, objects=(EXP, OTHER, SIN, WHERE, *DEFAULTS))
    assert sorted(_read(tmp_path, library).names.values()) == ["exp_stub", "sin_stub", "where_kernel"]


def test_an_initialiser_sets_the_kernel(tmp_path: Path) -> None:
    library = MadeLibrary(
        {KERNEL: [], "__GLOBAL__sub_I_UnaryKernel.mm": [Keep(KERNEL, EXP, 24)]},
        objects=(EXP, SIN, WHERE, *DEFAULTS),
    )
    stubs = _read(tmp_path, library)
    assert stubs.offset == 24
    assert stubs.kernels == {"exp_stub": KERNEL}


def test_where_the_pointer_lies_is_read_and_not_assumed(tmp_path: Path) -> None:
    functions = {KERNEL: [], "__GLOBAL__sub_I_UnaryKernel.mm": [Keep(KERNEL, EXP, 32), Keep(KERNEL, SIN, 32)]}
    stubs = _read(tmp_path, MadeLibrary(functions, objects=(EXP, SIN, *DEFAULTS)))
    assert stubs.offset == 32
    assert sorted(stubs.kernels) == ["exp_stub", "sin_stub"]


def test_the_pointers_of_other_devices_are_no_kernels_for_mps(tmp_path: Path) -> None:
    functions = {
        KERNEL: [],
        CPU_KERNEL: [],
        "__GLOBAL__sub_I_UnaryKernel.mm": [Keep(KERNEL, EXP, 24)],
        "__GLOBAL__sub_I_UnaryOps.cpp": [Keep(CPU_KERNEL, SIN, 8), Keep(CPU_KERNEL, WHERE, 24)],
    }
    stubs = _read(tmp_path, MadeLibrary(functions, objects=(EXP, SIN, WHERE, *DEFAULTS)))
    assert stubs.kernels == {"exp_stub": KERNEL, "where_kernel": CPU_KERNEL}


def test_where_files_disagree_nothing_is_known(tmp_path: Path) -> None:
    functions = {
        KERNEL: [],
        "__GLOBAL__sub_I_A.mm": [Keep(KERNEL, EXP, 24)],
        "__GLOBAL__sub_I_B.mm": [Keep(KERNEL, SIN, 16)],
    }
    stubs = _read(tmp_path, MadeLibrary(functions, objects=(EXP, SIN, *DEFAULTS)))
    assert (stubs.offset, stubs.kernels) == (None, {})


def test_a_library_that_sets_none_says_nothing(tmp_path: Path) -> None:
    stubs = _read(tmp_path, MadeLibrary({KERNEL: []}, objects=(EXP, *DEFAULTS)))
    assert (stubs.offset, stubs.kernels) == (None, {})
