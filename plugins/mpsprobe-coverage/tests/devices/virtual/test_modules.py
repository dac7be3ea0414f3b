"""The virtual device against small modules that were worked out by hand, on releases from 1.12.1 to 2.15.0."""

from __future__ import annotations

from types import ModuleType

import cases_attention
import cases_dense
import cases_images
import cases_indexing
import cases_others
import cases_recurrent
import pytest
from expectations import RELEASES, observed, parsed

from mpsprobe_coverage.devices.virtual import VirtualDevice
from mpsprobe_coverage.knowledge.kernels.mps import load_table

_SOURCES = (cases_dense, cases_attention, cases_recurrent, cases_images, cases_indexing, cases_others)


@pytest.mark.parametrize("source", _SOURCES, ids=lambda source: source.__name__)
def test_operators_and_verdicts_are_those_of_a_mac(source: ModuleType) -> None:
    wrong = []
    for release in RELEASES:
        with VirtualDevice(load_table(release)) as device:
            for text, case in source.CASES.items():
                if (calls := case.text_for(release)) is not None:
                    expected = parsed(calls)
                    seen = observed(device, text, case, backward=expected[1] is not None)
                    if seen != expected:
                        wrong.append((text, release, seen, expected))
    assert not wrong, wrong


def test_every_case_says_why_and_has_a_name_of_its_own() -> None:
    cases = [text.partition(": ") for source in _SOURCES for text in source.CASES]
    assert len({name for name, _, _ in cases}) == len(cases)
    assert all(len(because) > 20 for _, _, because in cases)
