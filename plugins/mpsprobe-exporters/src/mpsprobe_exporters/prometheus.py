"""Prometheus' text format 0.0.4, for a pushgateway or the textfile collector of its node exporter.

Names and units of the metrics do not change: dashboards are built on them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mpsprobe_exporters import backends
from mpsprobe_exporters.plain_text import one_line
from mpsprobe_exporters.profile_rows import KEY, MEMORY, STATISTICS
from mpsprobe_exporters.supported import supported_report, versions
from mpsprobe_exporters.units import split_unit

if TYPE_CHECKING:
    from mpsprobe.schemas import (
        ComparedCell,
        ComparisonReport,
        CoverageReport,
        CoverageSummary,
        MatrixReport,
        ProbeReading,
        ProfileCell,
        ProfileReport,
        SeveralReport,
        Target,
    )
    from mpsprobe.schemas.report import Report
    from mpsprobe.schemas.run import Environment
    from mpsprobe_exporters.supported import SupportedReport

LONGEST_LABEL = 200
LABEL_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
MOST = 1e300  # what a float surely holds; a report may hold any whole number
# The unit in the name of a reading: base unit, and how many of it one is.
UNITS = {
    "ns": ("seconds", 1e-9),
    "us": ("seconds", 1e-6),
    "ms": ("seconds", 1e-3),
    "s": ("seconds", 1.0),
    "seconds": ("seconds", 1.0),
    "bytes": ("bytes", 1.0),
    "mj": ("joules", 1e-3),
    "j": ("joules", 1.0),
    "joules": ("joules", 1.0),
    "mw": ("watts", 1e-3),
    "w": ("watts", 1.0),
    "watts": ("watts", 1.0),
    "celsius": ("celsius", 1.0),
    "percent": ("ratio", 0.01),
    "ratio": ("ratio", 1.0),
    "mhz": ("hertz", 1e6),
    "hz": ("hertz", 1.0),
}


class PrometheusExporter:
    """Gauges in base units; there is no line for what was not measured."""

    def render(self, report: Report) -> str:
        """The text.

        Raises:
            ReportError: it is of a kind that has no known schema.
        """
        found = _families(supported_report(report, "prometheus"))
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


@dataclass(slots=True)
class Family:
    """The samples of one metric, all of them gauges.

    Attributes:
        name: with its base unit at the end (``_seconds``, ``_bytes``, ``_joules``, ``_ratio``).
        documentation: one sentence.
        unit: the same unit; empty for counts.
    """

    name: str
    documentation: str
    unit: str = ""
    samples: list[tuple[Mapping[str, str], float]] = field(default_factory=list)


class Metrics:
    """Families by name, in the order in which they were first met."""

    def __init__(self) -> None:
        self.families: dict[str, Family] = {}

    def add(
        self, name: str, words: str, unit: str, labels: Mapping[str, str], value: float | None, factor: float = 1.0
    ) -> None:
        """One sample of ``mpsprobe_NAME_UNIT``, ``value`` times ``factor``; nothing for ``None``."""
        if value is None:
            return
        full = "_".join(part for part in ("mpsprobe", name, unit) if part)
        family = self.families.setdefault(full, Family(full, words, unit))
        family.samples.append((labels, min(max(value, -MOST), MOST) * factor))


def _families(report: SupportedReport) -> list[Family]:
    """The metrics of a report."""
    metrics = Metrics()
    if report.kind != "comparison":
        _environment(metrics, report.environment)
    if report.kind == "profile":
        _profile(metrics, report)
    elif report.kind == "coverage":
        _coverage(metrics, report)
    elif report.kind == "coverage-matrix":
        _matrix(metrics, report)
    elif report.kind == "coverage-several":
        _several(metrics, report)
    elif report.kind == "comparison":
        _comparison(metrics, report)
    return list(metrics.families.values())


def _profile(metrics: Metrics, report: ProfileReport) -> None:
    for info in report.devices:
        labels = {"device": info.type, "name": info.name}
        metrics.add("device_memory", "Memory of the device.", "bytes", labels, info.memory_bytes)
    for cell in report.cells:
        _cell(metrics, cell, _cell_labels(cell))
    words = "1 if the profile was measured to its end, 0 if it was interrupted."
    metrics.add("complete", words, "", {}, report.complete)


def _cell_labels(cell: ComparedCell | ProfileCell) -> dict[str, str]:
    found = ((name, getattr(cell, name)) for name in KEY)
    return {
        name: str(min(value, 10**18) if isinstance(value, int) else value) for name, value in found if value is not None
    }


def _cell(metrics: Metrics, cell: ProfileCell, labels: dict[str, str]) -> None:
    def add(name: str, words: str, unit: str, value: float | None, factor: float = 1.0, **more: str) -> None:
        metrics.add(name, words, unit, {**labels, **more}, value, factor)

    add("failed", "1 if the configuration failed.", "", cell.failure is not None)
    if cell.step is not None:
        for statistic in STATISTICS:
            words = "Time of one step; low and high are the interval of the median."
            add("step", words, "seconds", getattr(cell.step, f"{statistic}_ns"), 1e-9, statistic=statistic)
        words = "Scaled median absolute deviation of the steps as a share of their median."
        add("step_spread", words, "ratio", cell.step.spread)
        add("steps", "Timed steps.", "", cell.step.count)
        add("step_outliers", "Timed steps that are outliers.", "", cell.step.outliers)
    for process, spent in enumerate(cell.first_call_ns):
        words = "The first call of a process, with its compilations."
        add("first_call", words, "seconds", spent, 1e-9, process=str(process))
    for name, phase in cell.phases.items():
        words = "Median time of one phase of a step, measured in steps of its own."
        add("step_phase", words, "seconds", phase.median_ns, 1e-9, step_phase=name)
    for rate in cell.throughput:
        words = f"{rate.unit.capitalize()} in a second, by the median step."
        add(f"throughput_{rate.unit}_per_second", words, "", rate.per_second)
    if cell.memory is not None:
        words = "Memory over the timed steps; source says how it was taken."
        for name in MEMORY:
            size = getattr(cell.memory, f"{name}_bytes")
            add("memory", words, "bytes", size, memory=name, source=cell.memory.source)
    for reading in cell.readings:
        _reading(metrics, reading, labels)
    each = 1 / max(cell.profiled_steps, 1)
    for one in cell.operators:
        more: dict[str, Any] = {"operator": one.operator, "source": one.source}
        words = "Time of an operator without those that it calls, in one profiled step"
        add("operator_self_host", f"{words}, on the host.", "seconds", one.self_host_ns, 1e-9 * each, **more)
        add("operator_self_device", f"{words}, on the device.", "seconds", one.self_device_ns, 1e-9 * each, **more)
        add("operator_calls", "Calls of an operator in one profiled step.", "", one.calls, each, **more)
    for left in cell.fallbacks:
        more = {"operator": left.operator, "method": left.method, "verdict": left.verdict}
        add("fallback_calls", "Calls in one step of an operator that leaves MPS.", "", left.calls, **more)
        add("fallback", "What they copy in one step.", "bytes", left.bytes, **more)
        add("fallback", "What they take in one step, where observed.", "seconds", left.duration_ns, 1e-9, **more)


def _reading(metrics: Metrics, reading: ProbeReading, labels: dict[str, str]) -> None:
    """A probe's values: the unit in a value's name becomes the metric's, in base units; words are left out."""
    for name, value in reading.values.items():
        if isinstance(value, str):
            continue
        rest, unit_of_name = split_unit(name, UNITS)
        unit, factor = UNITS.get(unit_of_name, ("", 1.0))
        more = {**labels, "probe": reading.probe, "value": rest, "process": str(min(reading.process, 10**18))}
        metrics.add("reading", "What a probe read over the timed steps.", unit, more, value, factor)


