"""Readings are written in the unit that their name ends with."""

from __future__ import annotations

import pytest
from page_reader import Page

from mpsprobe.schemas import ProbeReading
from mpsprobe_devkit.testing import sample_cell, sample_profile_report
from mpsprobe_exporters.html.views.probes import probes, written


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("cpu_ns", 1.2e9, "1.20 s"),
        ("peak_bytes", 1.5e9, "1.5 GB"),
        ("gpu_mj", 812.0, "812 mJ"),
        ("gpu_mj_per_step", 81_200.0, "81.2 J"),
        ("gpu_mw", 35_000.0, "35.0 W"),
        ("hottest_celsius_after", 61.0, "61.0 °C"),
        ("battery_percent", 0.5, "0.50 %"),
        ("threads", 12.0, "12"),
        ("load", 1.25, "1.25"),
        ("anything", 1e300, "over 1,000,000,000,000,000,000"),
        ("power_source", "battery\nlow", "battery low"),
    ],
)
def test_units(key: str, value: float | str, said: str) -> None:
    assert written(key, value) == said


def test_processes_are_told_apart_only_where_there_are_several() -> None:
    report = sample_profile_report()
    one = ProbeReading(probe="energy", values={"gpu_mj": 1.0}, caveats=["window of 1 s"])
    other = one.model_copy(update={"process": 1})
    single, several = (
        Page(str(probes(report, sample_cell().model_copy(update={"readings": found})))).shown()
        for found in ([one], [one, other])
    )
    assert "Process" not in single and "window of 1 s" in single
    assert "Process" in several


def test_nothing_read_is_no_view() -> None:
    assert probes(sample_profile_report(), sample_cell()) is None
