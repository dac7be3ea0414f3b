"""The committed exceptions and the figures that the audit has to reach; modules; samples that PyTorch never tests."""

from __future__ import annotations

import dataclasses

import pytest
from packaging.specifiers import SpecifierSet

from mpsprobe.errors import TableError
from mpsprobe.progress import SilentProgress
from mpsprobe_tables.audit import modules, scoring
from mpsprobe_tables.audit.entries import DTYPES, entries
from mpsprobe_tables.audit.modules import ModuleAudit, audit_modules
from mpsprobe_tables.audit.result import run_audit
from mpsprobe_tables.audit.scoring import MOST_LINES, ExceptionLine, exception_lines
from mpsprobe_tables.audit.untested import audit_untested
from mpsprobe_tables.expectations import Expectations, expectation_releases, load_expectations
from mpsprobe_tables.module_marks import load_marks

RELEASE = "2.13.0"
FIGURES_OF = ("float32", "int32", "bool", "complex64")


def _expectations(line: ExceptionLine) -> Expectations:
    """Those of 2.13.0, or of the newest release that the line is about."""
    about = [release for release in expectation_releases() if release in SpecifierSet(line.releases)]
    return load_expectations(RELEASE if RELEASE in about else about[-1])


def test_the_table_is_short_and_each_line_complete_and_about_something() -> None:
    assert 0 < len(exception_lines()) <= MOST_LINES == 15
    for line in exception_lines():
        assert line.what and len(line.evidence) > 30
        assert set(line.dtypes) <= set(DTYPES)
        expectations = _expectations(line)
        for entry in line.entries:
            on_cpu = [str(dtype).removeprefix("torch.") for dtype in entries()[entry].dtypes]
            tested = [dtype for dtype in line.dtypes or DTYPES if expectations.tests(entry, dtype, on_cpu)]
            assert tested, f"no test runs {entry} with these dtypes"
            for dtype in tested:
                found = expectations.expected(entry, dtype, line.test == "gradient")
                assert set(line.lists) & set(found.lists), f"{entry} with {dtype} is expected to {found.kind}"
            assert line.dtypes == () or set(line.dtypes) == set(tested), f"a dtype is never tested: {line}"


def test_a_damaged_table_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring.tomllib, "loads", lambda _text: {"exception": [{"entries": ["abs"]}]})
    exception_lines.cache_clear()
    try:
        with pytest.raises(TableError, match="table of exceptions"):
            exception_lines()
    finally:
        exception_lines.cache_clear()


@pytest.mark.thorough
def test_the_audit_reaches_its_figures(subtests: pytest.Subtests) -> None:
    """float32 with gradients, and the dtypes in which the mechanism has most to say; one test: it takes a minute."""
    whole = run_audit([RELEASE], FIGURES_OF, ("none", "neighbours"), (), 1, SilentProgress())
    [audited] = whole.releases
    alone, neighbours = audited.scores["none"], audited.scores["neighbours"]
    with subtests.test("every entry runs on the device"):
        assert not whole.internal
        assert whole.entries > 650
    with subtests.test("what is unimplemented is refused"):
        assert len(alone.unimplemented) > 40
        assert [entry for entry, refused in alone.unimplemented.items() if not refused] == []
    with subtests.test("what passes in float32 is not refused"):
        assert alone.refused_float32 == []
    for dtype in FIGURES_OF:
        with subtests.test("by mechanism alone", dtype=dtype):
            score = alone.outcome[dtype]
            assert score.hits > 20
            assert score.recall >= 0.8
            assert score.precision >= 0.9
        with subtests.test("with neighbouring lists", dtype=dtype):
            score = neighbours.outcome[dtype]
            assert score.recall >= 0.97
            assert score.precision >= 0.97
    with subtests.test("gradients"):
        score = audited.row("none", gradient=True)
        assert score.hits > 20
        assert score.recall >= 0.9
        assert score.precision >= 0.9
    with subtests.test("each exception takes something out"):
        used = {line for line, tests in audited.excepted.items() if tests}
        lines = (line for line in exception_lines() if RELEASE in SpecifierSet(line.releases))
        here = {line for line in lines if not line.dtypes or set(line.dtypes) & set(FIGURES_OF)}
        assert here - used == set()