def _coverage(metrics: Metrics, report: CoverageReport) -> None:
    labels = _judged(report, report.target)
    counts = Counter(left.operator for left in report.not_judged)
    _summary(metrics, report.summary, labels)
    metrics.add("coverage_not_judged", "Operators that no table covers.", "", labels, len(counts))
    metrics.add("coverage_failed", "1 if the run stopped.", "", labels, report.failure is not None)


def _matrix(metrics: Metrics, report: MatrixReport) -> None:
    for cell in report.releases:
        labels = _judged(report, cell.target)
        _summary(metrics, cell.summary, labels)
        metrics.add("coverage_failed", "1 if the run stopped.", "", labels, cell.failure is not None)


def _several(metrics: Metrics, report: SeveralReport) -> None:
    for one in report.workloads:
        if one.report is None:
            metrics.add("coverage_failed", "1 if the run stopped.", "", {"workload": one.name}, 1)
        elif one.report.kind == "coverage":
            _coverage(metrics, one.report)
        else:
            _matrix(metrics, one.report)
    metrics.add("coverage_complete", "1 if every workload was judged, 0 after Ctrl-C.", "", {}, report.complete)


def _judged(report: CoverageReport | MatrixReport, target: Target) -> dict[str, str]:
    """Labels; another backend than MPS is named, or its series would be those of MPS."""
    made = {"workload": report.workload.name, "phase": report.workload.phase, "torch": target.version}
    return {**made, "backend": backends.other(target)}


def _summary(metrics: Metrics, summary: CoverageSummary, labels: dict[str, str]) -> None:
    """Every verdict has a line, zeros too: an alert on ``missing`` needs a series that exists."""
    for verdict in ("native", "fallback", "missing", "unsupported", "unknown"):
        more = {**labels, "verdict": verdict}
        operators, calls = summary.operators_by_verdict, summary.calls_by_verdict
        metrics.add("coverage_operators", "Operators by verdict.", "", more, operators.get(verdict, 0))
        metrics.add("coverage_calls", "Calls in one step by verdict.", "", more, calls.get(verdict, 0))
    words = "Native calls in one step whose dtypes no test shows to work."
    metrics.add("coverage_calls_registered_only", words, "", labels, summary.calls_registered_only)
    metrics.add("coverage_advisories", "Known wrong results that match.", "", labels, summary.advisories)


def _comparison(metrics: Metrics, report: ComparisonReport) -> None:
    for cell in report.cells:
        labels = _cell_labels(cell)
        for one in cell.quantities:
            more = {**labels, "quantity": one.quantity, "name": one.name, "difference": one.difference}
            metrics.add("diff", "New divided by old.", "ratio", more, one.ratio)
            words = "Corrected p-value of the difference."
            metrics.add("diff_p_value", words, "", more, one.adjusted_p_value)
    metrics.add("diff_regressions", "What --fail-on regression counts.", "", {}, report.regressions)


def _environment(metrics: Metrics, environment: Environment | None) -> None:
    if environment is not None:
        metrics.add("environment_info", "Where the report was made; always 1.", "", versions(environment), 1)
