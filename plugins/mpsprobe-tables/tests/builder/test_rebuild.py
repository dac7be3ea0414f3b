"""Wheels, the text in them, and what is made of both: never half a table, and the same bytes as what is shipped."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_library import Load, MadeLibrary, initialiser
from made_wheel import DECLARED, WHEEL, make_torchvision_wheel, make_wheel, write_wheel

from mpsprobe.errors import TableError, UsageError
from mpsprobe.progress import SilentProgress
from mpsprobe_coverage.knowledge.kernels.format import TABLES
from mpsprobe_coverage.knowledge.kernels.releases import torch_releases
from mpsprobe_coverage.knowledge.kernels.table import EXPLICIT, IMPLICIT, NON_FUNCTIONAL, KernelTable
from mpsprobe_tables.builder import wheel as wheel_module
from mpsprobe_tables.builder.assemble import (
    declared_kernels,
    parse,
    parse_native_functions,
    read_table,
    registered_from_python,
)
from mpsprobe_tables.builder.rebuild import Rebuilt, Request, from_files, from_versions, rebuild
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
    path = tmp_path / "torchvision-0.28.0-cp311-cp311-macosx_14_0_arm64.whl"
    written = write_wheel(path, two, "torchvision", "0.28.0")
    with Wheel(written) as wheel, pytest.raises(TableError, match="or several"):
        wheel.extract_library(target)
    monkeypatch.setattr(wheel_module, "LARGEST_LIBRARY", 10)
    with Wheel(make_wheel(tmp_path)) as wheel, pytest.raises(TableError, match="too large"):
        wheel.extract_library(target)
    assert not target.exists(), "the disk is left alone"


def test_a_member_without_a_name_is_refused(tmp_path: Path) -> None:
    path = make_wheel(tmp_path)
    with zipfile.ZipFile(path, "a") as file:
        file.writestr(zipfile.ZipInfo(""), b"")
    with pytest.raises(TableError, match="does not have the files that it lists"):
        Wheel(path)


def test_what_would_take_too_much_is_refused(tmp_path: Path) -> None:
    for folder in "ab":
        (tmp_path / folder).mkdir()
    two = {f"torch/{part}.py": b"a = 'MPS'\n" * 60_000 for part in "ab"}
    for path, said in (
        (
            make_wheel(tmp_path / "a", members={"torch/zeros": bytes(20 << 20)}),
            "unpacks to more than 16 times its size",
        ),
        (make_wheel(tmp_path / "b", members=two), "too much Python for MPS"),
        (write_wheel(tmp_path / WHEEL, {}, "torch", "2.13.0", "Requires-Dist: a\n" * 1001), "1,000 requirements"),
    ):
        with pytest.raises(TableError, match=said), Wheel(path) as wheel:
            read_table(wheel)


def test_keys_delegates_and_what_has_none() -> None:
    assert declared_kernels(parse_native_functions(DECLARED)) == {
        "CompositeExplicitAutograd": {"aten::abs"},
        "CompositeImplicitAutograd": {"aten::linear"},  # and not "gone", whose dispatch is empty on purpose
        "MPS": {"aten::add.out", "aten::add.Tensor"},
        "SparseMPS": {"aten::abs"},
    }


def test_sparse_kernels_are_not_inherited_from_a_delegate() -> None:
    # torchgen makes structured kernels for dense backends only: pow_.Scalar has none for SparseMPS in 2.13.0.
    text = (
        "- func: pow.out(Tensor self) -> Tensor\n  dispatch:\n    MPS: pow_mps\n    SparseMPS: pow_sparse\n"
        "- func: pow_.Scalar(Tensor self) -> Tensor\n  structured_delegate: pow.out\n"
    )
    found = declared_kernels(parse_native_functions(text))
    assert found == {"MPS": {"aten::pow.out", "aten::pow_.Scalar"}, "SparseMPS": {"aten::pow.out"}}


def test_comments_and_what_stands_elsewhere_say_nothing() -> None:
    text = "# head\n- func: f(Tensor x) -> Tensor  # note\n  dispatch:\n    # MPS: not_yet\n    CPU: f  # MPS: no\n"
    text += "  tags:\n    MPS: f\n- func: g(Tensor x) -> Tensor\n    MPS: g\n  dispatch:\n    CPU: g\n"
    assert declared_kernels(parse_native_functions(text)) == {}


@given(st.sampled_from(["", "# nothing", "func: f(Tensor x)", "\0"]) | st.text(max_size=60).map(DECLARED.__add__))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse_native_functions(text)
        assert text.startswith(DECLARED)
    except TableError as error:
        assert "native_functions.yaml" in error.message


def _registered(source: str) -> set[str]:
    return registered_from_python(parse(source, "x.py"))


def test_what_is_registered_from_python() -> None:
    key_in_call = 'from torch.library import Library as _Library\n_lib: object = _Library("aten", "IMPL")\n'
    key_in_call += '_lib.impl("native_group_norm", f, "MPS")\n_lib.impl("abs", f, "CPU")\n_lib.impl("relu", f)\n'
    # torch/_refs/linalg/__init__.py of 2.13.0
    key_in_library = 'mps_lib = torch.library.Library("aten", "IMPL", "MPS")\nmps_lib.impl("aten::lu_solve.out", f)\n'
    other = 'lib = Library("aten", "DEF")\nlib.impl("a", f)\nlib.define("b", "MPS")\nx.impl(1, "MPS")\ny().impl("c")\n'
    assert _registered(key_in_call) == {"aten::native_group_norm"}
    assert _registered(key_in_library) == {"aten::lu_solve.out"}
    assert _registered('lib = Library("mine", "IMPL", "MPS")\nlib.impl("op", f)\n') == {"mine::op"}
    assert _registered(other) == set()


def test_what_is_no_python_is_told() -> None:
    for source in ("def", "\0", "(" * 5000, "x = '\\ud800'\n\tif"):
        with pytest.raises(TableError, match=r"version\.py is not a Python file"):
            parse(source, "version.py")


@given(st.text(max_size=80))
def test_any_text_is_parsed_or_refused(source: str) -> None:
    try:
        registered_from_python(parse(source, "x.py"))
    except TableError as error:
        assert "x.py" in error.message


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


WHEELS = os.environ.get("MPSPROBE_TEST_WHEELS", "")
"""A folder of wheels of torch and torchvision. Those in it are read and compared with the tables of the package."""


def _rebuilt(*paths: Path) -> list[Rebuilt]:
    return rebuild(from_files([str(path) for path in paths]), SilentProgress())


def test_a_rebuild_gives_the_committed_bytes() -> None:
    paths = sorted(Path(WHEELS).glob("torch*-macosx_*_arm64.whl")) if WHEELS else []
    for path in paths:
        [built] = _rebuilt(path)
        assert built.differences == (), path.name
        assert [file.name for file in built.files if not file.same] == []
    assert len(paths) >= bool(WHEELS), "the folder that MPSPROBE_TEST_WHEELS names has no wheel"


def test_the_same_wheel_gives_the_same_bytes_and_another_differs_from_what_is_shipped(tmp_path: Path) -> None:
    path = make_wheel(tmp_path)
    [first], [second] = _rebuilt(path), _rebuilt(path)
    assert first.files == second.files
    names = [f"torch-2.13.0.{kind}" for kind in ("table", "kernels", "compositions", "messages")]
    assert [(file.name, file.shipped, file.same) for file in first.files] == [(name, True, False) for name in names]
    assert TABLES.decode(first.files[0].data, "x").base == "2.12.1"  # it says what differs from the release before
    assert len(first.differences) == 21
    assert first.differences[0].startswith("sha256: ")
    assert first.differences[-1].startswith("… and ")


def test_a_new_release_is_based_on_the_newest_that_is_shipped(tmp_path: Path) -> None:
    [built] = _rebuilt(make_wheel(tmp_path, "torch-9.0.0-cp311-cp311-macosx_14_0_arm64.whl", version="9.0.0"))
    assert [(file.shipped, file.same) for file in built.files] == [(False, False)] * 4
    assert TABLES.decode(built.files[0].data, "x").base == torch_releases()[-1]


def test_releases_that_are_built_together_build_on_each_other(tmp_path: Path) -> None:
    library = MadeLibrary({initialiser("torchvision", "MPS"): [Load("nms")]}).build()
    paths = [make_torchvision_wheel(tmp_path, library, version) for version in ("0.90.1", "0.90.0")]
    first, second = _rebuilt(*paths)
    assert (first.table.release, second.table.release) == ("0.90.0", "0.90.1")
    assert TABLES.decode(first.files[0].data, "x").changes["operators"]["torchvision::nms"] == "MPS"
    assert TABLES.decode(second.files[0].data, "x").base == "0.90.0"
    assert TABLES.decode(second.files[0].data, "x").changes == {"operators": {}}


def test_versions_become_requests() -> None:
    found = from_versions(["2.13", "v2.6.0", "2.13.0"], "torch")
    assert found == [Request("torch", "2.6.0"), Request("torch", "2.13.0")]
    assert from_versions(["99.0.0"], "torch") == [Request("torch", "99.0.0")]  # newer than this package
    assert from_versions(["0.28.0"], "torchvision") == [Request("torchvision", "0.28.0")]


def test_what_is_no_version_or_no_wheel_is_told() -> None:
    for text in ("1.11.0", "2.5.9", "2.13.0; rm", "--index-url", "99", "99.0.0rc1", "", "latest!"):
        with pytest.raises(UsageError) as caught:
            from_versions([text], "torch")
        assert caught.value.hint
    for text in ("0.28", "x", "==0.28.0", "1!0.28.0.dev1"):
        with pytest.raises(UsageError, match="is not a version of torchvision"):
            from_versions([text], "torchvision")
    for text in ("nowhere.whl", "", "a\0b", "."):
        with pytest.raises(TableError, match="there is no wheel"):
            from_files([text])