def _audit(release: str, *names: str) -> ModuleAudit:
    [audited] = audit_modules([release], names, 1, SilentProgress())
    assert audited.internal == ()
    return audited


def test_what_is_refused_carries_a_mark() -> None:
    audited = _audit("2.2.0", "nn.Conv3d", "nn.Conv2d")
    outcomes = {(one.module, one.expected, one.outcome) for one in audited.tests}
    assert outcomes == {("nn.Conv3d", "skip", "refused"), ("nn.Conv2d", "pass", "runs")}
    assert (audited.recall, audited.precision, audited.disagreements) == (1.0, 1.0, [])


def test_modes_and_dtypes_and_gradients_are_tests_of_their_own() -> None:
    audited = _audit("2.13.0", "nn.InstanceNorm3d")
    tests = {(one.dtype, one.mode, one.gradient) for one in audited.tests}
    assert len(tests) == len(audited.tests) == 8
    # Its marks name a class that has no tests: it is expected to pass, and does.
    assert {(one.expected, one.outcome) for one in audited.tests} == {("pass", "runs")}
    assert audited.idle == ("nn.InstanceNorm3d",)


def test_a_failure_in_float16_against_a_reference_is_a_matter_of_numbers() -> None:
    audited = _audit("2.13.0", "nn.GELU")
    assert [(one.dtype, one.gradient) for one in audited.tests if one.expected == "numbers"] == [("float16", False)]


def test_disagreements_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = load_marks("2.2.0")
    changed = dataclasses.replace(
        shipped, modules={**shipped.modules, "nn.Conv3d": "-", "nn.Conv2d": "fail TestModule * * *"}
    )
    monkeypatch.setattr(modules, "load_marks", lambda _release: changed)
    audited = _audit("2.2.0", "nn.Conv3d", "nn.Conv2d")
    assert (audited.recall, audited.precision) == (0.0, 0.0)
    assert {(one.module, one.expected, one.outcome) for one in audited.disagreements} == {
        ("nn.Conv3d", "pass", "refused"),
        ("nn.Conv2d", "fail", "runs"),
    }


def test_what_the_device_alone_raises_is_its_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    step = modules._step

    def broken(entry: object, given: object, dtype: str, mode: modules.Mode, device: object) -> None:
        if device is not None:
            raise RuntimeError("broken")
        step(entry, given, dtype, mode, None)

    monkeypatch.setattr(modules, "_step", broken)
    [audited] = audit_modules(["2.2.0"], ["nn.ReLU"], 1, SilentProgress())
    assert audited.internal == ("nn.ReLU with float32 on torch 2.2.0: RuntimeError: broken",)
    monkeypatch.setattr(modules, "_raises", lambda *_: True)
    [audited] = audit_modules(["2.2.0"], ["nn.ReLU"], 1, SilentProgress())
    assert audited.internal == ()
    assert {one.outcome for one in audited.tests} == {"raised"}


def test_each_entry_counts_once_for_each_kind_that_it_has() -> None:
    entries = ["exp", "linalg.eig", "nn.functional.conv2d"]
    [one] = audit_untested(["2.13.0"], entries, 1, SilentProgress())
    assert dict(one.counts["rank 6"]) == {"native": 1, "missing": 1}  # a convolution of images has no such rank
    assert "int64" in one.counts and one.counts["int64"]["missing"] == 1  # the CPU has exp of whole numbers, not eig
    assert one.counts["float8_e5m2"].total() == 3


def test_refusals_of_untested_samples_are_told_by_their_sources() -> None:
    [one] = audit_untested(["2.13.0"], ["erf", "nonzero"], 1, SilentProgress())
    assert one.counts["complex64"]["metal"] == 1
    assert one.counts["float8_e5m2"]["native"] == 0
