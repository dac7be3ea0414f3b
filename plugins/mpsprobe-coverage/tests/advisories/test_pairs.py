"""Each advisory matches a model that makes such a call, and nothing else: neither other calls nor other releases."""

from __future__ import annotations

import pytest
from made_workloads import calling, scan
from pairs import PAIRS, Function

from mpsprobe.schemas import AdvisoryMatch
from mpsprobe_coverage.advisories.model import Advisory
from mpsprobe_coverage.advisories.store import all_advisories
from mpsprobe_coverage.kernels.releases import torch_releases
from tests.thorough import all_but, first_of_each

ADVISORIES = {one.id: one for one in all_advisories()}
OTHERS = all_but(first_of_each(lambda name: (PAIRS[name].phase, str(ADVISORIES[name].macos)), PAIRS), PAIRS)
"""By default one of each phase and each condition on macOS."""


def _matches(function: Function, release: str, phase: str) -> dict[str, AdvisoryMatch]:
    report = scan(calling(function), release, phase=phase)
    assert report.failure is None, report.failure
    assert report.summary.advisories == len(report.advisories)
    return {one.id: one for one in report.advisories}


def _outside(advisory: Advisory) -> list[str]:
    """The last release before the range and the first after it."""
    known = list(torch_releases())
    inside = [known.index(one) for one in known if advisory.affects(one)]
    return [known[i] for i in (inside[0] - 1, inside[-1] + 1) if 0 <= i < len(known)]


def test_each_advisory_has_a_pair() -> None:
    assert set(PAIRS) == set(ADVISORIES)


@pytest.mark.parametrize("name", PAIRS)
def test_a_model_that_makes_such_a_call(name: str) -> None:
    pair = PAIRS[name]
    [match] = [one for one in _matches(pair.hit, pair.release, pair.phase).values() if one.id == name]
    assert match.calls >= 1 and set(match.operators) <= set(ADVISORIES[name].operators)
    assert any(site.split(":")[0].endswith("pairs.py") for site in match.call_sites)
    assert sum(match.phases.values()) == match.calls


@pytest.mark.parametrize("name", OTHERS)
def test_a_model_that_does_not(name: str) -> None:
    pair = PAIRS[name]
    report = scan(calling(pair.miss), pair.release, phase=pair.phase)
    assert report.failure is None and name not in {one.id for one in report.advisories}


@pytest.mark.parametrize("name", OTHERS)
def test_releases_outside_the_range(name: str) -> None:
    pair = PAIRS[name]
    assert ADVISORIES[name].affects(pair.release)
    for release in _outside(ADVISORIES[name]):
        report = scan(calling(pair.hit), release, phase=pair.phase)
        assert name not in {one.id for one in report.advisories}, release


@pytest.mark.parametrize("name", OTHERS)
def test_the_macos_that_is_asked_about(name: str) -> None:
    pair, macos = PAIRS[name], ADVISORIES[name].macos
    if macos.fixed is not None:
        cured = scan(calling(pair.hit), pair.release, phase=pair.phase, macos=macos.fixed)
        assert name not in {one.id for one in cured.advisories}
    if macos.since is not None:
        older = {"13.2": "13.1", "15.0": "14.7", "26.0": "15.6", "27.0": "26.6"}[macos.since]
        report = scan(calling(pair.hit), pair.release, phase=pair.phase, macos=older)
        assert name not in {one.id for one in report.advisories}


@pytest.mark.parametrize("name", all_but("linear-half-m5".__eq__, [one for one in PAIRS if ADVISORIES[one].chips]))
def test_the_chip_that_is_asked_about(name: str) -> None:
    pair, chips = PAIRS[name], ADVISORIES[name].chips
    for chip in ("m1", "m2-pro-16gb", "m3", "m4-max", "m5"):
        report = scan(calling(pair.hit), pair.release, phase=pair.phase, chip=chip)
        found = [one for one in report.advisories if one.id == name]
        assert bool(found) == (chip[:2] in chips), chip
        assert all(one.chips == list(chips) and one.hardware == ADVISORIES[name].where for one in found)
