"""Plugins that do not end, ask for everything, or are none: each is an error, in a bounded time."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_plugin import KEEP, Call, Code, MadePlugin, kernel

from mpsprobe.errors import MissingPackage, MpsprobeError, TableError
from mpsprobe_tables.tensorflow import image, machine
from mpsprobe_tables.tensorflow.image import Image
from mpsprobe_tables.tensorflow.registrations import Reading, read

MADE = MadePlugin(kernel("Conv2D", ["a"], T=1), chained=True).build()


def _read(folder: Path, library: bytes, architecture: str = "arm64") -> Reading:
    path = folder / "plugin"
    path.write_bytes(library)
    return read(Image(path, architecture))


def test_what_does_not_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "MOST_INSTRUCTIONS", 100_000)
    for architecture, code in (("arm64", struct.pack("<I", 0x14000000)), ("x86_64", b"\xeb\xfe")):
        with pytest.raises(TableError, match="does not end"):
            _read(tmp_path, MadePlugin([Code(code)], architecture).build(), architecture)
    monkeypatch.setattr(machine, "MOST_CALLS", 100)
    back = struct.pack("<I", 0x17FFFFF6)  # to ten instructions before: the call of something
    for steps in ([Call("_TF_GetCode")] * 200, [Call("_malloc", (8,)), Code(back)]):
        with pytest.raises(TableError, match="does not end"):
            _read(tmp_path, MadePlugin(steps).build())


NOWHERE = 0x1234_5678_0000


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([Call("_fork", ())], "calls _fork, which is not known here"),
        ([Call("_malloc", (1 << 40,))], "asks for more memory"),
        ([Call("_malloc", (64,), keep=True), Call("_memcpy", (KEEP, KEEP, 1 << 62))], "bytes at once"),
        ([Call("_memcpy", (NOWHERE, "abc", 4))], "Invalid memory"),
        ([Call("_strlen", (NOWHERE,))], "Invalid memory"),
        ([Call("_TF_NewKernelBuilder", ("x" * 9000, "GPU"))], "a string does not end"),
        ([Call("_TF_RegisterKernelBuilder", ("name", 0x1000, 0))], "did not make"),
        (kernel("Conv2D", T=99), "dtypes of a kernel of Conv2D are not known"),
        ([Call("_objc_msgSend", (0x1000, "alloc"))], "calls _objc_msgSend, which is not known here"),
        ([Code(struct.pack("<I", 0))], "cannot be read"),
    ],
)
def test_what_is_not_known_is_an_error(tmp_path: Path, steps: list[object], message: str) -> None:
    with pytest.raises(TableError, match=message):
        _read(tmp_path, MadePlugin(steps).build())


def test_a_library_that_is_no_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TableError, match="has no function TF_InitKernel"):
        _read(tmp_path, MadePlugin(kernel("Conv2D"), export="_other").build())
    for library, architecture in ((MADE, "x86_64"), (b"\x7fELF" + bytes(100), "arm64")):
        with pytest.raises(TableError, match="not a whole"):
            _read(tmp_path, library, architecture)
    monkeypatch.setattr(image, "LARGEST_IMAGE", len(MADE) - 1)
    with pytest.raises(TableError, match="larger than any plugin"):
        _read(tmp_path, MADE)


def test_without_unicorn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "MODULES", ("unicorn_that_is_not_there",))
    with pytest.raises(MissingPackage, match="mpsprobe-tables"):
        _read(tmp_path, MADE)


@given(st.lists(st.tuples(st.integers(0, len(MADE) - 1), st.binary(min_size=1, max_size=8)), min_size=1, max_size=4))
def test_damaged_bytes(tmp_path_factory: pytest.TempPathFactory, damage: list[tuple[int, bytes]]) -> None:
    """Whatever is written anywhere: it is read, or an error that says so."""
    content = bytearray(MADE)
    for at, data in damage:
        content[at : at + len(data)] = data
    try:
        _read(tmp_path_factory.mktemp("damaged"), bytes(content)[: len(MADE)])
    except MpsprobeError as error:
        assert str(error)
