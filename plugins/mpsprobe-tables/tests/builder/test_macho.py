"""The Mach-O reader, against libraries made here and against lief, an independent reader."""

from __future__ import annotations

from pathlib import Path

import lief
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_library import Call, Load, MadeLibrary, initialiser
from made_wheel import torch_library

from mpsprobe.errors import TableError
from mpsprobe_tables.builder.macho import MachO

LIBRARY = torch_library().build()


def _written(folder: Path, data: bytes) -> Path:
    path = folder / "library.dylib"
    path.write_bytes(data)
    return path


def test_lief_sees_the_same_library(tmp_path: Path) -> None:
    parsed = lief.MachO.parse(list(LIBRARY))
    assert parsed is not None
    other = parsed.at(0)
    with MachO(_written(tmp_path, LIBRARY)) as library:
        ours = {(s.segment, s.name, s.address, s.size, s.offset) for s in library.sections}
        assert ours == {(s.segment_name, s.name, s.virtual_address, s.size, s.offset) for s in other.sections}
        named = {address: symbol for symbol, address, _ in library.functions_named(b"TORCH_LIBRARY_")}
        theirs = {s.value: s.name for s in other.symbols if "TORCH_LIBRARY_" in s.name}
        assert named == theirs
        assert len(named) == 9


def test_a_function_ends_where_the_next_one_begins(tmp_path: Path) -> None:
    made = MadeLibrary({"__Z5firstv": [Load("a"), Load("b")], "__Z6secondv": []})
    with MachO(_written(tmp_path, made.build())) as library:
        [(_, start, end)] = library.functions_named(b"first")
        assert len(library.code(start, end)) == 5  # two addresses of two instructions each, and the return
        [(_, start, end)] = library.functions_named(b"second")
        assert len(library.code(start, end)) == 1


def test_a_stub_is_known_by_the_function_that_it_imports(tmp_path: Path) -> None:
    made = MadeLibrary({"__Z5firstv": [Call("_imported"), Call("_other")]})
    with MachO(_written(tmp_path, made.build())) as library:
        [stubs] = [s for s in library.sections if s.name == "__stubs"]
        assert [library.symbol_at(stubs.address + 12 * index) for index in range(2)] == ["_imported", "_other"]
        assert library.symbol_at(stubs.address + 4) is None


def test_strings_are_found_by_a_part(tmp_path: Path) -> None:
    made = MadeLibrary({"__Z5firstv": []}, strings=("one two", "two three", "four"))
    with MachO(_written(tmp_path, made.build())) as library:
        assert list(library.strings_containing(b"two")) == ["one two", "two three"]
        assert list(library.strings_containing(b"five")) == []


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is empty"),
        (b"\x7fELF" + bytes(100), "not an arm64 Mach-O"),
        (LIBRARY[:20], "ends too early"),
        (LIBRARY[:4] + b"\x07\x00\x00\x01" + LIBRARY[8:], "not an arm64 Mach-O"),  # x86-64
        (LIBRARY[: len(LIBRARY) // 2], "truncated or corrupted"),
        (LIBRARY[:-1], "truncated or corrupted"),
        (LIBRARY[:16] + bytes(4) + LIBRARY[20:], "no code or no symbols"),  # no load commands
    ],
    ids=["empty", "elf", "header", "intel", "half", "one byte", "no commands"],
)
def test_what_is_no_whole_library_is_told(tmp_path: Path, data: bytes, said: str) -> None:
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
    with (
        MachO(_written(tmp_path, made[:at] + size + made[at + 8 :] + bytes(9 << 20))) as library,
        pytest.raises(TableError, match="does not end"),
    ):
        list(library.functions_named(b"TORCH_LIBRARY_"))
