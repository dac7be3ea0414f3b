"""Wheels that are foreign, renamed, damaged or hostile."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from made_library import MadeLibrary
from made_wheel import WHEEL, make_torchvision_wheel, make_wheel, write_wheel

from mpsprobe.errors import TableError
from mpsprobe_tables.builder import wheel as wheel_module
from mpsprobe_tables.builder.wheel import Wheel


def test_what_a_wheel_says(tmp_path: Path) -> None:
    name = "torch-2.13.0-2-cp311-none-macosx_11_0_arm64.whl"  # the wheel of 2.10.0 has a build number too
    with Wheel(make_wheel(tmp_path, name)) as wheel:
        assert (wheel.library, wheel.release, wheel.requires_torch) == ("torch", "2.13.0", "")
        assert "git_version" in wheel.text("torch/version.py")
        names = [name for name, _ in wheel.python_files((b'"MPS"',))]
        assert names == ["torch/backends/mps/__init__.py"]  # and not the one among torch's tests
    with Wheel(make_torchvision_wheel(tmp_path, MadeLibrary().build())) as wheel:
        assert (wheel.library, wheel.release, wheel.requires_torch) == ("torchvision", "0.28.0", "==2.13.0")


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = make_wheel(tmp_path)
    for name in (
        "torch-2.13.0-cp311-cp311-manylinux_2_28_x86_64.whl",
        "torch-2.13.0-cp311-cp311-macosx_11_0_x86_64.whl",
        "numpy-2.0.0-cp311-cp311-macosx_14_0_arm64.whl",
        "torch.whl",
        "torch-2.13.0.tar.gz",
        "torch-2..13-cp311-cp311-macosx_14_0_arm64.whl",
    ):
        path = path.rename(tmp_path / name)
        with pytest.raises(TableError, match=r"is not (a|the) "):
            Wheel(path)
    for data in (b"", b"PK\x03\x04", b"<html>404</html>"):
        (tmp_path / WHEEL).write_bytes(data)
        with pytest.raises(TableError, match="cannot be read"):
            Wheel(tmp_path / WHEEL)


def test_a_renamed_wheel_is_refused(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, "torch-2.6.0-cp311-none-macosx_11_0_arm64.whl")
    with pytest.raises(TableError, match=r"contains torch 2\.13\.0"):
        Wheel(path)
    other = make_torchvision_wheel(tmp_path, b"").rename(tmp_path / WHEEL)
    with pytest.raises(TableError, match="it is another wheel, renamed"):
        Wheel(other)


def test_a_file_that_is_not_listed_is_refused(tmp_path: Path) -> None:
    path = make_wheel(tmp_path)
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("torch/../../evil.py", "")
    with pytest.raises(TableError, match="does not have the files that it lists"):
        Wheel(path)


def test_a_member_that_is_missing_or_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "library"
    with Wheel(make_wheel(tmp_path, members={"torch/lib/libtorch_cpu.dylib": None})) as wheel:
        with pytest.raises(TableError, match="has no library"):
            wheel.extract_library(target)
        with pytest.raises(TableError, match="lacks torch/nothing"):
            wheel.text("torch/nothing")
        monkeypatch.setattr(wheel_module, "LARGEST_TEXT", 10)
        with pytest.raises(TableError, match="too large"):
            wheel.text("torch/version.py")
    monkeypatch.undo()
    two = dict.fromkeys((f"torchvision/{name}.so" for name in ("_C", "_C_stable")), b"")
    content = {**two, "torchvision-0.28.0.dist-info/METADATA": b"Name: torchvision\nVersion: 0.28.0\n"}
    path = tmp_path / "torchvision-0.28.0-cp311-cp311-macosx_14_0_arm64.whl"
    with (
        Wheel(write_wheel(path, content, "torchvision-0.28.0")) as wheel,
        pytest.raises(TableError, match="or several"),
    ):
        wheel.extract_library(target)
    monkeypatch.setattr(wheel_module, "LARGEST_LIBRARY", 10)
    with Wheel(make_wheel(tmp_path)) as wheel, pytest.raises(TableError, match="too large"):
        wheel.extract_library(target)
    assert not target.exists(), "the disk is left alone"
