"""Prometheus' text format 0.0.4, for a pushgateway or the textfile collector of its node exporter."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from mpsprobe_exporters.plain_text import one_line
from mpsprobe_exporters.prometheus_metrics import Family, families
from mpsprobe_exporters.supported import supported_report

if TYPE_CHECKING:
    from mpsprobe.schemas.report import Report

LONGEST_LABEL = 200
LABEL_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


class PrometheusExporter:
    """Gauges in base units; there is no line for what was not measured."""

    def render(self, report: Report) -> str:
        """The text.

        Raises:
            ReportError: it is of a kind that has no known schema.
        """
        found = families(supported_report(report, "prometheus"))
        return "".join(line + "\n" for family in found for line in _lines(family))


def _lines(family: Family) -> Iterator[str]:
    seen: dict[str, int] = {}
    samples = []
    for labels, value in family.samples:
        if not math.isfinite(value):
            continue
        shown = _labels(labels)
        seen[shown] = seen.get(shown, 0) + 1
        if seen[shown] > 1:  # two series of the same name and labels would be refused as a whole
            shown = _labels({**labels, "duplicate": str(seen[shown])})
        samples.append(f"{family.name}{shown} {_number(value)}")
    if samples:
        yield f"# HELP {family.name} {family.documentation}"
        yield f"# TYPE {family.name} gauge"
        if family.unit:
            yield f"# UNIT {family.name} {family.unit}"  # OpenMetrics reads it; to 0.0.4 it is a comment
        yield from samples


def _labels(labels: Mapping[str, str]) -> str:
    """``{device="mps",workload="bert"}``; empty values are as good as none, so they are left out."""
    shown = {name: one_line(value, LONGEST_LABEL).translate(LABEL_ESCAPES) for name, value in labels.items()}
    parts = [f'{name}="{value}"' for name, value in shown.items() if value]
    return "{" + ",".join(parts) + "}" if parts else ""


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 2**53 else f"{value:.15g}"
