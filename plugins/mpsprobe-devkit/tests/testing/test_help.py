"""Commands in tests, fakes, changed reports, strategies, and what code may not leave changed in the process."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
import warnings
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from mpsprobe.plugins.registry import get_registry
from mpsprobe.protocols import RunOptions, Scanner, Workload
from mpsprobe.schemas import CoverageReport, ProfileReport, Trace
from mpsprobe.schemas.record import Record
from mpsprobe.schemas.report import KINDS, parse_report
from mpsprobe_devkit.process_state import changed, process_state, put_back
from mpsprobe_devkit.testing import (
    CommandResult,
    FakeDevice,
    FakeProbe,
    FakeProgress,
    FakeScanner,
    FakeWorkload,
    device_contract,
    install_plugin,
    probe_contract,
    run_cli,
    sample_cell,
    sample_coverage_report,
    sample_reports,
    sample_trace,
    strategies,
    workload_contract,
)
from mpsprobe_devkit.testing.commands import command_environment
from mpsprobe_devkit.testing.mutations import HOSTILE_TEXTS, emptied, with_number, with_text
from mpsprobe_devkit.testing.strategies import hostile_texts, records, reports_of, traces

DECLARES = """
from mpsprobe import hookimpl
from mpsprobe.declarations import CommandDeclaration

@hookimpl
def mpsprobe_commands():
    return [CommandDeclaration("tell", "telling_command:command", "Tells what it was given.")]
"""
BODY = """
import os, sys
import click

@click.command()
@click.option("--word")
def command(word):
    os.environ["LEFT"] = "left"
    sys.path.append("left")
    print(word, sys.stdin.read(), os.getcwd(), os.environ["TELL"], os.environ.get("MPSPROBE_X"), sys.argv[1:])
    sys.stderr.buffer.write("zwölf\\r\\n".encode())
    os.chdir("..")
    raise SystemExit(3)
"""


def test_in_this_process_a_command_says_what_it_says_in_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_plugin(tmp_path, "telling", DECLARES, modules={"telling_command.py": BODY})
    monkeypatch.setenv("MPSPROBE_X", "not passed on")
    given: dict[str, Any] = {"cwd": tmp_path, "stdin": "from a pipe", "plugin_folders": [tmp_path]}
    apart, here = (
        run_cli("tell", "--word", "the word", **given, variables={"TELL": "given"}, process=process)
        for process in (True, False)
    )
    assert here == apart
    words = f"the word from a pipe {tmp_path.resolve()} given None ['tell', '--word', 'the word']\n"
    assert here == CommandResult(3, words, "zwölf\n")
    assert "telling_command" not in sys.modules and "left" not in sys.path
    assert "telling" not in {plugin.found.name for plugin in get_registry().plugins()}
    assert not {"TELL", "LEFT"} & set(os.environ) and Path.cwd() != tmp_path.parent
    monkeypatch.setenv("PYTHONPATH", "before")
    environment = command_environment({"MPSPROBE_Y": "y"}, [tmp_path])
    assert "MPSPROBE_X" not in environment and environment["MPSPROBE_Y"] == "y"
    assert environment["PYTHONPATH"] == f"{tmp_path}{os.pathsep}before"
    with pytest.raises(AssertionError, match="what went wrong"):
        CommandResult(2, "", "what went wrong").json()


TestFakeDevice = device_contract(FakeDevice, workload=FakeWorkload())
TestFakeProbe = probe_contract(FakeProbe)
TestFakeWorkload = workload_contract(FakeWorkload())


def test_a_scan_with_fakes() -> None:
    workload, scanner, progress = FakeWorkload("net"), FakeScanner(), FakeProgress()
    assert isinstance(workload, Workload) and isinstance(scanner, Scanner)
    options = RunOptions(phase="training")
    assert scanner.scan(workload, options, ["2.13.0"], progress) == sample_coverage_report()
    assert (workload.built, scanner.scanned) == ([options], [("net", options, ("2.13.0",))])
    assert progress.steps == [("start", 1, "net"), ("advance", None), ("stop",)]
    assert workload.describe() == {"name": "net", "architecture": "Fake"}


def test_samples_are_of_every_kind_and_of_the_size_that_is_asked_for() -> None:
    assert list(sample_reports()) == [*KINDS, "weather"]
    assert all(parse_report(report.model_dump_json()) == report for report in sample_reports().values())
    cell, trace = sample_cell("cuda", 2_000, 4), sample_trace(3)
    assert cell.step is not None and (cell.device, cell.step.median_ns, cell.step.outliers) == ("cuda", 2_000_000, 1)
    assert cell.throughput[0].per_second == 2_000 and cell.steps[0].duration_ns == 1_980_000
    assert len(trace.name) == 45 and max(trace.start_ns) == 2_900_000 and trace.names[-1] == "ProfilerStep#2"


@pytest.mark.parametrize("kind", KINDS)
def test_reports_changed_on_purpose_are_valid_and_changed_everywhere(kind: str) -> None:
    report = sample_reports()[kind]
    for text in HOSTILE_TEXTS.values():
        other = with_text(report, text)
        assert other != report and type(other) is KINDS[kind]
        if isinstance(other, CoverageReport) and isinstance(report, CoverageReport):
            assert {one.operator for one in other.operators} == {text}
            assert [one.verdict for one in other.operators] == [one.verdict for one in report.operators]
            assert other.failure is not None and other.failure.message == text
            assert text in other.operators[0].phases and other.workload.phase == "training"
    empty = emptied(report)
    assert empty.kind == kind and parse_report(empty.model_dump_json()) == empty
    assert "aten::" not in empty.model_dump_json() and "sample" not in empty.model_dump_json()
    for number in (0, 2**53):
        other = with_number(report, number)
        assert other != report
        if isinstance(other, CoverageReport):
            assert other.summary.calls == number and other.operators[0].calls == (number or 73)
        if isinstance(other, ProfileReport):
            assert other.cells[0].step is not None and other.cells[0].step.median_ns == number
            assert other.cells[0].trace is not None and other.cells[0].trace.names, "its columns still agree"


class Pattern(Record):
    """A report of a stranger's, that takes no text in one place and no number in another."""

    kind: str
    schema_version: int
    name: str
    version: str = Field(pattern="[0-9]+")
    sizes: dict[str, int] = Field(default={}, max_length=1)


