"""Expectations read from a wheel's test sources: what is understood, and what is refused by file and line."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from made_wheel import make_wheel

from mpsprobe.errors import TableError
from mpsprobe.progress import SilentProgress
from mpsprobe_tables.builder.expectations import Expectations, has_expectations, read_expectations
from mpsprobe_tables.builder.rebuild import from_files, rebuild
from mpsprobe_tables.builder.wheel import Wheel
from mpsprobe_tables.expectations import decode, expectation_releases, load_expectations

LISTS = """\
import torch

if torch.backends.mps.is_available():

    def mps_ops_modifier(ops, device_type="mps", xfail_exclusion=None, sparse=False):
        if xfail_exclusion is None:
            xfail_exclusion = []
        SUPPORTED_COMPLEX_OPS = {"add", "abs"}
        AFTER_14_SUPPORTED_COMPLEX_OPS = {"neg"}
        BEFORE_13_3_XFAILLIST = {"cumsum": [torch.int8]}
        MACOS_13_3_XFAILLIST = {"sort": [torch.half]}
        UNIMPLEMENTED_XFAILLIST: dict[str, list | None] = {
            "put": None,
            "silu": [torch.short, torch.uint8],
            "dot": [torch.int64] if MACOS_VERSION < 14.0 else [],
            "round": [torch.bfloat16] if MACOS_VERSION >= 14.0 else None,
        }
        UNIMPLEMENTED_XFAILLIST_SPARSE = {"only_sparse": None}
        if MACOS_VERSION < 15.0:
            UNIMPLEMENTED_XFAILLIST.update({"old": None})
        if MACOS_VERSION >= 15.0:
            UNIMPLEMENTED_XFAILLIST.update({"new": None})
        if sparse:
            UNIMPLEMENTED_XFAILLIST.update(UNIMPLEMENTED_XFAILLIST_SPARSE)
        UNDEFINED_XFAILLIST = {"put": [torch.float32]}
        EMPTY_OPS_SKIPLIST = {"empty": None}

        def addDecorator(op, d):
            op.decorators = op.decorators + (d,)

        for op in ops:
            key = op.name + op.variant_test_name
            addDecorator(op, DecorateInfo(unittest.expectedFailure, dtypes=[torch.double, torch.cdouble]))
            if sparse:
                addDecorator(op, DecorateInfo(unittest.skip("sparse"), dtypes=[torch.complex128]))
            if key in EMPTY_OPS_SKIPLIST:
                addDecorator(op, DecorateInfo(unittest.skip("Skipping."), dtypes=EMPTY_OPS_SKIPLIST[key]))
            for xfaillist in [UNIMPLEMENTED_XFAILLIST, UNDEFINED_XFAILLIST]:
                if key in xfaillist and key not in xfail_exclusion:
                    addDecorator(op, DecorateInfo(unittest.expectedFailure, dtypes=xfaillist[key]))
            if key in BEFORE_13_3_XFAILLIST and (torch.backends.mps.is_macos13_or_newer() and MACOS_VERSION < 13.3):
                addDecorator(op, DecorateInfo(unittest.expectedFailure, dtypes=BEFORE_13_3_XFAILLIST[key]))
            if key in MACOS_13_3_XFAILLIST and (MACOS_VERSION >= 13.3):
                addDecorator(op, DecorateInfo(unittest.expectedFailure, dtypes=MACOS_13_3_XFAILLIST[key]))
            if key not in SUPPORTED_COMPLEX_OPS and (key not in AFTER_14_SUPPORTED_COMPLEX_OPS or MACOS_VERSION < 14.0):
                addDecorator(op, DecorateInfo(unittest.expectedFailure, dtypes=[torch.complex32, torch.complex64]))
        return ops

    def mps_ops_grad_modifier(ops):
        XFAILLIST_GRAD = {"sort": [torch.float16, torch.float32]}
        SKIPLIST_GRAD = {"neg": [torch.half]}

        for op in ops:
            key = op.name + op.variant_test_name
            if key in XFAILLIST_GRAD:
                addDecorator(op, DecorateInfo(unittest.expectedFailure, dtypes=XFAILLIST_GRAD[key]))
            if key in SKIPLIST_GRAD:
                addDecorator(op, DecorateInfo(unittest.skip, dtypes=SKIPLIST_GRAD[key]))
        return ops

    def mps_ops_error_inputs_modifier(ops):
        XFAILLIST = {"amax"}

        for op in ops:
            key = op.name + op.variant_test_name
            if key in XFAILLIST:
                addDecorator(op, DecorateInfo(unittest.expectedFailure))
        return ops
