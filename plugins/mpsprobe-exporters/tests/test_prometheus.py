"""Prometheus' text format, read back by its own client's parser."""

from __future__ import annotations

import math
import re
from itertools import chain

import pytest
from example_reports import examples
from hostile import HOSTILE, hostile_reports
from prometheus_client.parser import text_string_to_metric_families

from mpsprobe.schemas import ProbeReading
from mpsprobe.schemas.report import Report
from mpsprobe_devkit.testing import sample_profile_report
from mpsprobe_exporters.plugin import ALL_KINDS
from mpsprobe_exporters.prometheus import PrometheusExporter

UNITS = {"seconds", "bytes", "joules", "watts", "celsius", "ratio", "hertz"}
Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


def read_back(report: Report) -> Series:
    """Every sample, by name and labels."""
    text = PrometheusExporter().render(report)
    found: Series = {}
    names = []
    for family in text_string_to_metric_families(text):
        names.append(family.name)
        assert family.type == "gauge" and family.documentation
        for sample in family.samples:
            assert re.fullmatch("mpsprobe_[a-z][a-z0-9_]*", sample.name)
            assert all(re.fullmatch("[a-z][a-z0-9_]*", label) for label in sample.labels)
            assert math.isfinite(sample.value)
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found, "two series of one name and labels"
            found[key] = sample.value
    assert len(set(names)) == len(names), "the lines of a metric stand together"
    for name, unit in re.findall(r"^# UNIT (\S+) (\S+)$", text, re.MULTILINE):
        assert unit in UNITS and name.endswith(f"_{unit}")
    return found


def value(series: Series, name: str, **labels: str) -> float:
    """The one sample of ``name`` that has ``labels`` among its own."""
    [found] = [v for (n, have), v in series.items() if n == name and set(labels.items()) <= have]
    return found


def test_every_example_and_hostile_text_is_read_back() -> None:
    for report in (*examples().values(), *chain.from_iterable(map(hostile_reports, HOSTILE))):
        assert report.kind not in ALL_KINDS or read_back(report)


def test_quotes_and_backslashes_come_back_as_they_are() -> None:
    report = sample_profile_report()
    operator = report.cells[0].operators[0].model_copy(update={"operator": 'a\\b"c\\n{d="e"} f'})
    report = report.model_copy(update={"cells": [report.cells[0].model_copy(update={"operators": [operator]})]})
    assert value(read_back(report), "mpsprobe_operator_calls", operator='a\\b"c\\n{d="e"} f') == 1


def test_the_unit_in_the_name_of_a_reading() -> None:
    wanted = {
        "window_ns": ("mpsprobe_reading_seconds", "window", 1e-9),
        "cpu_ns_per_step": ("mpsprobe_reading_seconds", "cpu_per_step", 1e-9),
        "gpu_mw": ("mpsprobe_reading_watts", "gpu", 1e-3),
        "battery_percent": ("mpsprobe_reading_ratio", "battery", 0.01),
        "cpu_mhz": ("mpsprobe_reading_hertz", "cpu", 1e6),
        "process_bytes": ("mpsprobe_reading_bytes", "process", 1),
        "hottest_celsius_after": ("mpsprobe_reading_celsius", "hottest_after", 1),
        "steps": ("mpsprobe_reading", "steps", 1),
    }
    report = sample_profile_report()
    readings = [ProbeReading(probe="p", values={**dict.fromkeys(wanted, 3.0), "sensor": "words are left out"})]
    report = report.model_copy(update={"cells": [report.cells[0].model_copy(update={"readings": readings})]})
    series = read_back(report)
    for metric, label, factor in wanted.values():
        assert value(series, metric, probe="p", value=label) == pytest.approx(3.0 * factor)
    assert not [labels for _, labels in series if ("value", "sensor") in labels]
