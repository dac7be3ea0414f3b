"""The committed table of exceptions, and the figures that the audit has to reach, on the installed torch's own list."""

from __future__ import annotations

import pytest
from packaging.specifiers import SpecifierSet

from mpsprobe.errors import TableError
from mpsprobe.progress import SilentProgress
from mpsprobe_tables.audit import exceptions
from mpsprobe_tables.audit.entries import DTYPES, entries
from mpsprobe_tables.audit.exceptions import MOST_LINES, ExceptionLine, exception_lines
from mpsprobe_tables.audit.result import run_audit
from mpsprobe_tables.expectations import Expectations, expectation_releases, load_expectations

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
    monkeypatch.setattr(exceptions.tomllib, "loads", lambda _text: {"exception": [{"entries": ["abs"]}]})
    exception_lines.cache_clear()
    try:
        with pytest.raises(TableError, match="table of exceptions"):
            exception_lines()
    finally:
        exception_lines.cache_clear()


@pytest.mark.thorough
def test_the_audit_reaches_its_figures(subtests: pytest.Subtests) -> None:
    """float32 with gradients, and the dtypes in which the mechanism has most to say.

    One test, because the audit takes most of a minute, and in this process, where torch is imported already.
    """
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
