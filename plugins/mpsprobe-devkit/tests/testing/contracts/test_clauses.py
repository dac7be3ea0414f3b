"""The machinery of contracts: clauses that are left out, what a failure says, and the class that pytest collects."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from mpsprobe.declarations import (
    CommandDeclaration,
    DeviceDeclaration,
    ExporterDeclaration,
    ProbeDeclaration,
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
    workload_contract,
)
from mpsprobe_devkit.testing.contracts.clauses import listed, want_no_traces
from mpsprobe_devkit.testing.contracts.device import DeviceContract, RunnerContract
from mpsprobe_devkit.testing.contracts.exporter import ExporterContract
from mpsprobe_devkit.testing.contracts.probe import ProbeContract
from mpsprobe_devkit.testing.contracts.scanner import ScannerContract
from mpsprobe_devkit.testing.contracts.workload import WorkloadContract

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


CONTRACTS = (DeviceContract, ExporterContract, ProbeContract, RunnerContract, ScannerContract, WorkloadContract)


def test_every_clause_says_what_it_asks_for() -> None:
    for contract in CONTRACTS:
        clauses = contract.clauses()
        assert len(clauses) >= 7 and next(iter(clauses)) in contract.rested_on
        assert not [name for name, one in clauses.items() if len(one.__doc__ or "") < 20]


def test_a_clause_is_left_out_with_a_reason() -> None:
    class Silent(OneLine):
        def render(self, report: Any) -> str:
            return super().render(report).strip()

    whole: Any = exporter_contract(Silent)
    without: Any = exporter_contract(Silent, without={"ends_with_one_line_end": "its readers want none"})
    assert set(whole.clauses()) - set(without.clauses()) == {"ends_with_one_line_end"}
    with pytest.raises(AssertionError, match="does not end with a line end"):
        whole().test_ends_with_one_line_end()
    for wrong, says in (
        ({"ends_with_one_lineend": "why"}, "but 'ends_with_one_line_end'"),
        ({"zzz": "why"}, "but 'is_what_it_declares', "),
        ({"prints": " "}, "no clause 'prints'"),
        ({"stays_well_formed": " "}, "say why"),
    ):
        with pytest.raises(ValueError, match=says):
            exporter_contract(OneLine, without=wrong)


def test_a_failure_says_what_is_broken_and_has_the_cause() -> None:
    class Fails:
        def render(self, report: Any) -> str:
            raise KeyError("verdict")

    suite: Any = exporter_contract(Fails)
    with pytest.raises(AssertionError, match=r"raised KeyError: 'verdict' \(test_clauses.py:") as caught:
        suite().test_renders_what_it_reads()
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_declaration_says_all_there_is_to_say() -> None:
    with pytest.raises(TypeError, match="give them there"):
        exporter_contract(ExporterDeclaration("x", "m:X", "x", ".x"), binary=True)
    with pytest.raises(TypeError, match="no contract for a CommandDeclaration"):
        broken_clauses(CommandDeclaration("x", "m:x", "x"))


def test_collecting_imports_nothing_of_the_plugin() -> None:
    suite: Any = exporter_contract(ExporterDeclaration("x", "no_such_module:X", "x", ".x"))
    with pytest.raises(AssertionError, match="no_such_module"):
        suite().test_is_what_it_declares()


def test_each_kind_takes_a_class_or_an_object() -> None:
    suites: list[Any] = [
        exporter_contract(OneLine()),
        workload_contract(TinyWorkload()),
        workload_contract(FakeWorkload, phases=["inference"]),
        workload_contract(lambda name: TinyWorkload(name), name="net"),
        probe_contract(FakeProbe),
        probe_contract(FakeProbe(), device=lambda: FakeDevice()),
        device_contract(FakeDevice("x"), workload=FakeWorkload()),
    ]
    for suite in suites:
        suite().test_is_what_it_declares()
        assert suite.__doc__ and "keeps the contract" in suite.__doc__


def run_pytest(folder: Path, expression: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """pytest as a stranger runs it, in a project of its own."""
    (folder / "badge.py").write_text(BADGE.format(expression=expression), encoding="utf-8")
    (folder / "pyproject.toml").write_text("[tool.pytest.ini_options]\npythonpath = ['.']\n", encoding="utf-8")
    (folder / "tests").mkdir()
    (folder / "tests" / "test_mine.py").write_text(TESTS, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-W", "error", "--import-mode=importlib", "-p", "no:cacheprovider"]
    command += [*arguments, "tests"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)


def test_a_failure_under_pytest_shows_the_plugins_code_and_not_ours(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, "report.no_such_field", "-k", "TestBadge and renders_what_it_reads")
    assert done.returncode == 1
    assert "return report.no_such_field" in done.stdout
    assert "raised AttributeError" in done.stdout
    assert "def doing" not in done.stdout and "__tracebackhide__" not in done.stdout


MODULE = """
from mpsprobe_devkit.testing import FakeDevice, FakeProbe, TinyWorkload

class Device(FakeDevice):
    name = "fake"

def make(name):
    return TinyWorkload(name)
"""


def test_what_a_declaration_names_is_made_as_mpsprobe_makes_it(plugin_folder: Path) -> None:
    (plugin_folder / "parts.py").write_text(MODULE, encoding="utf-8")
    for declaration in (
        WorkloadDeclaration("tiny", "parts:make", "x"),
        ProbeDeclaration("fake", "parts:FakeProbe", "x"),
        DeviceDeclaration("fake", "parts:Device", "x"),
    ):
        assert broken_clauses(declaration) == [], declaration
        [found] = broken_clauses(dataclasses.replace(declaration, target="parts:Nothing"))
        assert found.clause == "is_what_it_declares" and "'parts:Nothing'" in found.problem


def test_what_is_left_changed_is_named_and_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MADE_BY_A_TEST", "1")
    filters, times = list(warnings.filters), iter(range(2, 4))

    def change() -> None:
        os.environ["MADE_BY_A_TEST"] = str(next(times))
        sys.path.append("elsewhere")
        warnings.simplefilter("ignore")

    with pytest.raises(Broken) as caught:
        want_no_traces("it", change)
    assert str(caught.value) == "it changes 'sys.path' and 'the variable MADE_BY_A_TEST'"
    warnings.filters[:] = filters  # type: ignore[index]
    while "elsewhere" in sys.path:
        sys.path.remove("elsewhere")


def test_names_in_a_sentence() -> None:
    assert [listed(names) for names in ([], ["a"], ["a", "b", "c"])] == ["nothing", "'a'", "'a', 'b' and 'c'"]
