"""What a wheel's own test modules say when they are executed, and what they may not do meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from made_wheel import make_wheel

from mpsprobe.progress import SilentProgress
from mpsprobe_tables.builder.expectations import (
    CannotBeImported,
    has_expectations,
    has_module_marks,
    read_expectations,
    read_module_marks,
)
from mpsprobe_tables.builder.rebuild import Rebuilt, from_files, rebuild
from mpsprobe_tables.builder.wheel import Wheel
from mpsprobe_tables.expectations import Expectations, decode, expectation_releases, load_expectations
from mpsprobe_tables.module_marks import FORWARD_TEST, GRADIENT_TEST, Mode, ModuleMarks

LISTS = """\
import unittest

import torch

from .common_utils import MACOS_VERSION
from .opinfo.core import DecorateInfo

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
            "of_tomorrow": [torch.bcomplex99],
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

        def addDecorator(op, d):
            op.decorators = op.decorators + (d,)

        for op in ops:
            key = op.name + op.variant_test_name
            if key in XFAILLIST_GRAD:
                addDecorator(op, DecorateInfo(unittest.expectedFailure, dtypes=XFAILLIST_GRAD[key]))
            if key in SKIPLIST_GRAD:
                addDecorator(op, DecorateInfo(unittest.skip, dtypes=SKIPLIST_GRAD[key]))
        return ops

    def mps_ops_error_inputs_modifier(ops):
        XFAILLIST = {"amax"}

        def addDecorator(op, d):
            op.decorators = op.decorators + (d,)

        for op in ops:
            key = op.name + op.variant_test_name
            if key in XFAILLIST:
                addDecorator(op, DecorateInfo(unittest.expectedFailure))
        return ops
else:

    def mps_ops_modifier(ops, device_type="mps", xfail_exclusion=None, sparse=False):
        return ops
"""

UTILITIES = """\
import platform
import sys

IS_MACOS, IS_LINUX = sys.platform == "darwin", sys.platform == "linux"
MACOS_VERSION = float(".".join(platform.mac_ver()[0].split(".")[:2]) or -1)
"""

CORE = """\
class DecorateInfo:
    def __init__(self, decorators, cls_name=None, test_name=None, *, device_type=None, dtypes=None, active_if=True):
        self.decorators = list(decorators) if isinstance(decorators, (list, tuple)) else [decorators]
        self.cls_name, self.test_name, self.device_type = cls_name, test_name, device_type
        self.dtypes, self.active_if = dtypes, active_if


class OpInfo:
    def __init__(self, name, *, variant_test_name="", **given):
        self.name, self.variant_test_name = name, variant_test_name


class UnaryUfuncInfo(OpInfo):
    def __init__(self, name, dtypesIfMPS=(), **given):
        super().__init__(name, dtypesIfMPS=None, **given)


class onlyOn:
    def __init__(self, device_type):
        self.device_type = device_type


def onlyCUDA(fn):
    return onlyOn("cuda")


def skipMPS(fn):
    return fn


def expectedFailureMPS(fn):
    return fn
"""

ENTRIES = """\
import unittest

import torch

from torch.only_of_tomorrow import foreach

from .common_utils import IS_MACOS, MACOS_VERSION
from .opinfo.core import DecorateInfo, OpInfo, UnaryUfuncInfo, onlyCUDA, onlyOn

torch.function_of_tomorrow()
_shared = (
    DecorateInfo(unittest.skip("Skipped!"), 'TestConsistency', device_type='mps', dtypes=(torch.bool,)),
)


def make_window(name):
    return OpInfo(name, dtypes=(torch.float32,))


def make_special(variant_test_name):
    return OpInfo('special', variant_test_name=variant_test_name, dtypesIfMPS=(torch.float32,))


