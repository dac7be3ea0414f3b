"""What a plugin registers, read by running small plugins that are made here."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from made_plugin import KEEP, Call, IfTrue, MadePlugin, if_macos, if_responds, kernel

from mpsprobe_tables.tensorflow.image import Image
from mpsprobe_tables.tensorflow.machine import HEAP, Machine
from mpsprobe_tables.tensorflow.registrations import Reading, Registration, read
from mpsprobe_tables.tensorflow.system import System

FLOAT, INT32, HALF, BFLOAT16 = 1, 3, 19, 14
EACH = pytest.mark.parametrize("architecture", ["arm64", "x86_64"])


def _read(folder: Path, steps: list[object], architecture: str = "arm64", chained: bool = False) -> Reading:
    path = folder / "plugin"
    path.write_bytes(MadePlugin(steps, architecture, chained).build())
    return read(Image(path, architecture))


@EACH
@pytest.mark.parametrize("chained", [False, True])
def test_dtypes_and_host_memory(tmp_path: Path, architecture: str, chained: bool) -> None:
    steps = [*kernel("Fill", ["dims"], T=FLOAT, index_type=INT32), *kernel("NoOp")]
    reading = _read(tmp_path, steps, architecture, chained)
    fill = Registration("Fill", "GPU", (("T", "float32"), ("index_type", "int32")), ("dims",))
    assert reading.registrations == [(fill, ()), (Registration("NoOp", "GPU", (), ()), ())]


@EACH
def test_what_depends_on_macos(tmp_path: Path, architecture: str) -> None:
    steps = [
        *kernel("Conv2D", T=FLOAT),
        *if_macos(13 << 16 | 2 << 8, *kernel("Conv2D", T=BFLOAT16)),
        *if_responds("MPSGraph", "newer:", *kernel("Svd", T=FLOAT), *if_macos(14 << 16, *kernel("Svd", T=HALF))),
    ]
    needs = [
        ((one.operator, dict(one.types)["T"]), asks) for one, asks in _read(tmp_path, steps, architecture).registrations
    ]
    responds = ("class MPSGraph", "-[MPSGraph newer:]")
    assert needs == [
        (("Conv2D", "float32"), ()),
        (("Conv2D", "bfloat16"), ("macOS 13.2",)),
        (("Svd", "float32"), responds),
        (("Svd", "float16"), (*responds, "macOS 14.0")),
    ]


def test_the_same_kernel_twice_and_operators_of_its_own(tmp_path: Path) -> None:
    steps = [*kernel("InTopK", T=FLOAT), *if_macos(13 << 16, *kernel("InTopK", T=FLOAT))]
    define = [Call("_TF_NewOpDefinitionBuilder", ("_Fused",), keep=True), Call("_TF_RegisterOpDefinition", (KEEP, 0))]
    reading = _read(tmp_path, [*steps, *define])
    assert [asks for _, asks in reading.registrations] == [(), ("macOS 13.0",)]
    assert reading.defined == ("_Fused",)


@EACH
def test_names_that_are_put_together(tmp_path: Path, architecture: str) -> None:
    """``std::string::append`` keeps a short string's text, and makes a long one, as libc++ lays them out."""
    short = b"Conv\0".ljust(23, b"\0") + b"\4" if architecture == "arm64" else (b"\x08Conv").ljust(24, b"\0")
    append = "__ZNSt3__112basic_stringIcNS_11char_traitsIcEENS_9allocatorIcEEE6appendEPKcm"
    steps = [
        Call("_malloc", (24,), keep=True),
        Call("_memcpy", (KEEP, short, 24)),
        Call(append, (KEEP, "2D", 2)),
        Call(append, (KEEP, "BackpropInput", 13)),
    ]
    path = tmp_path / "plugin"
    path.write_bytes(MadePlugin(steps, architecture).build())
    machine = Machine(Image(path, architecture), lambda symbol: functions[symbol]())
    functions = System(machine, frozenset()).functions
    machine.run("_TF_InitKernel")
    held = struct.unpack("<QQQ", machine.read(HEAP, 24))
    start, length = held[:2] if architecture == "arm64" else (held[2], held[1])
    assert machine.read(start, length) == b"Conv2DBackpropInput"


def test_once_means_once(tmp_path: Path) -> None:
    """A constructor that is run by ``dispatch_once_f`` runs the first time only."""
    steps = [
        Call("_dlsym", (0, "_availability_version_check"), keep=True),
        Call("_dispatch_once_f", (b"\0" * 8, struct.pack("<II", 1, 15 << 16), KEEP)),
        IfTrue(tuple(kernel("Conv2D", T=FLOAT))),
    ]
    assert [one.operator for one, _ in _read(tmp_path, steps).registrations] == ["Conv2D"]
