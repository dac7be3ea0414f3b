"""The committed table of exceptions is short, complete, and about entries and lists that exist."""

from __future__ import annotations

import pytest
from packaging.specifiers import SpecifierSet

from mpsprobe.errors import TableError
from mpsprobe_tables.audit import exceptions
from mpsprobe_tables.audit.entries import DTYPES, entries
from mpsprobe_tables.audit.exceptions import MOST_LINES, ExceptionLine, exception_lines
from mpsprobe_tables.expectations import Expectations, expectation_releases, load_expectations


def _expectations(line: ExceptionLine) -> Expectations:
    """Those of 2.13.0, or of the newest release that the line is about."""
    about = [release for release in expectation_releases() if release in SpecifierSet(line.releases)]
    return load_expectations("2.13.0" if "2.13.0" in about else about[-1])


def test_the_table_is_short() -> None:
    assert 0 < len(exception_lines()) <= MOST_LINES == 15


@pytest.mark.parametrize("line", exception_lines(), ids=lambda line: line.entries[0])
def test_a_line_is_complete_and_matches_something(line: ExceptionLine) -> None:
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
        assert line.dtypes == () or set(line.dtypes) == set(tested), "a dtype of the line is never tested"


def test_a_damaged_table_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exceptions.tomllib, "loads", lambda _text: {"exception": [{"entries": ["abs"]}]})
    exception_lines.cache_clear()
    try:
        with pytest.raises(TableError, match="table of exceptions"):
            exception_lines()
    finally:
        exception_lines.cache_clear()
