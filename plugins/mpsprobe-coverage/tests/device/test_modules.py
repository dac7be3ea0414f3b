"""The virtual device against small modules that were worked out by hand, on releases from 1.12.1 to 2.15.0."""

from __future__ import annotations

import cases_attention
import cases_dense
import cases_images
import cases_indexing
import cases_others
import cases_recurrent
import cases_subclasses
import pytest
from expectations import RELEASES, Case, observed, parsed

_SOURCES = (cases_dense, cases_attention, cases_recurrent, cases_images, cases_indexing, cases_others, cases_subclasses)
_CASES = [case for source in _SOURCES for case in source.CASES]


@pytest.mark.parametrize("case", _CASES, ids=lambda case: case.text.partition(":")[0])
def test_operators_and_verdicts_are_those_of_a_mac(case: Case) -> None:
    for release in RELEASES:
        if (text := case.text_for(release)) is not None:
            forward, backward = parsed(text)
            seen_forward, seen_backward = observed(case, release, backward is not None)
            assert (release, seen_forward) == (release, forward), case.text
            assert (release, seen_backward) == (release, backward), case.text


def test_every_case_says_why_and_has_a_name_of_its_own() -> None:
    reasons = {name: because for name, _, because in (case.text.partition(": ") for case in _CASES)}
    assert len(reasons) == len(_CASES)
    assert all(len(because) > 20 for because in reasons.values())