op_db: list[OpInfo] = [
    OpInfo('abs', skips=(
        DecorateInfo(unittest.expectedFailure, 'TestCommon', device_type='mps'),
        DecorateInfo(lambda f: f, 'TestConsistency', 'test_output_match', device_type='mps'),
        DecorateInfo(unittest.expectedFailure, 'TestConsistency', device_type='cuda'),
        DecorateInfo(unittest.skip("old"), 'TestConsistency', active_if=lambda _: MACOS_VERSION < 14.0),
        DecorateInfo(unittest.skip("here"), 'TestConsistency', active_if=not IS_MACOS),
        onlyOn(["cpu", "mps"]),
    )),
    UnaryUfuncInfo('neg', dtypesIfMPS=(torch.half, torch.bool, torch.float64), backward_dtypesIfMPS=[torch.half],
                   skips=_shared + (DecorateInfo(unittest.expectedFailure, 'TestConsistency', 'test_output_grad_match',
                                                 device_type='mps', dtypes=(torch.float32,)),)),
    OpInfo('sort', dtypesIfMPS={torch.half} if MACOS_VERSION < 15.0 else {torch.int8}, decorators=[onlyCUDA]),
    OpInfo('div', variant_test_name='no_rounding_mode', dtypesIfMPS=()),
    *(OpInfo('poly', variant_test_name=f'n_{n}', dtypesIfMPS=(torch.float32,)) for n in (1, 2)),
    make_window(name='window.hann'),
    make_special(variant_test_name='special_1'),
]
dsl_ops_by_dsl = {"triton": [OpInfo('bmm', variant_test_name='triton_optimized')]}
for ops in dsl_ops_by_dsl.values():
    op_db.extend(ops)
"""

MODULES = """\
import operator
import unittest

import torch

from .opinfo.core import DecorateInfo, expectedFailureMPS, skipMPS

_macos15_or_newer = torch.backends.mps.is_available() and torch.backends.mps.is_macos_or_newer(15, 0)
_shared = (DecorateInfo(unittest.expectedFailure, 'TestModule', 'test_forward', device_type='mps',
                        dtypes=[torch.float16]),)


class ModuleInfo:
    def __init__(self, module_cls, *, skips=(), decorators=(), dtypes=(torch.float64,),
                 dtypesIfMPS=(torch.float16, torch.float32, torch.bfloat16)):
        self.name = f"nn.{module_cls.__name__}"


module_db: list[ModuleInfo] = [
    ModuleInfo(torch.nn.Linear),
    ModuleInfo(torch.nn.Conv1d, skips=(DecorateInfo(skipMPS),)),
    ModuleInfo(torch.nn.Conv2d, skips=(
        DecorateInfo(skipMPS, device_type='cuda'),
        DecorateInfo(unittest.expectedFailure, 'TestModule', 'test_memory_format'),
        DecorateInfo(unittest.expectedFailure, 'TestEagerFusion', 'test_forward'),
        DecorateInfo(skipMPS, 'TestModule', dtypes=[torch.float64]),
        DecorateInfo(lambda f: f, 'TestModule', 'test_forward'),
    )),
    ModuleInfo(torch.nn.GELU, decorators=_shared),
    ModuleInfo(torch.nn.ReLU, skips=[DecorateInfo(expectedFailureMPS, 'TestModuleMPS', 'test_forward')]),
    ModuleInfo(torch.nn.Dropout, skips=(
        DecorateInfo(expectedFailureMPS, 'TestModule', active_if=operator.itemgetter('training')),
        DecorateInfo(skipMPS, active_if=operator.itemgetter('training') and not _macos15_or_newer),
    )),
    ModuleInfo(torch.nn.SiLU, skips=None if _macos15_or_newer else (DecorateInfo(skipMPS),)),
]
"""


def _members(**changed: str) -> dict[str, str | bytes | None]:
    """Small versions of the files of a wheel that say what PyTorch's tests expect."""
    files = {
        "__init__": "",
        "common_mps": LISTS,
        "common_utils": UTILITIES,
        "common_methods_invocations": ENTRIES,
        "common_modules": MODULES,
        "opinfo/__init__": "",
        "opinfo/core": CORE,
    }
    return {f"torch/testing/_internal/{name}.py": text for name, text in {**files, **changed}.items()}


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> tuple[Expectations, ModuleMarks]:
    """What the small files say."""
    with Wheel(make_wheel(tmp_path_factory.mktemp("wheel"), members=_members())) as wheel:
        assert has_expectations(wheel) and has_module_marks(wheel)
        return read_expectations(wheel), read_module_marks(wheel)


