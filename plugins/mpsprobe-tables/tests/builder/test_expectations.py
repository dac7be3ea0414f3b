"""Expectations read from a wheel's test sources: what is understood, and what is refused by file and line."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from made_expectations import ENTRIES, LISTS, expectation_members
from made_wheel import make_wheel

from mpsprobe.errors import TableError
from mpsprobe.progress import SilentProgress
from mpsprobe_tables.builder.expectations import (
    Expectations,
    has_expectations,
    read_expectations,
)
from mpsprobe_tables.builder.rebuild import from_files, rebuild
from mpsprobe_tables.builder.wheel import Wheel
from mpsprobe_tables.expectations import decode, expectation_releases, load_expectations


def _read(tmp_path: Path, lists: str = LISTS, entries: str = ENTRIES) -> Expectations:
    with Wheel(make_wheel(tmp_path, members=expectation_members(lists, entries))) as wheel:
        return read_expectations(wheel)


def test_lists_are_resolved_for_the_newest_macos(tmp_path: Path) -> None:
    made = _read(tmp_path)
    assert dict(made.lists) == {
        "EMPTY_OPS_SKIPLIST": {"empty": None},
        "UNIMPLEMENTED_XFAILLIST": {"put": None, "silu": ("int16", "uint8"), "round": ("bfloat16",), "new": None},
        "UNDEFINED_XFAILLIST": {"put": ("float32",)},
        "MACOS_13_3_XFAILLIST": {"sort": ("float16",)},
    }
    assert made.kinds["forward EMPTY_OPS_SKIPLIST"] == "skip"
    assert made.kinds["forward UNIMPLEMENTED_XFAILLIST"] == "fail"
    assert made.supported_complex == {"add", "abs", "neg"}
    assert made.unsupported_complex is None
    assert made.gradient_lists["XFAILLIST_GRAD"] == {"sort": ("float16", "float32")}
    assert made.error_input_lists["XFAILLIST"] == {"amax": None}


def test_entries_say_what_they_claim(tmp_path: Path) -> None:
    made = _read(tmp_path)
    assert made.entries == {"abs", "neg", "sort", "divno_rounding_mode", "polyn_1", "polyn_2"}
    assert made.claimed == {
        "neg": ("bool", "float16", "float32", "int16", "int32", "int64", "int8", "uint8"),
        "sort": ("float16", "int16", "int32", "int64", "int8", "uint8"),
        "divno_rounding_mode": ("float16",),
        "polyn_1": ("float32",),
        "polyn_2": ("float32",),
    }
    assert made.claimed_backward == {"neg": ("float16", "float32")}
    assert {entry: [str(one) for one in them] for entry, them in made.decorators.items()} == {
        "neg": ["skip * bool", "fail test_output_grad_match float32"],
        "sort": ["skip * *"],
    }
    assert made.elsewhere == {"window.hann", "special_1"}
    assert made.unread == ("make_special(variant_test_name='special_1')",)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"put": None,', '"put": whatever(),', r"line 13 of .*common_mps\.py .*dtypes: whatever\(\)"),
        ('"put": None,', '"put": [torch.float31],', r"line 13 of .*a dtype: torch\.float31"),
        ("MACOS_VERSION < 15.0:", "SOMETHING_NEW:", r"line 19 of .*a condition: SOMETHING_NEW"),
        ("if key in XFAILLIST_GRAD:", "if op.name in XFAILLIST_GRAD:", "a condition: op.name in XFAILLIST_GRAD"),
        ("unittest.skip, dtypes", "unittest.skipIf, dtypes", "a decorator"),
        ('"put": [torch.float32]}', '"put": [torch.float32]}\n        NEVER_LOOKED_AT = {"x"}', "NEVER_LOOKED_AT"),
        ("key = op.name + op.variant_test_name", "key = op.name", "how an entry is named"),
        ("    def mps_ops_grad_modifier", "    def mps_ops_other", "a function that changes entries"),
        ("return ops\nelse:", "return ops +\nelse:", "is not a Python file"),
    ],
)
def test_a_new_form_of_the_lists_is_told(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in LISTS
    with pytest.raises(TableError, match=message):
        _read(tmp_path, lists=LISTS.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("custom_types(torch.float16)", "new_types(torch.float16)", "gives dtypes: new_types"),
        (
            "integral_types_and(torch.float16)",
            "_dispatch_dtypes(t for t in all_types() if t in x)",
            "a selection of dtypes",
        ),
        ("OpInfo('abs',", "OpInfo(*some,", "a name"),
        ("    make_window(", "    **make_window(", "is not a Python file"),
        ("lambda _: MACOS_VERSION < 14.0", "lambda p: p['x']", "a condition"),
        ("op_db: list[OpInfo] = [", "other: list[OpInfo] = [", "no list op_db"),
        ("'sort'", "'so rt'", "is called 'so rt'"),
    ],
)
def test_a_new_form_of_an_entry_is_told(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in ENTRIES
    with pytest.raises(TableError, match=message):
        _read(tmp_path, entries=ENTRIES.replace(old, new))


def test_a_wheel_that_lacks_the_entries_is_told(tmp_path: Path) -> None:
    members = {**expectation_members(), "torch/testing/_internal/opinfo/definitions/fft.py": None}
    with Wheel(make_wheel(tmp_path, members=members)) as wheel, pytest.raises(TableError, match=r"lacks .*fft\.py"):
        read_expectations(wheel)


def test_a_wheel_without_lists_has_none(tmp_path: Path) -> None:
    with Wheel(make_wheel(tmp_path)) as wheel:
        assert not has_expectations(wheel)


def test_kernels_build_makes_them_too(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, members=expectation_members())
    [built] = rebuild(from_files([str(path)]), SilentProgress())
    assert built.expectations is not None
    file = next(file for file in built.files if file.name.endswith(".expectations"))
    assert (file.name, file.same) == ("torch-2.13.0.expectations", False)
    read = decode(file.data, "x", load_expectations("2.12.1"))
    assert read == built.expectations
    assert read.claimed_backward == {"neg": ("float16", "float32")}


def test_what_is_read_is_what_the_installed_torch_says() -> None:
    """Where the installed release is one that is shipped: its own objects say the same as its source text."""
    from torch.testing._internal.common_methods_invocations import op_db  # seconds, for this test alone

    release = torch.__version__.partition("+")[0]
    if release not in expectation_releases() or not load_expectations(release).claimed:
        release = "2.13.0"  # of another torch only what both have is compared
    conditional = {"scatter_reduceamin", "scatter_reduceamax"}  # claim int64 on macOS 15 only
    by_extension = {"bmmtriton_optimized"}  # added by a loop that no macOS build runs
    entries = {entry.name + entry.variant_test_name: entry for entry in op_db}
    expected = load_expectations(release)
    same = torch.__version__.startswith(release)
    for key in sorted(entries.keys() - by_extension if same else ()):
        entry = entries[key]
        assert expected.has(key), key
        if key in expected.entries and key not in conditional:
            own = {str(dtype).removeprefix("torch.") for dtype in entry.dtypesIfMPS}
            cpu = {str(dtype).removeprefix("torch.") for dtype in entry.dtypes} - {"float64", "complex128"}
            assert set(expected.claimed.get(key, cpu)) == own, key