else:

    def mps_ops_modifier(ops, device_type="mps", xfail_exclusion=None, sparse=False):
        return ops
"""

ENTRIES = """\
_shared = (
    DecorateInfo(unittest.skip("Skipped!"), 'TestConsistency', device_type='mps', dtypes=(torch.bool,)),
)


def make_window(name):
    return OpInfo(name)


def make_special(variant_test_name):
    return OpInfo('special', dtypesIfMPS=floating_types())


def sample(op_info):
    return [1, 2]


op_db: list[OpInfo] = [
    OpInfo('abs', dtypes=all_types(), skips=(
        DecorateInfo(unittest.expectedFailure, 'TestCommon', device_type='mps'),
        DecorateInfo(toleranceOverride({}), 'TestConsistency', 'test_output_match', device_type='mps'),
        DecorateInfo(unittest.expectedFailure, 'TestConsistency', device_type='cuda'),
        DecorateInfo(unittest.skip("old"), 'TestConsistency', active_if=lambda _: MACOS_VERSION < 14.0),
    )),
    UnaryUfuncInfo('neg', dtypesIfMPS=all_types_and(torch.half, torch.bool),
                   backward_dtypesIfMPS=floating_types_and(torch.half),
                   skips=_shared + (DecorateInfo(unittest.expectedFailure, 'TestConsistency', 'test_output_grad_match',
                                                 device_type='mps', dtypes=(torch.float32,)),)),
    OpInfo('sort', dtypesIfMPS=(
        _dispatch_dtypes(t for t in all_types_and(torch.float16) if t != torch.int64)
        if MACOS_VERSION < 15.0 or IS_APPLE_M1 else integral_types_and(torch.float16)), decorators=[onlyCUDA]),
    BinaryUfuncInfo('div', variant_test_name='no_rounding_mode', dtypesIfMPS=custom_types(torch.float16)),
    *(OpInfo('poly', variant_test_name=f'n_{n}', dtypesIfMPS=floating_types()) for n in (1, 2)),
    make_window(name='window.hann'),
    make_special(variant_test_name='special_1'),
]
op_db += opinfo.definitions.op_db
"""


def _members(lists: str = LISTS, entries: str = ENTRIES) -> dict[str, str | bytes | None]:
    """Small versions of the files of a wheel that say what PyTorch's tests expect."""
    root = "torch/testing/_internal"
    files = ("fft", "linalg", "signal", "special", "_masked")
    return {
        f"{root}/common_mps.py": lists,
        f"{root}/common_methods_invocations.py": entries,
        **{f"{root}/opinfo/definitions/{name}.py": "op_db: list[OpInfo] = []\n" for name in files},
    }


def _read(tmp_path: Path, lists: str = LISTS, entries: str = ENTRIES) -> Expectations:
    with Wheel(make_wheel(tmp_path, members=_members(lists, entries))) as wheel:
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
        ("custom_types(torch.float16)", "new_types(torch.float16)", "gives dtypes: new_types"),
        ("integral_types_and(torch.float16)", "_dispatch_dtypes(t for t in all_types() if t)", "a selection of dtypes"),
        ("OpInfo('abs',", "OpInfo(*some,", "a name"),
        ("lambda _: MACOS_VERSION < 14.0", "lambda p: p['x']", "a condition"),
        ("op_db: list[OpInfo] = [", "other: list[OpInfo] = [", "no list op_db"),
        ("'sort'", "'so rt'", "is called 'so rt'"),
    ],
)
def test_a_new_form_of_the_lists_or_of_an_entry_is_told(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert (old in LISTS) != (old in ENTRIES)
    with pytest.raises(TableError, match=message):
        _read(tmp_path, LISTS.replace(old, new), ENTRIES.replace(old, new))


def test_a_wheel_that_lacks_the_entries_is_told_and_one_without_lists_has_none(tmp_path: Path) -> None:
    members = {**_members(), "torch/testing/_internal/opinfo/definitions/fft.py": None}
    with Wheel(make_wheel(tmp_path, members=members)) as wheel, pytest.raises(TableError, match=r"lacks .*fft\.py"):
        read_expectations(wheel)
    with Wheel(make_wheel(tmp_path)) as wheel:
        assert not has_expectations(wheel)


def test_kernels_build_makes_them_too(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, members=_members())
    [built] = rebuild(from_files([str(path)]), SilentProgress())
    assert built.expectations is not None
    file = next(file for file in built.files if file.name.endswith(".expectations"))
    assert (file.name, file.same) == ("torch-2.13.0.expectations", False)
    read = decode(file.data, "x", load_expectations("2.12.1"))
    assert read == built.expectations


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