def test_lists_are_those_of_the_newest_macos(read: tuple[Expectations, ModuleMarks]) -> None:
    made, _ = read
    assert [(name, listed) for name, listed in made.sections.items() if name.startswith("forward ")] == [
        ("forward EMPTY_OPS_SKIPLIST", {"empty": "*"}),
        (
            "forward UNIMPLEMENTED_XFAILLIST",
            {
                "put": "*",
                "of_tomorrow": "bcomplex99",  # a dtype that the installed torch lacks
                "silu": "int16 uint8",
                "round": "bfloat16",
                "new": "*",
            },
        ),
        ("forward UNDEFINED_XFAILLIST", {"put": "float32"}),
        ("forward MACOS_13_3_XFAILLIST", {"sort": "float16"}),
    ]
    assert made.kinds["forward EMPTY_OPS_SKIPLIST"] == "skip"
    assert made.kinds["forward UNIMPLEMENTED_XFAILLIST"] == "fail"
    assert made.of("supported_complex").keys() == {"add", "abs", "neg"}
    assert "unsupported_complex" not in made.sections
    assert made.of("gradient XFAILLIST_GRAD") == {"sort": "float16 float32"}
    assert made.kinds["gradient SKIPLIST_GRAD"] == "skip"
    assert made.of("error_inputs XFAILLIST") == {"amax": "*"}


def test_entries_say_what_they_claim(read: tuple[Expectations, ModuleMarks]) -> None:
    made, _ = read
    entries = {"abs", "neg", "sort", "divno_rounding_mode", "polyn_1", "polyn_2", "specialspecial_1"}
    assert made.of("entries").keys() == entries
    assert made.of("claimed") == {
        "neg": "bool float16",
        "sort": "int8",
        "divno_rounding_mode": "-",
        "polyn_1": "float32",
        "polyn_2": "float32",
        "specialspecial_1": "float32",
    }
    assert made.of("claimed_backward") == {"neg": "float16"}
    assert made.of("decorators") == {
        "neg": "skip * bool; fail test_output_grad_match float32",
        "sort": "skip * *",
    }
    assert made.of("elsewhere").keys() == {"window.hann"}


def test_marks_are_those_of_the_newest_mac(read: tuple[Expectations, ModuleMarks]) -> None:
    _, made = read
    assert made.dtypes == ("float16", "float32")
    assert {module.removeprefix("nn."): marks for module, marks in made.modules.items()} == {
        "Linear": "-",
        "Conv1d": "skip TestModule * * *",
        "Conv2d": "-",
        "GELU": "fail TestModule test_forward float16 *",
        "ReLU": "fail TestModuleMPS test_forward * *",
        "Dropout": "fail TestModule * * train",
        "SiLU": "-",
    }
    cases: dict[tuple[str, str, str, Mode], str] = {
        ("nn.Linear", FORWARD_TEST, "float32", "train"): "pass",
        ("nn.Conv1d", GRADIENT_TEST, "float32", "eval"): "skip",
        ("nn.GELU", FORWARD_TEST, "float16", "train"): "fail",
        ("nn.GELU", FORWARD_TEST, "float32", "train"): "pass",
        ("nn.GELU", GRADIENT_TEST, "float16", "train"): "pass",
        ("nn.ReLU", FORWARD_TEST, "float32", "train"): "pass",  # the mark names a class that has no tests
        ("nn.Dropout", FORWARD_TEST, "float32", "train"): "fail",
        ("nn.Dropout", FORWARD_TEST, "float32", "eval"): "pass",
    }
    assert {case: made.expected(*case) for case in cases} == cases
    assert made.idle() == ("nn.ReLU",)


