"""The machinery of contracts: clauses that are left out, what a failure says, and the class that pytest collects."""

from __future__ import annotations

import dataclasses
import os
import random
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from sound_objects import Runs, Scans

from mpsprobe.declarations import (
    CommandDeclaration,
    DeviceDeclaration,
    ExporterDeclaration,
    ProbeDeclaration,
    RunnerDeclaration,
    ScannerDeclaration,
    WorkloadDeclaration,
)
from mpsprobe_devkit.testing import (
    Broken,
    FakeDevice,
    FakeProbe,
    FakeWorkload,
    TinyWorkload,
    broken_clauses,
    device_contract,
    exporter_contract,
    probe_contract,
    runner_contract,
    scanner_contract,
    workload_contract,
)
from mpsprobe_devkit.testing.contracts import device, exporter, probe, runner, scanner, workload
from mpsprobe_devkit.testing.contracts.clauses import Contract, listed, restored
from mpsprobe_devkit.testing.contracts.leaving import left_as_found
from mpsprobe_devkit.testing.contracts.subjects import given

CONTRACTS: list[Contract[Any]] = [
    device.DEVICE,
    exporter.EXPORTER,
    probe.PROBE,
    runner.RUNNER,
    scanner.SCANNER,
    workload.WORKLOAD,
]
TESTS = """
from mpsprobe.declarations import ExporterDeclaration
from mpsprobe_devkit.testing import exporter_contract, workload_contract, TinyWorkload
from badge import Badge

TestBadge = exporter_contract(Badge, extension=".txt", kinds=["coverage"])
TestDeclared = exporter_contract(ExporterDeclaration("badge", "badge:Badge", "x", ".txt", kinds=("coverage",)))
TestTiny = workload_contract(TinyWorkload())
"""
BADGE = """
from mpsprobe.errors import ReportError
from mpsprobe.schemas import CoverageReport

class Badge:
    def render(self, report):
        if not isinstance(report, CoverageReport):
            raise ReportError("it reads coverage")
        return {expression}
"""


class OneLine:
    """An exporter."""

    def render(self, report: Any) -> str:
        return f"{report.kind.encode()!r}\n"


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda one: one.kind)
def test_every_clause_says_what_it_asks_for(contract: Contract[Any]) -> None:
    names = [one.name for one in contract.clauses]
    assert len(set(names)) == len(names) >= 7
    assert contract.clauses[0].rested_on
    for one in contract.clauses:
        assert one.says.endswith((".", "?")) and len(one.says) > 20, one.name


def test_a_clause_is_left_out_with_a_reason() -> None:
    class Silent(OneLine):
        def render(self, report: Any) -> str:
            return super().render(report).strip()

    whole = exporter_contract(Silent)
    without = exporter_contract(Silent, without={"ends_with_one_line_end": "its readers want none"})
    tests = {name for name in dir(whole) if name.startswith("test_")}
    assert tests - set(dir(without)) == {"test_ends_with_one_line_end"}
    with pytest.raises(AssertionError, match="does not end with a line end"):
        whole().test_ends_with_one_line_end()
    without().test_prints_nothing()


