"""The figures that the audit has to reach, on the installed torch's own list.

float32 with gradients, and the dtypes in which the mechanism has most to say; the page of the documentation has all.
One test, because the audit takes most of a minute, and in this process, where torch is imported already.
"""

from __future__ import annotations

import pytest
from packaging.specifiers import SpecifierSet

from mpsprobe.progress import SilentProgress
from mpsprobe_tables.audit.exceptions import exception_lines
from mpsprobe_tables.audit.result import run_audit

RELEASE = "2.13.0"
DTYPES = ("float32", "int32", "bool", "complex64")


@pytest.mark.thorough
def test_the_audit_reaches_its_figures(subtests: pytest.Subtests) -> None:
    whole = run_audit([RELEASE], DTYPES, ("none", "neighbours"), (), 1, SilentProgress())
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
    for dtype in DTYPES:
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
        here = {line for line in lines if not line.dtypes or set(line.dtypes) & set(DTYPES)}
        assert here - used == set()
