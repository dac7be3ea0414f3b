"""Which DispatchStubs a library has, and which of them its initialisers give a kernel for MPS."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from made_library import Keep, MadeLibrary

from mpsprobe_tables.builder.macho import MachO
from mpsprobe_tables.builder.stubs import read_stubs

EXP = "__ZN2at6native8exp_stubE"
SIN = "__ZN2at6native8sin_stubE"
WHERE = "__ZN2at6native12where_kernelE"
OTHER = "__ZN2at6native10not_a_stubE"
KERNEL = "__ZN2at6nativeL14exp_kernel_mpsERNS_18TensorIteratorBaseE"
CPU_KERNEL = "__ZN2at6native12_GLOBAL__N_110exp_kernelERNS_18TensorIteratorBaseE"


TYPE = "__ZN2at6native12DispatchStubIPFvRNS_18TensorIteratorBaseEENS0_{}E7DEFAULTE"
# The variables with the CPU kernels, whose types name the stubs; the second one as older releases have it.
NAMES = ("30exp_stub_DECLARE_DISPATCH_typeE", "8sin_stubE", "34where_kernel_DECLARE_DISPATCH_typeE")
DEFAULTS = [TYPE.format(name) for name in NAMES]
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
    path = tmp_path / "library.dylib"
    wrong = []
    for name, (files, offset, kernels) in INITIALISERS.items():
        functions = {KERNEL: [], CPU_KERNEL: [], **{f"__GLOBAL__sub_I_{file}": keep for file, keep in files.items()}}
        path.write_bytes(MadeLibrary(functions, objects=(EXP, OTHER, SIN, WHERE, *DEFAULTS)).build())
        library = MachO(path)
        stubs = read_stubs(library)
        assert sorted(stubs.names.values()) == ["exp_stub", "sin_stub", "where_kernel"]
        found = {stub: library.symbol_at(address) for stub, address in stubs.kernels.items()}
        wrong += [] if (stubs.offset, found) == (offset, kernels) else [(name, stubs.offset, found)]
    assert not wrong, wrong
