"""The figures that the audit has to reach, on the installed torch's own list.

float32 with gradients, and the dtypes in which the mechanism has most to say; the page of the documentation has all.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mpsprobe.progress import SilentProgress
from mpsprobe_tables.audit.exceptions import exception_lines
from mpsprobe_tables.audit.result import Audit, ReleaseAudit, run_audit
from mpsprobe_tables.audit.workers import default_jobs

RELEASE = "2.13.0"
DTYPES = ("float32", "int32", "bool", "complex64")


@pytest.fixture(scope="module")
def whole() -> Iterator[Audit]:
    """The audit of four dtypes."""
    yield run_audit([RELEASE], DTYPES, ("none", "neighbours"), (), min(2, default_jobs()), SilentProgress())


@pytest.fixture(scope="module")
def audited(whole: Audit) -> ReleaseAudit:
    """Its one release."""
    [one] = whole.releases
    return one


@pytest.mark.slow
def test_every_entry_runs_on_the_device(whole: Audit) -> None:
    assert not whole.internal
    assert whole.entries > 650


@pytest.mark.slow
def test_what_is_unimplemented_is_refused(audited: ReleaseAudit) -> None:
    named = audited.scores["none"].unimplemented
    assert len(named) > 40
    assert [entry for entry, refused in named.items() if not refused] == []


@pytest.mark.slow
def test_what_passes_in_float32_is_not_refused(audited: ReleaseAudit) -> None:
    assert audited.scores["none"].refused_float32 == []


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_by_mechanism_alone(audited: ReleaseAudit, dtype: str) -> None:
    score = audited.scores["none"].outcome[dtype]
    assert score.hits > 20
    assert score.recall >= 0.8
    assert score.precision >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_with_neighbouring_lists(audited: ReleaseAudit, dtype: str) -> None:
    score = audited.scores["neighbours"].outcome[dtype]
    assert score.recall >= 0.97
    assert score.precision >= 0.97


@pytest.mark.slow
def test_gradients(audited: ReleaseAudit) -> None:
    score = audited.row("none", gradient=True)
    assert score.hits > 20
    assert score.recall >= 0.9
    assert score.precision >= 0.9


@pytest.mark.slow
def test_each_exception_takes_something_out(audited: ReleaseAudit) -> None:
    used = {line for line, tests in audited.excepted.items() if tests}
    here = {line for line in exception_lines() if not line.dtypes or set(line.dtypes) & set(DTYPES)}
    assert here - used == set()
