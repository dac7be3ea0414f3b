"""Wheel → table, whole: never half a table, whatever happened to the wheel."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_library import Load, MadeLibrary, initialiser
from made_wheel import DECLARED, make_torchvision_wheel, make_wheel

from mpsprobe.errors import TableError
from mpsprobe_coverage.kernels.table import EXPLICIT, IMPLICIT, NON_FUNCTIONAL, KernelTable
from mpsprobe_tables.builder.assemble import read_table
from mpsprobe_tables.builder.wheel import Wheel

YAML = "torchgen/packaged/ATen/native/native_functions.yaml"


def build_table(path: Path) -> KernelTable:
    with Wheel(path) as wheel:
        return read_table(wheel)


def test_a_table_of_torch(tmp_path: Path) -> None:
    path = make_wheel(tmp_path)
    table = build_table(path)
    assert (table.library, table.release, table.wheel) == ("torch", "2.13.0", path.name)
    assert (table.commit, table.macos_minimum, table.requires_torch) == ("c0ffee", "14.0", "")
    assert table.native == {"aten::add.out", "aten::add.Tensor", "aten::by_hand"}
    assert table.fallback == {"aten::embedding_renorm_", "aten::linalg_svd"}
    assert table.error == {"aten::_slow_conv2d_forward"}
    assert table.python == {"aten::native_group_norm"}
    assert table.with_label(EXPLICIT) | table.with_label(NON_FUNCTIONAL) == {"aten::abs"}
    assert table.with_label(IMPLICIT) == {"aten::linear"}
    assert table.keys["SparseMPS"] == {"aten::abs"}
    assert table.markers == {"float64_refused", "fused_mps"}
    assert len(table.sha256) == 64


def test_what_only_one_source_has_is_recorded(tmp_path: Path) -> None:
    declared = DECLARED + "- func: new(Tensor self) -> Tensor\n  dispatch:\n    MPS: new_mps\n"
    path = make_wheel(tmp_path, members={YAML: declared})
    table = build_table(path)
    assert table.only_in_binary == {"MPS": ("aten::by_hand",)}
    assert table.only_declared == {"MPS": ("aten::new",)}
    assert table.verdict("aten::new") == "unknown"  # the binary is what counts
    assert table.verdict("aten::by_hand") == "native"


def test_a_table_of_torchvision_may_have_no_kernels(tmp_path: Path) -> None:
    table = build_table(make_torchvision_wheel(tmp_path, MadeLibrary({"_f": []}).build()))
    assert (table.library, table.requires_torch, table.keys) == ("torchvision", "==2.13.0", {})


def test_a_torch_without_mps_is_refused(tmp_path: Path) -> None:
    library = MadeLibrary({initialiser("aten", "CPU"): [Load("abs.out")]}).build()
    with pytest.raises(TableError, match="registers nothing for MPS"):
        build_table(make_wheel(tmp_path, library=library))


def test_a_library_that_registers_in_an_unknown_way_gives_no_half_table(tmp_path: Path) -> None:
    entries = (f"- func: new{n}(Tensor self) -> Tensor\n  dispatch:\n    MPS: new_mps\n" for n in range(20))
    members = {YAML: DECLARED + "".join(entries)}
    with pytest.raises(TableError, match="only 2 of 22 operators"):
        build_table(make_wheel(tmp_path, members=members))


def test_a_wheel_without_a_source_gives_no_table(tmp_path: Path) -> None:
    for member in (YAML, "torch/version.py", "torch/lib/libtorch_cpu.dylib"):
        for content in (None, b"", b"\xff\xfe\x00"):
            path = make_wheel(tmp_path, members={member: content})
            if member == "torch/version.py" and content == b"":
                assert build_table(path).commit is None
            else:
                with pytest.raises(TableError):
                    build_table(path)


@given(position=st.integers(0, 10**6), change=st.integers(1, 255))
def test_a_damaged_byte_never_changes_the_table(
    tmp_path_factory: pytest.TempPathFactory, position: int, change: int
) -> None:
    path = make_wheel(tmp_path_factory.mktemp("damaged", numbered=True))
    whole = build_table(path)
    data = bytearray(path.read_bytes())
    data[position % len(data)] ^= change
    path.write_bytes(data)
    try:
        table = build_table(path)
    except TableError:
        return
    assert table.labels == whole.labels  # the byte was one that no reader looks at: a date, a compression level
    assert (table.commit, table.macos_minimum, table.markers) == (whole.commit, whole.macos_minimum, whole.markers)
    assert table.sha256 != whole.sha256
