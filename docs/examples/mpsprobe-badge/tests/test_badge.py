"""What the badge says about each report, and that it is SVG whatever stands in the report."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from mpsprobe.schemas import CoverageReport
from mpsprobe_devkit.testing import (
    exporter_contract,
    sample_coverage_report,
    sample_matrix_report,
    sample_profile_report,
    sample_reports,
)

from mpsprobe_badge.drawing import BLUE, GREEN, ORANGE, RED, Badge
from mpsprobe_badge.exporter import badge_of, duration
from mpsprobe_badge.plugin import mpsprobe_exporters

[BADGE] = mpsprobe_exporters()

TestBadge = exporter_contract(BADGE)


def _coverage(**counts: int) -> CoverageReport:
    report = sample_coverage_report()
    summary = report.summary.model_copy(update={"operators_by_verdict": counts})
    nothing = {"failure": None, "not_judged": [], "advisories": []}
    return report.model_copy(update={**nothing, "summary": summary})


@pytest.mark.parametrize(
    ("counts", "message", "colour"),
    [
        ({"native": 30}, "all native", GREEN),
        ({"native": 30, "fallback": 1}, "1 fallback", ORANGE),
        ({"native": 30, "fallback": 1, "missing": 12}, "12 missing, 1 fallback", RED),
        ({}, "all native", GREEN),
    ],
)
def test_the_worst_verdict_gives_the_colour(counts: dict[str, int], message: str, colour: str) -> None:
    assert badge_of(_coverage(**counts)) == Badge("MPS, torch 2.13.0", message, colour)


def test_a_model_that_stopped_is_not_called_native() -> None:
    failure = sample_coverage_report().failure
    assert badge_of(_coverage(native=1).model_copy(update={"failure": failure})).message == "stopped in backward"


def test_what_was_not_judged_is_not_called_native() -> None:
    unjudged = sample_coverage_report().not_judged
    assert badge_of(_coverage(native=1).model_copy(update={"not_judged": unjudged})).message == "1 not judged"


def test_many_releases_give_the_first_that_is_native() -> None:
    assert badge_of(sample_matrix_report()) == Badge("MPS", "native since 2.14.0", GREEN)
    assert badge_of(sample_matrix_report().model_copy(update={"native_since": None})).colour == RED


def test_a_profile_gives_the_median_of_its_first_configuration() -> None:
    report = sample_profile_report()
    badge = badge_of(report)
    assert badge.colour == BLUE
    assert badge.message == f"{duration(report.cells[0].step.median_ns)}/step"


@pytest.mark.parametrize(
    ("ns", "text"), [(0, "0 ns"), (999, "999 ns"), (12_345_678, "12.3 ms"), (2e9, "2 s"), (4e12, "4000 s")]
)
def test_durations_have_three_digits(ns: float, text: str) -> None:
    assert duration(ns) == text


@pytest.mark.parametrize(
    "words", ["", "</text><script>alert(1)</script>", "a\nb\x00\x1b[31m", "\"&'", "x" * 5000, "深"]
)
def test_any_words_make_a_small_picture(words: str) -> None:
    root = ET.fromstring(Badge(words, words, RED).svg())
    assert {one.tag.rpartition("}")[2] for one in root.iter()} == {"svg", "title", "g", "rect", "path", "text"}
    assert not [one for one in root.iter() if "id" in one.attrib], "two badges of a page would share it"
    assert 0 < int(root.attrib["width"]) < 1000


def test_every_sample_that_it_reads_has_a_title_for_those_who_do_not_see_it() -> None:
    for kind in BADGE.kinds:
        badge = badge_of(sample_reports()[kind])
        root = ET.fromstring(badge.svg())
        assert root.attrib["aria-label"] == f"{badge.label}: {badge.message}"
