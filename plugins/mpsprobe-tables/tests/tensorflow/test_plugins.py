"""What a plugin registers, read by running small plugins that are made here; as data files; and hostile ones."""

from __future__ import annotations

import struct
from dataclasses import asdict
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from made_plugin import KEEP, Call, MadePlugin, Step, if_macos, if_responds, kernel, make_wheel

from mpsprobe.errors import MissingPackage, MpsprobeError, TableError, UsageError
from mpsprobe_tables.commands.build import build
from mpsprobe_tables.tensorflow import image, machine, rebuild
from mpsprobe_tables.tensorflow.image import Image
from mpsprobe_tables.tensorflow.machine import HEAP, Machine
from mpsprobe_tables.tensorflow.registrations import Reading, Registration, System, read
from mpsprobe_tensorflow.tables.table import decode

FLOAT, INT32, HALF, BFLOAT16 = 1, 3, 19, 14
EACH = pytest.mark.parametrize("architecture", ["arm64", "x86_64"])


def _reading(folder: Path, library: bytes, architecture: str = "arm64") -> Reading:
    path = folder / "plugin"
    path.write_bytes(library)
    return read(Image(path, architecture))


def _read(folder: Path, steps: list[Step], architecture: str = "arm64", chained: bool = False) -> Reading:
    return _reading(folder, MadePlugin(steps, architecture, chained).build(), architecture)


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
        kernel("Conv2D", T=FLOAT),
    ]
    assert [one.operator for one, _ in _read(tmp_path, steps).registrations] == ["Conv2D"]


MADE = MadePlugin(kernel("Conv2D", ["a"], T=1), chained=True).build()


def test_what_does_not_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "MOST_INSTRUCTIONS", 100_000)
    for architecture, code in (("arm64", struct.pack("<I", 0x14000000)), ("x86_64", b"\xeb\xfe")):
        with pytest.raises(TableError, match="does not end"):
            _read(tmp_path, [code], architecture)
    monkeypatch.setattr(machine, "MOST_CALLS", 100)
    back = struct.pack("<I", 0x17FFFFF6)  # to ten instructions before: the call of something
    for steps in ([Call("_TF_GetCode")] * 200, [Call("_malloc", (8,)), back]):
        with pytest.raises(TableError, match="does not end"):
            _read(tmp_path, steps)


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
        ([struct.pack("<I", 0)], "cannot be read"),
    ],
)
def test_what_is_not_known_is_an_error(tmp_path: Path, steps: list[Step], message: str) -> None:
    with pytest.raises(TableError, match=message):
        _read(tmp_path, steps)


def test_a_library_that_is_no_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TableError, match="has no function TF_InitKernel"):
        _reading(tmp_path, MadePlugin(kernel("Conv2D"), export="_other").build())
    for library, architecture in ((MADE, "x86_64"), (b"\x7fELF" + bytes(100), "arm64")):
        with pytest.raises(TableError, match="not a whole"):
            _reading(tmp_path, library, architecture)
    monkeypatch.setattr(image, "LARGEST_IMAGE", len(MADE) - 1)
    with pytest.raises(TableError, match="larger than any plugin"):
        _reading(tmp_path, MADE)


def test_without_unicorn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "MODULES", ("unicorn_that_is_not_there",))
    with pytest.raises(MissingPackage, match="mpsprobe-tables"):
        _reading(tmp_path, MADE)


@given(st.lists(st.tuples(st.integers(0, len(MADE) - 1), st.binary(min_size=1, max_size=8)), min_size=1, max_size=4))
def test_damaged_bytes(tmp_path_factory: pytest.TempPathFactory, damage: list[tuple[int, bytes]]) -> None:
    """Whatever is written anywhere: it is read, or an error that says so."""
    content = bytearray(MADE)
    for at, data in damage:
        content[at : at + len(data)] = data
    try:
        _reading(tmp_path_factory.mktemp("damaged"), bytes(content)[: len(MADE)])
    except MpsprobeError as error:
        assert str(error)


GRU = "GRUWithSourceTensor:recurrentWeight:inputWeight:bias:initState:descriptor:name:"
STEPS = [
    *kernel("Fill", ["dims"], T=1, index_type=3),
    *kernel("Fill", ["dims"], T=19, index_type=3),
    *kernel("NoOp"),
    *if_responds("MPSGraph", GRU, *kernel("StatelessRandomNormal", ["shape", "seed"], dtype=1)),
    *if_responds("MPSGraph", "unknown:", *kernel("Svd", T=1)),
]


def _run(*arguments: str | Path) -> Result:
    command = ["--library", "tensorflow-metal", *(str(argument) for argument in arguments)]
    return CliRunner().invoke(build, command, catch_exceptions=False)


def test_the_data_file_says_what_was_read(tmp_path: Path) -> None:
    wheels = [
        make_wheel(tmp_path, MadePlugin(STEPS).build(), python="312"),
        make_wheel(tmp_path, MadePlugin(STEPS).build(), python="39"),
        make_wheel(tmp_path, MadePlugin([*STEPS, *if_macos(12 << 16, *kernel("NoOp"))], "x86_64").build(), "x86_64"),
    ]
    arguments = [text for wheel in wheels for text in ("--wheel", str(wheel))]
    result = _run(*arguments, "-o", tmp_path / "out", "--check")
    assert result.exit_code == 1
    assert "NOT the tensorflow-metal-1.2.0.json" in result.output
    [path] = (tmp_path / "out").iterdir()
    intel, apple = decode(path.read_bytes(), path.name)
    assert (intel.architecture, apple.architecture) == ("x86_64", "arm64")
    assert [name.split("-")[2] for name in apple.wheels] == ["cp39", "cp312"]
    assert (apple.release, apple.macos_minimum) == ("1.2.0", "12.1")
    assert [asdict(one) for one in apple.registrations][:2] == [
        {"operator": "Fill", "device": "GPU", "types": {"T": "float32", "index_type": "int32"}, "host": ["dims"]},
        {"operator": "Fill", "device": "GPU", "types": {"T": "float16", "index_type": "int32"}, "host": ["dims"]},
    ]
    assert [(group.macos, [one.operator for one in group.registrations]) for group in apple.conditional] == [
        ("13.0", ["StatelessRandomNormal"]),
        (None, ["Svd"]),
    ]
    assert "Svd" not in {one.operator for one in apple.on()}
    assert len(intel.on("11.0")) == 3
    assert len(intel.on("12.5")) == 4


def test_the_wheels_come_from_the_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def download(library: str, release: str, folder: Path, *_: object) -> list[Path]:
        return [] if release == "1.2.9" else [make_wheel(folder, MadePlugin(STEPS).build())]

    monkeypatch.setattr(rebuild.download, "download_all", download)
    assert "arm64: 3 registrations of 2 operators" in _run("1.2.0").output
    with pytest.raises(TableError, match="no macOS wheel"):
        _run("1.2.9")
    with pytest.raises(UsageError, match="not a version"):
        _run("../1")
    with pytest.raises(TableError, match="no wheel"):
        _run("--wheel", tmp_path / "not_there.whl")
