"""What PyTorch's own tests expect: the shipped lists and marks, what they answer, and marks in a wheel."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_wheel import make_wheel
from packaging.version import Version

from mpsprobe.errors import TableError, UnknownName
from mpsprobe_coverage.kernels.mps import load_table
from mpsprobe_coverage.kernels.releases import torch_releases
from mpsprobe_tables.builder.module_marks import MEMBER, has_module_marks, read_module_marks
from mpsprobe_tables.builder.wheel import Wheel
from mpsprobe_tables.expectations import DATA, Expected, expectation_releases, load_expectations
from mpsprobe_tables.module_marks import (
    FORWARD_TEST,
    GRADIENT_TEST,
    Mark,
    Mode,
    ModuleMarks,
    load_marks,
    module_releases,
)

MOST_BYTES = 60_000


def test_there_is_one_for_each_release_with_lists() -> None:
    assert expectation_releases() == tuple(one for one in torch_releases() if Version(one) >= Version("2.8.0"))
    files = [DATA / f"torch-{release}.expectations" for release in expectation_releases()]
    assert sum(len(file.read_bytes()) for file in files) < MOST_BYTES


def test_each_comes_from_the_wheel_of_its_table() -> None:
    for release in expectation_releases():
        found, table = load_expectations(release), load_table(release)
        assert (found.release, found.wheel, found.sha256) == (release, table.wheel, table.sha256)
        assert len(found.entries) >= 680
        assert len(found.lists["UNIMPLEMENTED_XFAILLIST"]) >= 70
        assert (found.supported_complex is None) != (found.unsupported_complex is None)
        assert bool(found.claimed) == (release not in {"2.8.0", "2.9.0", "2.9.1", "2.10.0"})


FAILS = {
    ("2.13.0", "logspace", "float32", False): ("UNIMPLEMENTED_XFAILLIST",),
    ("2.13.0", "nn.functional.silu", "int16", False): ("UNIMPLEMENTED_XFAILLIST",),
    ("2.13.0", "lu", "complex64", False): ("SUPPORTED_COMPLEX_OPS",),
    ("2.13.0", "linalg.matrix_rank", "float32", False): ("ON_MPS_XFAILLIST",),
    ("2.13.0", "unique", "float32", True): ("gradient XFAILLIST_GRAD",),
    ("2.13.0", "logspace", "float32", True): ("UNIMPLEMENTED_XFAILLIST",),
    ("2.13.0", "kthvalue", "bool", False): ("decorators",),
    ("2.8.0", "linalg.matrix_rank", "float32", False): ("ON_MPS_XFAILLIST",),
}
PASSES = (
    ("2.13.0", "nn.functional.silu", "float16", False),
    ("2.13.0", "abs", "complex64", False),
    ("2.15.0", "abs", "complex64", False),
    ("2.13.0", "unique", "float32", False),
    ("2.13.0", "kthvalue", "int8", False),
)


def test_what_a_release_expects() -> None:
    expected = {case: Expected("fail", lists) for case, lists in FAILS.items()} | dict.fromkeys(
        PASSES, Expected("pass")
    )
    expected["2.13.0", "empty", "float32", False] = Expected("skip", ("EMPTY_OPS_SKIPLIST",))
    assert {case: load_expectations(case[0]).expected(*case[1:]) for case in expected} == expected


def test_which_pairs_a_release_tests() -> None:
    newest, oldest = load_expectations("2.13.0"), load_expectations("2.8.0")
    assert newest.tests("nn.functional.silu", "int16", ["float32"])  # the entry claims it for MPS
    assert not oldest.tests("nn.functional.silu", "int16", ["float32"])
    assert not newest.tests("abs", "float64", ["float64"])
    assert not newest.tests("an_entry_of_tomorrow", "float32", ["float32"])
    assert newest.tests("signal.windows.hann", "float32", ["float32"])  # made by a helper function
    assert not newest.tests("torch._scaled_mm", "float32", [])


def test_a_release_without_lists_is_told() -> None:
    with pytest.raises(UnknownName, match=r"2\.7\.1"):
        load_expectations("2.7.1")


DATABASE = """\
_macos15_or_newer = torch.backends.mps.is_available() and torch.backends.mps.is_macos_or_newer(15, 0)
_shared = (DecorateInfo(unittest.expectedFailure, 'TestModule', 'test_forward', device_type='mps',
                        dtypes=[torch.float16]),)


