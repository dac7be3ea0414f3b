"""What is read from a Mach-O library, on libraries that are made here byte by byte."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_library import RETURN, TEXT_AT, Call, Load, MadeLibrary, initialiser
from made_wheel import torch_library

from mpsprobe.errors import TableError
from mpsprobe_tables.builder.macho import MachO

LIBRARY = torch_library().build()


def _written(folder: Path, data: bytes) -> Path:
    path = folder / "library.dylib"
    path.write_bytes(data)
    return path


def test_a_function_ends_where_the_next_one_begins(tmp_path: Path) -> None:
    made = MadeLibrary({"__Z5firstv": [Load("a"), Load("b")], "__Z6secondv": []})
    library = MachO(_written(tmp_path, made.build()))
    [(_, first)] = library.functions_named("first")
    assert len(library.code(first)) == 4 * 5  # two addresses of two instructions each, and the return
    [(_, second)] = library.functions_named("second")
    assert library.code(second) == RETURN.to_bytes(4, "little")
    assert library.is_function(second) and not library.is_function(second - 4)


def test_stubs_have_the_names_that_they_import_and_strings_are_found_by_a_part(tmp_path: Path) -> None:
    made = MadeLibrary({"__Z5firstv": [Call("_imported"), Call("_other")]}, strings=("one two", "two three", "four"))
    library = MachO(_written(tmp_path, made.build()))
    stubs = TEXT_AT + 4 * 3  # behind the two calls and the return
    names = [library.symbol_at(stubs + offset) for offset in (0, 12, 4)]
    assert names == ["_imported", "_other", None]
    assert list(library.strings_containing("two")) == ["one two", "two three"]
    assert list(library.strings_containing("five")) == []


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
