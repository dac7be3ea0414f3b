"""The tables of tensorflow-metal: what was published of them, and that every file holds together."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mpsprobe.errors import TableError, UnknownName
from mpsprobe_devkit.testing.commands import run_cli
from mpsprobe_tensorflow.tables import table

# Counted by somebody else, with an emulator of their own, who answered every question to macOS by no.
COUNTED = {"0.5.0": (285, None), "0.8.0": (477, None), "1.0.1": (505, None), "1.1.0": (521, None), "1.2.0": (537, 174)}


def test_counts_of_another_reading_and_one_registration() -> None:
    for release, (registrations, operators) in COUNTED.items():
        found = table.registrations(release)
        assert len(found) == registrations, release
        assert operators in (None, len({one["operator"] for one in found})), release
    conv = {"operator": "Conv2D", "device": "GPU", "types": {"T": "float32"}, "host": []}
    assert conv in table.registrations("1.2.0")
    [fill] = [one for one in table.registrations("1.2.0") if one["operator"] == "Fill"]
    assert fill["types"] == {"T": "float32", "index_type": "int32"}
    assert fill["host"] == ["dims", "value"]


def test_what_some_macos_have_besides() -> None:
    """Random numbers without state, which dropout of Keras uses, need macOS 13."""
    [group] = table.load("1.2.0").conditional
    assert (group.macos, len(group.registrations)) == ("13.0", 24)
    assert len(table.registrations("1.2.0", "12.7")) == 537
    assert len(table.registrations("1.2.0", "13.0")) == 561
    assert "StatelessRandomUniformV2" in table.load("1.2.0").operators
    assert [len(table.registrations("1.1.0", macos)) for macos in ("11.7", "12.1", "14")] == [521, 537, 561]


def test_builds_of_a_release_can_differ() -> None:
    """Of 0.8.0, the wheel for Python 3.11 alone has float16 and bfloat16."""
    counts = {
        (build.architecture, len(build.registrations), any("cp311" in name for name in build.wheels))
        for build in table.all_builds("0.8.0")
    }
    assert counts == {
        ("arm64", 282, False), ("arm64", 477, True), ("x86_64", 282, False), ("x86_64", 477, True),
    }  # fmt: skip


def test_every_file_can_be_read() -> None:
    assert len(table.releases()) == 16
    for release in table.releases():
        for build in table.all_builds(release):
            assert build.release == release
            assert build.macos_minimum
            assert build.wheels
            assert {one.device for one in build.on()} == {"GPU"}
            assert all(len(digest) == 64 for digest in build.wheels.values())


def test_releases_that_are_not_there() -> None:
    assert table.resolve("1.2") == table.resolve("latest") == "1.2.0"
    with pytest.raises(UnknownName, match="unknown release"):
        table.resolve("1.2.1")
    with pytest.raises(UnknownName, match="unknown architecture"):
        table.load("1.2.0", "x86_64")
    with pytest.raises(TableError, match="damaged"):
        table.decode(b'{"builds": [{}]}', "name")


def _command(*arguments: str) -> Any:
    return run_cli("kernels", *arguments, "--backend", "tensorflow-metal", process=False)


def test_the_commands() -> None:
    document = json.loads(_command("list", "--release", "1.2.0", "--format", "json").stdout)
    assert document["registrations"] == table.registrations("1.2.0")
    said = [document[key] for key in ("release", "backend", "macos_minimum")]
    assert said == ["1.2.0", "tensorflow-metal", "12.1"]
    assert "Conv2D" in _command("show", "conv2d", "--release", "0.1,1.2.0").stdout
    difference = json.loads(_command("diff", "0.5.0", "latest", "--format", "json").stdout)
    assert (difference["from"], difference["to"]) == ("0.5.0", "1.2.0")
    assert "StatelessRandomNormal" in difference["gained"]
    assert json.loads(_command("since", "Conv2D", "--format", "json").stdout)[0]["native_since"] == "0.1.0"


def test_what_the_commands_refuse() -> None:
    for arguments, said in (
        (("list", "--release", "1.2.1"), "There are: 0.1.0"),
        (("show", "Svd"), "would run on the CPU"),
        (("show", "Conv2d_"), "did you mean 'Conv2D'"),
        (("list", "--key", "MPS"), "--key means nothing there"),
        (("list", "--library", "torchvision"), "--library means nothing there"),
    ):
        result = _command(*arguments)
        assert result.code == 2 and said in result.stderr, arguments