class ModuleInfo:
    def __init__(self, module_cls, *, dtypes=floating_types(), dtypesIfMPS=(torch.float16, torch.float32,)):
        pass


module_db: list[ModuleInfo] = [
    ModuleInfo(torch.nn.Plain, module_inputs_func=inputs),
    ModuleInfo(torch.nn.Skipped, skips=(DecorateInfo(skipMPS),)),
    ModuleInfo(torch.nn.Elsewhere, skips=(
        DecorateInfo(skipMPS, device_type='cuda'),
        DecorateInfo(unittest.expectedFailure, 'TestModule', 'test_memory_format'),
        DecorateInfo(unittest.expectedFailure, 'TestEagerFusion', 'test_forward'),
        DecorateInfo(skipIfMps, 'TestModule', dtypes=[torch.float64]),
        DecorateInfo(toleranceOverride({}), 'TestModule', 'test_forward'),
    )),
    ModuleInfo(torch.nn.Half, decorators=_shared),
    ModuleInfo(torch.nn.Idle, skips=[DecorateInfo(expectedFailureMPS, 'TestModuleMPS', 'test_forward')]),
    ModuleInfo(torch.nn.Training, skips=(
        DecorateInfo(expectedFailureMPS, 'TestModule', active_if=operator.itemgetter('training')),
        DecorateInfo(skipMPS, active_if=operator.itemgetter('training') and not _macos15_or_newer),
    )),
    ModuleInfo(torch.nn.Older, skips=None if _macos15_or_newer else (DecorateInfo(skipMPS),)),
]
"""


def _read(tmp_path: Path, source: str = DATABASE) -> ModuleMarks:
    with Wheel(make_wheel(tmp_path, members={MEMBER: source})) as wheel:
        assert has_module_marks(wheel)
        return read_module_marks(wheel)


def test_marks_are_read_for_the_newest_mac(tmp_path: Path) -> None:
    made = _read(tmp_path)
    assert made.dtypes == ("float16", "float32")
    marks = {module.removeprefix("nn."): [str(mark) for mark in them] for module, them in made.modules.items()}
    assert marks == {
        "Plain": [],
        "Skipped": ["skip TestModule * * *"],
        "Elsewhere": [],
        "Half": ["fail TestModule test_forward float16 *"],
        "Idle": ["fail TestModuleMPS test_forward * *"],
        "Training": ["fail TestModule * * train"],
        "Older": [],
    }


def test_what_is_expected(tmp_path: Path) -> None:
    made = _read(tmp_path)
    cases: dict[tuple[str, str, str, Mode], str] = {
        ("nn.Plain", FORWARD_TEST, "float32", "train"): "pass",
        ("nn.Skipped", GRADIENT_TEST, "float32", "eval"): "skip",
        ("nn.Half", FORWARD_TEST, "float16", "train"): "fail",
        ("nn.Half", FORWARD_TEST, "float32", "train"): "pass",
        ("nn.Half", GRADIENT_TEST, "float16", "train"): "pass",
        ("nn.Idle", FORWARD_TEST, "float32", "train"): "pass",  # the mark names a class that has no tests
        ("nn.Training", FORWARD_TEST, "float32", "train"): "fail",
        ("nn.Training", FORWARD_TEST, "float32", "eval"): "pass",
    }
    assert {case: made.expected(*case) for case in cases} == cases
    assert set(made.idle()) == {"nn.Idle"}


def test_another_form_is_told(tmp_path: Path) -> None:
    for old, new in (
        (DATABASE, "skipMPS"),
        ("ModuleInfo(torch.nn.Plain", "make(torch.nn.Plain"),
        ("skips=(DecorateInfo(skipMPS),)", "skips=marks_of(1)"),
        ("None if _macos15_or_newer", "None if SOMETHING_NEW"),
    ):
        with pytest.raises(TableError, match="common_modules"):
            _read(tmp_path, DATABASE.replace(old, new))


def test_what_is_shipped() -> None:
    assert module_releases()[0] == "2.1.0" and "2.13.0" in module_releases()
    marks = load_marks("2.13.0")
    assert marks.modules["nn.Conv3d"] == (Mark("skip", "TestModule", None, None, None),)
    assert list(marks.idle()) == ["nn.InstanceNorm3d"]
    with pytest.raises(UnknownName, match=r"2\.0\.0"):
        load_marks("2.0.0")
