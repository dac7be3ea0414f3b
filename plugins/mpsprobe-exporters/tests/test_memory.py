"""Predicted memory: whether it fits on a Mac, in words, and the curve of a page."""

from __future__ import annotations

import pytest

from mpsprobe.schemas import CoverageReport
from mpsprobe_devkit.testing import sample_coverage_report
from mpsprobe_exporters.fitting import alerts, in_short, lines
from mpsprobe_exporters.html.exporter import HtmlExporter
from mpsprobe_exporters.html.views.predicted import predicted
from mpsprobe_exporters.table import TableExporter

REPORT = sample_coverage_report()
MEMORY = REPORT.memory
assert MEMORY is not None
FIT = MEMORY.fit
assert FIT is not None


def with_answer(low: str, high: str, answer: str) -> CoverageReport:
    fit = FIT.model_copy(
        update={
            "answer": answer,
            "low": FIT.low.model_copy(update={"answer": low, "message": FIT.low.message if low == "raises" else None}),
            "high": FIT.low.model_copy(update={"answer": high}) if high == "raises" else FIT.high,
        }
    )
    return REPORT.model_copy(update={"memory": MEMORY.model_copy(update={"fit": fit})})


@pytest.mark.parametrize(
    ("low", "high", "answer", "said"),
    [
        ("fits", "fits", "fits", "fits on a Mac with 1.6 GB"),
        ("pressure", "pressure", "pressure", "under memory pressure"),
        ("raises", "pressure", "unclear", "fits or not on a Mac with 1.6 GB, the published figures disagree"),
        ("raises", "raises", "raises", "does not fit on a Mac with 1.6 GB: it needs 2.3 GB"),
    ],
)
def test_each_answer_in_a_clause(low: str, high: str, answer: str, said: str) -> None:
    report = with_answer(low, high, answer)
    assert said in in_short(report)
    assert ("raises" in (low, high)) == bool(alerts(report))


def test_limits_are_ranges_where_the_figures_differ() -> None:
    (line,) = lines(with_answer("fits", "fits", "fits"))[:1]
    assert "1.1 GB to 1.5 GB" in line and "1.9 GB to 2.5 GB" in line


def test_what_does_not_fit_is_the_headline() -> None:
    report = with_answer("raises", "raises", "raises").model_copy(update={"failure": None})
    drawn = " ".join(TableExporter().render(report).split())
    assert "Does not fit on a Mac with 1.6 GB" in drawn and "MPS backend out of memory" in drawn


def test_a_page_has_the_curve_with_phases_and_limits() -> None:
    drawn = str(predicted(REPORT))
    assert 'aria-label="Memory that is alive over the step, at most 2.3 GB' in drawn
    assert drawn.count('class="level"') == 4 and ">advised<" in drawn and ">raises<" in drawn
    assert ">forward<" in drawn and ">backward<" in drawn and "up to 1.8 GB" in drawn
    assert 'data-view="memory"' in HtmlExporter().render(REPORT)


def test_a_limit_far_above_does_not_press_the_curve_to_the_ground() -> None:
    far = FIT.model_copy(update={"low": FIT.low.model_copy(update={"allowed_bytes": 10**12})})
    report = REPORT.model_copy(update={"memory": MEMORY.model_copy(update={"fit": far})})
    assert str(predicted(report)).count('class="level"') == 3
