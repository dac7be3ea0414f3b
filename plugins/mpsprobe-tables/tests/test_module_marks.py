"""The marks of PyTorch's modules: as shipped, and as read from the sources of a wheel."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_wheel import make_wheel

from mpsprobe.errors import TableError, UnknownName
from mpsprobe_tables.builder.module_marks import MEMBER, has_module_marks, read_module_marks
from mpsprobe_tables.builder.wheel import Wheel
from mpsprobe_tables.module_marks import (
    FORWARD_TEST,
    GRADIENT_TEST,
    Mark,
    Mode,
    ModuleMarks,
    load_marks,
    module_releases,
)

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
