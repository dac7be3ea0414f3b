"""Prometheus' text format 0.0.4, for a pushgateway or the textfile collector of its node exporter.

Names and units of the metrics do not change: dashboards are built on them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from mpsprobe_exporters import backends
from mpsprobe_exporters.formats.profile_rows import MEMORY, STATISTICS
from mpsprobe_exporters.plain_text import one_line
from mpsprobe_exporters.reports.configurations import KEY
from mpsprobe_exporters.supported import supported_report, versions
from mpsprobe_exporters.units import split_unit

if TYPE_CHECKING:
    from mpsprobe.schemas import ComparedCell, CoverageReport, CoverageSummary, MatrixReport, ProfileCell, Verdict
    from mpsprobe.schemas.report import Report
    from mpsprobe_exporters.supported import SupportedReport

LONGEST_LABEL = 200
LABEL_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
MOST = 1e300  # what a float surely holds; a report may hold any whole number
MOST_COUNTED = 10**18  # of a label that is a number
# Base units, with the units in the name of a reading: how many of the base unit one of them is.
BASE_UNITS = {
    "seconds": {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "seconds": 1.0},
    "bytes": {"bytes": 1.0},
    "joules": {"mj": 1e-3, "j": 1.0, "joules": 1.0},
    "watts": {"mw": 1e-3, "w": 1.0, "watts": 1.0},
    "celsius": {"celsius": 1.0},
    "ratio": {"percent": 0.01, "ratio": 1.0},
    "hertz": {"mhz": 1e6, "hz": 1.0},
}
UNITS = {unit: (base, factor) for base, units in BASE_UNITS.items() for unit, factor in units.items()}
STOPPED = "1 if the run stopped."
VERDICTS: tuple[Verdict, ...] = ("native", "fallback", "missing", "unsupported", "unknown")
Labels = Mapping[str, str]


class Sample(NamedTuple):
    """``value`` times ``factor`` of the gauge ``mpsprobe_NAME_UNIT``; ``None`` has no line. ``unit`` is a base unit."""

    name: str
    unit: str
    about: str
    labels: Labels
    value: float | None
    factor: float = 1.0


class PrometheusExporter:
    """Gauges in base units; there is no line for what was not measured."""

    def render(self, report: Report) -> str:
        families: dict[str, list[Sample]] = {}
        for sample in _samples(supported_report(report, "prometheus")):
            if sample.value is not None:
                name = "_".join(filter(None, ("mpsprobe", sample.name, sample.unit)))
                families.setdefault(name, []).append(sample)
        return "".join(f"{line}\n" for name, samples in families.items() for line in _lines(name, samples))


def _lines(name: str, samples: Sequence[Sample]) -> Iterator[str]:
    taken: Counter[str] = Counter()
    lines = []
    for sample in samples:
        value = min(max(sample.value or 0, -MOST), MOST) * sample.factor
        if not math.isfinite(value):
            continue
        labels = _written(sample.labels)
        taken[labels] += 1
        if taken[labels] > 1:  # two series of the same name and labels would be refused as a whole
            labels = _written({**sample.labels, "duplicate": str(taken[labels])})
        lines.append(f"{name}{labels} {_number(value)}")
    if lines:
        yield f"# HELP {name} {samples[0].about}"
        yield f"# TYPE {name} gauge"
        if samples[0].unit:
            yield f"# UNIT {name} {samples[0].unit}"  # OpenMetrics reads it; to 0.0.4 it is a comment
        yield from lines


def _written(labels: Labels) -> str:
    """``{device="mps",workload="bert"}``; empty values are as good as none, so they are left out."""
    shown = {name: one_line(value, LONGEST_LABEL).translate(LABEL_ESCAPES) for name, value in labels.items()}
    parts = [f'{name}="{value}"' for name, value in shown.items() if value]
    return "{" + ",".join(parts) + "}" if parts else ""


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 2**53 else f"{value:.15g}"


def _samples(report: SupportedReport) -> Iterator[Sample]:
    if report.kind != "comparison" and report.environment is not None:
        about = "Where the report was made; always 1."
        yield Sample("environment_info", "", about, versions(report.environment), 1)
    if report.kind == "profile":
        for device in report.devices:
            labels = {"device": device.type, "name": device.name}
            yield Sample("device_memory", "bytes", "Memory of the device.", labels, device.memory_bytes)
        for cell in report.cells:
            labels = _key(cell)
            yield from (sample._replace(labels={**labels, **sample.labels}) for sample in _cell(cell))
        about = "1 if the profile was measured to its end, 0 if it was interrupted."
        yield Sample("complete", "", about, {}, report.complete)
    elif report.kind == "comparison":
        for compared in report.cells:
            labels = _key(compared)
            for quantity in compared.quantities:
                more = {**labels, **{name: getattr(quantity, name) for name in ("quantity", "name", "difference")}}
                yield Sample("diff", "ratio", "New divided by old.", more, quantity.ratio)
                about = "Corrected p-value of the difference."
                yield Sample("diff_p_value", "", about, more, quantity.adjusted_p_value)
        yield Sample("diff_regressions", "", "What --fail-on regression counts.", {}, report.regressions)
    elif report.kind == "coverage-several":
        for workload in report.workloads:
            if workload.report is None:
                yield Sample("coverage_failed", "", STOPPED, {"workload": workload.name}, 1)
            else:
                yield from _judged(workload.report)
        about = "1 if every workload was judged, 0 after Ctrl-C."
        yield Sample("coverage_complete", "", about, {}, report.complete)
    elif report.kind == "coverage" or report.kind == "coverage-matrix":
        yield from _judged(report)


def _key(cell: ComparedCell | ProfileCell) -> dict[str, str]:
    values = {name: value for name in KEY if (value := getattr(cell, name)) is not None}
    return {name: str(min(value, MOST_COUNTED) if isinstance(value, int) else value) for name, value in values.items()}


def _cell(cell: ProfileCell) -> Iterator[Sample]:
    """What is measured of a configuration, with the labels that it does not have itself."""
    yield Sample("failed", "", "1 if the configuration failed.", {}, cell.failure is not None)
    if (step := cell.step) is not None:
        about = "Time of one step; low and high are the interval of the median."
        for name in STATISTICS:
            yield Sample("step", "seconds", about, {"statistic": name}, getattr(step, f"{name}_ns"), 1e-9)
        about = "Scaled median absolute deviation of the steps as a share of their median."
        yield Sample("step_spread", "ratio", about, {}, step.spread)
        yield Sample("steps", "", "Timed steps.", {}, step.count)
        yield Sample("step_outliers", "", "Timed steps that are outliers.", {}, step.outliers)
    about = "The first call of a process, with its compilations."
    for process, spent in enumerate(cell.first_call_ns):
        yield Sample("first_call", "seconds", about, {"process": str(process)}, spent, 1e-9)
    about = "Median time of one phase of a step, measured in steps of its own."
    for name, phase in cell.phases.items():
        yield Sample("step_phase", "seconds", about, {"step_phase": name}, phase.median_ns, 1e-9)
    for rate in cell.throughput:
        about = f"{rate.unit.capitalize()} in a second, by the median step."
        yield Sample(f"throughput_{rate.unit}_per_second", "", about, {}, rate.per_second)
    if (memory := cell.memory) is not None:
        about = "Memory over the timed steps; source says how it was taken."
        for name in MEMORY:
            labels = {"memory": name, "source": memory.source}
            yield Sample("memory", "bytes", about, labels, getattr(memory, f"{name}_bytes"))
    for reading in cell.readings:  # the unit in a value's name becomes the metric's; words are left out
        for name, value in reading.values.items():
            rest, unit_of_name = split_unit(name, UNITS)
            unit, factor = UNITS.get(unit_of_name, ("", 1.0))
            labels = {"probe": reading.probe, "value": rest, "process": str(min(reading.process, MOST_COUNTED))}
            if not isinstance(value, str):
                yield Sample("reading", unit, "What a probe read over the timed steps.", labels, value, factor)
    each = 1 / max(cell.profiled_steps, 1)
    about = "Time of an operator without those that it calls, in one profiled step"
    for time in cell.operators:
        labels = {"operator": time.operator, "source": time.source}
        host, device = time.self_host_ns, time.self_device_ns
        yield Sample("operator_self_host", "seconds", f"{about}, on the host.", labels, host, 1e-9 * each)
        yield Sample("operator_self_device", "seconds", f"{about}, on the device.", labels, device, 1e-9 * each)
        yield Sample("operator_calls", "", "Calls of an operator in one profiled step.", labels, time.calls, each)
    for left in cell.fallbacks:
        labels = {"operator": left.operator, "method": left.method, "verdict": left.verdict}
        yield Sample("fallback_calls", "", "Calls in one step of an operator that leaves MPS.", labels, left.calls)
        yield Sample("fallback", "bytes", "What they copy in one step.", labels, left.bytes)
        about = "What they take in one step, where observed."
        yield Sample("fallback", "seconds", about, labels, left.duration_ns, 1e-9)


def _judged(report: CoverageReport | MatrixReport) -> Iterator[Sample]:
    """Another backend than MPS is named, or its series would be those of MPS."""
    for cell in report.releases if report.kind == "coverage-matrix" else (report,):
        labels = {"workload": report.workload.name, "phase": report.workload.phase, "torch": cell.target.version}
        labels["backend"] = backends.other(cell.target)
        yield from _summary(cell.summary, labels)
        if report.kind == "coverage":
            operators = len({left.operator for left in report.not_judged})
            yield Sample("coverage_not_judged", "", "Operators that no table covers.", labels, operators)
        yield Sample("coverage_failed", "", STOPPED, labels, cell.failure is not None)


def _summary(summary: CoverageSummary, labels: Labels) -> Iterator[Sample]:
    """Every verdict has a line, zeros too: an alert on ``missing`` needs a series that exists."""
    for verdict in VERDICTS:
        more = {**labels, "verdict": verdict}
        operators, calls = summary.operators_by_verdict.get(verdict, 0), summary.calls_by_verdict.get(verdict, 0)
        yield Sample("coverage_operators", "", "Operators by verdict.", more, operators)
        yield Sample("coverage_calls", "", "Calls in one step by verdict.", more, calls)
    about = "Native calls in one step whose dtypes no test shows to work."
    yield Sample("coverage_calls_registered_only", "", about, labels, summary.calls_registered_only)
    yield Sample("coverage_advisories", "", "Known wrong results that match.", labels, summary.advisories)