def test_what_a_schema_refuses_is_put_back_and_equal_keys_are_numbered() -> None:
    report: Any = Pattern(kind="pattern", schema_version=1, name="a", version="12", sizes={"b": 1})
    other: Any = with_text(report, "<x>")
    assert (other.name, other.version, other.sizes, other.kind) == ("<x>", "12", {"<x>": 1}, "pattern")
    assert with_number(report, 5).model_dump() == {**report.model_dump(), "sizes": {"b": 5}}
    numbered: Any = with_text(sample_coverage_report(), "x")
    assert list(numbered.operators[1].phases) == ["x", "x2"]


QUICKLY = settings(phases=[Phase.generate], max_examples=1000, database=None)  # the first that fits, not the smallest


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=20)
@given(data=st.data())
def test_every_kind_has_its_strategy_and_reads_back(kind: str, data: st.DataObject) -> None:
    report = data.draw(reports_of(kind))
    assert type(report) is KINDS[kind] and parse_report(report.model_dump_json()) == report


@given(traces(), strategies.operator_names(), strategies.releases(), strategies.texts())
def test_traces_are_in_order_and_names_of_their_form(trace: Trace, operator: str, release: str, text: str) -> None:
    assert trace.start_ns == sorted(trace.start_ns)
    assert "::" in operator and release.count(".") == 2 and text.encode().decode() == text


def test_what_is_odd_is_among_them() -> None:
    assert find(traces(), lambda trace: bool(trace.name and any(trace.flow) and trace.counters), settings=QUICKLY)
    assert find(hostile_texts(), lambda text: "\x1b" in text, settings=QUICKLY)
    assert find(hostile_texts(), lambda text: len(text) >= 5000, settings=QUICKLY)


class Weather(BaseModel):
    """A schema of a stranger's."""

    kind: Literal["weather"] = "weather"
    degrees: list[float] = Field(min_length=1)
    wind: dict[str, int | None] = {}
    sunny: bool


@given(records(Weather))
def test_a_schema_of_ones_own_has_its_strategy(weather: Weather) -> None:
    assert weather.degrees and Weather.model_validate(weather.model_dump()) == weather


def test_what_cannot_be_made_up_is_told() -> None:
    class Odd(BaseModel):
        when: bytes

    with pytest.raises(TypeError, match="bytes"):
        records(Odd)
    with pytest.raises(KeyError):
        reports_of("no such kind")


def test_what_changes_is_said_in_words_without_values_and_put_back(tmp_path: Path) -> None:
    before = process_state()
    assert changed(before, process_state()) == []
    os.chdir(tmp_path)
    os.environ["MADE_BY_A_TEST"] = "a secret"
    sys.argv.append("more")
    warnings.simplefilter("ignore")
    sys.setrecursionlimit(sys.getrecursionlimit() + 1)
    socket.setdefaulttimeout(7)
    torch.set_default_dtype(torch.float64)
    torch.rand(1)
    found = changed(before, process_state())
    assert found == [
        *("the working folder", "the recursion limit", "the warnings filter", "sys.argv"),
        *("the default time-out of sockets", "torch's default dtype", "torch's random numbers"),
        "the variable MADE_BY_A_TEST",
    ]
    put_back(before, found)
    assert changed(before, process_state()) == []
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert changed(before, process_state()) == ["the handler of SIGINT"]
    finally:
        signal.signal(signal.SIGINT, handler)


def test_looking_takes_less_than_a_millisecond() -> None:
    quickest = 1.0
    for _ in range(20):
        started = time.perf_counter()
        process_state(random_numbers=False)
        quickest = min(quickest, time.perf_counter() - started)
    assert quickest < 1e-3
