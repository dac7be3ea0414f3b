"""Readings of probes on the page."""

from __future__ import annotations

from page_reader import Page

from mpsprobe.schemas import ProbeReading
from mpsprobe_devkit.testing import sample_cell, sample_profile_report
from mpsprobe_exporters.html.views.probes import probes


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
