"""Wheels of tensorflow-metal → data files, and the command that makes them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from made_plugin import MadePlugin, if_macos, if_responds, kernel, make_wheel

from mpsprobe.errors import TableError, UsageError
from mpsprobe_tables.commands.build import build
from mpsprobe_tables.tensorflow import rebuild
from mpsprobe_tensorflow.tables.table import decode

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
    assert [one.as_dict() for one in apple.registrations][:2] == [
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
    [document] = json.loads(_run("1.2.0", "--format", "json").output)
    assert document["builds"][0]["registered"] == 0
    with pytest.raises(TableError, match="no macOS wheel"):
        _run("1.2.9")
    with pytest.raises(UsageError, match="not a version"):
        _run("../1")


def test_other_wheels_are_refused(tmp_path: Path) -> None:
    for wheel, message in ((tmp_path / "not_there.whl", "no wheel"), (make_wheel(tmp_path, b"nothing"), "not a whole")):
        with pytest.raises(TableError, match=message):
            _run("--wheel", wheel)
