"""``mpsprobe.observe`` and ``mpsprobe.run_script``."""

from __future__ import annotations

from pathlib import Path

import pytest

import mpsprobe
from mpsprobe.errors import MpsprobeError, UsageError
from mpsprobe_coverage.commands.program_functions import ScriptOptions
from mpsprobe_coverage.commands.run import run as command

SCRIPT = """
import sys
import torch
x = torch.ones(3, 3, device="mps")
torch.linalg.eigvals(x)
sys.exit(int(sys.argv[1]))
"""


def test_a_device_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="there is no device 'gpu'"):
        mpsprobe.observe("gpu")
    with pytest.raises(UsageError, match=r"torch .* finds no xpu here"):
        mpsprobe.observe("xpu")


@pytest.mark.slow
def test_a_script_is_run_and_judged(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(SCRIPT, encoding="utf-8")
    report = mpsprobe.run_script(tmp_path / "mine.py", ["3"], torch="2.13.0", explain=True)
    assert [one.operator for one in report.findings] == ["aten::_linalg_eigvals"] and report.explained
    assert report.program is not None and (report.program.exit_code, report.program.arguments) == (3, ["3"])


MARKED = """
import pytest
import torch

@pytest.mark.mps
def test_body():
    torch.linalg.eigvals(torch.eye(2, device="mps"))

def test_fixture(mps_coverage):
    with pytest.raises(pytest.fail.Exception, match="is open in this process already"):
        mps_coverage(torch.nn.Linear(4, 2), torch.ones(1, 4))
"""


@pytest.mark.slow
def test_a_marked_test_runs_on_the_device_of_the_program(tmp_path: Path) -> None:
    """``mpsprobe run`` judges it: two devices would not know of each other."""
    (tmp_path / "test_mine.py").write_text(MARKED, encoding="utf-8")
    arguments = ["-q", "-p", "no:cacheprovider", "-c", str(tmp_path / "pytest.ini"), str(tmp_path)]
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    report = mpsprobe.run_script("pytest", arguments, module=True, torch="2.13.0")
    assert report.program is not None and report.program.exit_code == 0
    assert [one.operator for one in report.findings] == ["aten::_linalg_eigvals"]


def test_what_cannot_be_run_is_told(tmp_path: Path) -> None:
    (tmp_path / "ends.py").write_text("import os\nos._exit(4)\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"there is no script 'main\.py'"):
        mpsprobe.run_script("main.py")
    with pytest.raises(UsageError, match="unknown device 'gpu'"):
        mpsprobe.run_script(tmp_path / "ends.py", device="gpu")
    with pytest.raises(MpsprobeError, match="the program ended with exit code 4 before Python did"):
        mpsprobe.run_script(tmp_path / "ends.py")


def test_its_options_are_the_flags_of_the_command() -> None:
    flags = {option.opts[0].lstrip("-").replace("-", "_") for option in command.params}
    assert set(ScriptOptions.__annotations__) == flags - {
        "program", "all", "m", "build", "format", "o", "q", "fail_on", "allow",
    }  # fmt: skip