@pytest.mark.parametrize(
    ("without", "says"),
    [
        ({"ends_with_one_lineend": "why"}, "did you mean ends_with_one_line_end"),
        ({"zzz": "why"}, "there are: is_what_it_declares"),
        ({"prints_nothing": " "}, "say why"),
    ],
)
def test_a_clause_that_there_is_not_cannot_be_left_out(without: dict[str, str], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        exporter_contract(OneLine, without=without)


def test_a_failure_says_the_clause_and_what_is_broken_and_has_the_cause() -> None:
    class Fails:
        def render(self, report: Any) -> str:
            raise KeyError("verdict")

    with pytest.raises(AssertionError) as caught:
        exporter_contract(Fails)().test_renders_what_it_reads()
    problem, clause = str(caught.value).splitlines()
    assert "raised KeyError: 'verdict' (test_clauses.py:" in problem
    assert clause.startswith("The contract: Each report of its kinds is rendered")
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_declaration_says_all_there_is_to_say() -> None:
    declaration = ExporterDeclaration("x", "m:X", "x", ".x")
    with pytest.raises(TypeError, match="give them there"):
        exporter_contract(declaration, binary=True)
    with pytest.raises(TypeError, match="give it there"):
        workload_contract(WorkloadDeclaration("x", "m:x", "x"), name="x")
    with pytest.raises(TypeError, match="no contract for a CommandDeclaration"):
        broken_clauses(CommandDeclaration("x", "m:x", "x"))


def test_collecting_imports_nothing_of_the_plugin() -> None:
    target = "no_such_module:X"
    suite = exporter_contract(ExporterDeclaration("x", target, "x", ".x"))
    with pytest.raises(AssertionError, match="no_such_module"):
        suite().test_is_what_it_declares()


def test_each_kind_takes_a_class_or_an_object() -> None:
    suites = [
        exporter_contract(OneLine()),
        workload_contract(TinyWorkload()),
        workload_contract(FakeWorkload, phases=["inference"]),
        workload_contract(lambda name: TinyWorkload(name), name="net"),
        probe_contract(FakeProbe),
        probe_contract(FakeProbe(), device=FakeDevice),
        device_contract(FakeDevice("x"), workload=FakeWorkload()),
        runner_contract(Runs(), workload=FakeWorkload()),
        scanner_contract(Scans),
    ]
    for suite in suites:
        suite().test_is_what_it_declares()
        assert suite.__doc__ and "keeps the contract" in suite.__doc__


def test_names_in_a_sentence() -> None:
    assert listed(["a"]) == "'a'"
    assert listed(["a", "b", "c"]) == "'a', 'b' and 'c'"
    assert listed([]) == "nothing"


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """pytest as a stranger runs it, in a project of its own."""
    (folder / "pyproject.toml").write_text("[tool.pytest.ini_options]\npythonpath = ['.']\n", encoding="utf-8")
    (folder / "tests").mkdir()
    (folder / "tests" / "test_mine.py").write_text(TESTS, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-W", "error", "--import-mode=importlib", "-p", "no:cacheprovider"]
    return subprocess.run(
        [*command, *arguments, "tests"], cwd=folder, capture_output=True, text=True, check=False, timeout=300
    )


@pytest.mark.thorough
def test_under_a_strangers_pytest_with_xdist(tmp_path: Path) -> None:
    (tmp_path / "badge.py").write_text(BADGE.format(expression='"all native\\n"'), encoding="utf-8")
    done = run_pytest(tmp_path, "-n", "2", "-v")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tests/test_mine.py::TestBadge::test_ends_with_one_line_end" in done.stdout
    assert "tests/test_mine.py::TestDeclared::test_is_the_same_in_another_process" in done.stdout
    assert "tests/test_mine.py::TestTiny::test_honours_the_dtype" in done.stdout


def test_a_failure_under_pytest_shows_the_plugins_code_and_not_ours(tmp_path: Path) -> None:
    (tmp_path / "badge.py").write_text(BADGE.format(expression="report.no_such_field"), encoding="utf-8")
    done = run_pytest(tmp_path, "-k", "TestBadge and renders_what_it_reads")
    assert done.returncode == 1
    assert "return report.no_such_field" in done.stdout
    assert "raised AttributeError" in done.stdout
    assert "def doing" not in done.stdout and "__tracebackhide__" not in done.stdout


MODULE = """
from mpsprobe_devkit.testing import FakeDevice, FakeProbe, FakeRunner, FakeWorkload, TinyWorkload
from sound_objects import Scans

class Device(FakeDevice):
    name = "fake"

def make(name):
    return TinyWorkload(name)
"""


def test_every_kind_of_declaration_has_its_contract(plugin_folder: Path) -> None:
    (plugin_folder / "parts.py").write_text(MODULE, encoding="utf-8")
    sound = [
        WorkloadDeclaration("tiny", "parts:make", "x"),
        ProbeDeclaration("fake", "parts:FakeProbe", "x"),
        DeviceDeclaration("fake", "parts:Device", "x"),
        RunnerDeclaration("fake", "parts:FakeRunner", "x"),
        ScannerDeclaration("fake", "parts:Scans", "x"),
    ]
    for declaration in sound:
        assert broken_clauses(declaration) == [], declaration
        [found] = broken_clauses(dataclasses.replace(declaration, target="parts:Nothing"))
        assert found.clause == "is_what_it_declares" and "'parts:Nothing'" in found.problem


def test_an_exception_that_no_clause_expects_is_told_all_the_same() -> None:
    class Odd(FakeDevice):
        @property
        def name(self) -> str:  # type: ignore[override]
            raise LookupError("no name today")

        @name.setter
        def name(self, value: str) -> None:
            del value

    [found] = device.DEVICE.broken(device.DeviceSubject(DeviceDeclaration("x", "m:x", "x"), given(Odd), FakeWorkload()))
    assert "no name today" in found.problem


def test_what_a_process_state_can_put_back_is_put_back(tmp_path: Path) -> None:
    import numpy

    before = (Path.cwd(), numpy.random.get_state()[1].tolist(), random.getstate(), torch.get_rng_state().tolist())
    with restored():
        os.chdir(tmp_path)
        numpy.random.seed(1)
        random.seed(1)
        torch.manual_seed(1)
        sys.setrecursionlimit(sys.getrecursionlimit() + 1)
        torch.set_default_device("meta")
    after = (Path.cwd(), numpy.random.get_state()[1].tolist(), random.getstate(), torch.get_rng_state().tolist())
    assert after == before
    assert torch.get_default_device() == torch.device("cpu")


def test_what_is_left_changed_is_named_and_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MADE_BY_A_TEST", "1")
    filters = list(warnings.filters)
    with pytest.raises(Broken) as caught, left_as_found("it"):
        os.environ["MADE_BY_A_TEST"] = "2"
        sys.path.append("elsewhere")
        warnings.simplefilter("ignore")
    assert str(caught.value) == "it changes 'sys.path', 'the warnings filter' and 'the variable MADE_BY_A_TEST'"
    assert os.environ["MADE_BY_A_TEST"] == "1" and "elsewhere" not in sys.path and list(warnings.filters) == filters