ELSEWHERE = "/mpsprobe-written-by-a-wheel"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("import socket; socket.create_connection(('localhost', 9))", r"may not: socket\."),
        ("import subprocess, sys; subprocess.run([sys.executable])", r"may not: subprocess\.Popen"),
        (f"import os; os.mkdir({ELSEWHERE!r})", r"may not: os\.mkdir"),
        ("def", "SyntaxError"),
    ],
)
def test_what_a_test_module_may_not_do_or_cannot(tmp_path: Path, line: str, message: str) -> None:
    path = make_wheel(tmp_path, members=_members(common_mps=f"{LISTS}\n{line}\n"))
    with Wheel(path) as wheel, pytest.raises(CannotBeImported, match=rf"torch 2\.13\.0 cannot be imported .*{message}"):
        read_expectations(wheel)
    assert not Path(ELSEWHERE).exists()


def test_a_wheel_without_lists_has_none(tmp_path: Path) -> None:
    with Wheel(make_wheel(tmp_path)) as wheel:
        assert not has_expectations(wheel) and not has_module_marks(wheel)


@pytest.mark.slow
def test_kernels_build_makes_them_too_and_keeps_what_is_stored_where_it_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def built(version: str, **changed: str) -> Rebuilt:
        name = f"torch-{version}-cp311-cp311-macosx_14_0_arm64.whl"
        path = make_wheel(tmp_path, name, members=_members(**changed), version=version)
        [one] = rebuild(from_files([str(path)]), SilentProgress())
        return one

    new = built("9.0.0")
    assert new.expectations is not None and new.kept == ()
    file = next(file for file in new.files if file.name == "torch-9.0.0.expectations")
    assert decode(file.data, "x", load_expectations(expectation_releases()[-1])) == new.expectations
    other = built("2.13.0")  # not the wheel whose digest is stored: nothing of it is executed
    monkeypatch.setattr(Wheel, "sha256", load_expectations("2.13.0").sha256)
    broken = built("2.13.0", common_utils="def")
    for known, why in ((other, "the digest is not that"), (broken, "cannot be imported")):
        assert known.expectations == load_expectations("2.13.0")
        files = [file for file in known.files if file.name.endswith((".expectations", ".modules"))]
        assert [file.same for file in files] == [True, True]
        assert why in known.kept[0]
    with pytest.raises(CannotBeImported):  # nothing is stored of a new release
        built("9.0.0", common_utils="def")


def test_what_is_read_is_what_the_installed_torch_says() -> None:
    """Where the installed release is one that is shipped: its own objects say the same as its source text."""
    from torch.testing._internal.common_methods_invocations import op_db  # seconds, for this test alone

    release = torch.__version__.partition("+")[0]
    if release not in expectation_releases() or not load_expectations(release).of("claimed"):
        release = "2.13.0"  # of another torch only what both have is compared
    conditional = {"scatter_reduceamin", "scatter_reduceamax"}  # claim int64 on macOS 15 only
    by_extension = {"bmmtriton_optimized"}  # added by a loop that no macOS build runs
    entries = {entry.name + entry.variant_test_name: entry for entry in op_db}
    expected = load_expectations(release)
    same = torch.__version__.startswith(release)
    for key in sorted(entries.keys() - by_extension if same else ()):
        entry = entries[key]
        assert expected.has(key), key
        if key in expected.of("entries") and key not in conditional:
            own = {str(dtype).removeprefix("torch.") for dtype in entry.dtypesIfMPS}
            cpu = {str(dtype).removeprefix("torch.") for dtype in entry.dtypes} - {"float64", "complex128"}
            assert set(expected.of("claimed").get(key, " ".join(cpu)).split()) - {"-"} == own, key
