"""Sample reports for the tests of exporters: small, fixed, and with every field filled at least once.

They lie in ``sample_reports/`` as mpsprobe writes them.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from typing import Any, TypeVar

from pydantic import BaseModel

from mpsprobe.schemas import (
    ComparisonReport,
    Counter,
    CoverageReport,
    JudgedWorkload,
    MatrixReport,
    ProfileCell,
    ProfileReport,
    Report,
    SeveralReport,
    Trace,
    UnknownReport,
)
from mpsprobe.schemas.report import KINDS

Model = TypeVar("Model", bound=BaseModel)


def _read(name: str, model: type[Model]) -> Model:
    text = (files("mpsprobe_devkit.testing") / "sample_reports" / f"{name}.json").read_text(encoding="utf-8")
    return model.model_validate_json(text)


def sample_coverage_report() -> CoverageReport:
    """A training step with one operator under each of four verdicts, one not judged, ended by an exception."""
    return _read("coverage", CoverageReport)


def sample_matrix_report() -> MatrixReport:
    """Three releases: one that failed, one with findings, one that is wholly native."""
    return _read("coverage-matrix", MatrixReport)


def sample_several_report() -> SeveralReport:
    """Three workloads: one on one release, one on three, and one that could not be judged; then Ctrl-C."""
    single, many = sample_coverage_report(), sample_matrix_report()
    workloads = [
        JudgedWorkload(name="sample", seconds=1.5, report=single),
        JudgedWorkload(name="sample-of-releases", seconds=2.5, report=many),
        JudgedWorkload(name="models.py:make", error="models.py:make() raised KeyError: 'x'", hint="models.py:3"),
    ]
    return SeveralReport(environment=single.environment, workloads=workloads, complete=False)


def sample_profile_report() -> ProfileReport:
    """Training on MPS with all that can be measured; a size that did not fit; the same on the CPU."""
    return _read("profile", ProfileReport)


def sample_comparison_report() -> ComparisonReport:
    """Two profiles: a slower backward pass, a new fallback, a configuration that no longer fits, another torch."""
    return _read("comparison", ComparisonReport)


def sample_coverage_comparison() -> ComparisonReport:
    """Two coverage reports: verdicts that became worse and better, a new advisory, a run that stopped."""
    return _read("comparison-of-coverage", ComparisonReport)


def sample_reports() -> dict[str, Report]:
    """Every sample by its kind, and ``weather``, a kind that only some plugin knows: its sections are kept verbatim."""
    several: dict[str, Report] = {
        "coverage-several": sample_several_report(),
        "weather": _read("unknown", UnknownReport),
    }
    known = {kind: several.get(kind) or _read(kind, model) for kind, model in KINDS.items()}
    return {**known, **several}


def sample_cell(device: str = "mps", step_us: int = 1_000, batch_size: int = 2) -> ProfileCell:
    """One configuration, measured; its five steps take about ``step_us``, the last one is an outlier."""
    measured = sample_profile_report().cells[2].model_dump(exclude_unset=True)
    rates = {"per_second": 1e6, "low": 9.9e5, "high": 1.01e6}
    throughput = {"unit": "samples", **{name: batch_size * rate / step_us for name, rate in rates.items()}}
    given = {"device": device, "batch_size": batch_size, "throughput": [throughput]}
    return ProfileCell.model_validate({**_scaled(measured, step_us), **given})


def _scaled(value: Any, step_us: int, name: str = "") -> Any:
    """``value`` with all durations in it as of steps of ``step_us``; those of the sample take 6,400."""
    if isinstance(value, dict):
        return {key: _scaled(inner, step_us, key) for key, inner in value.items()}
    if isinstance(value, list):
        return [_scaled(inner, step_us, name) for inner in value]
    if not name.endswith("_ns"):
        return value
    return type(value)(value * step_us / 6_400)


def sample_trace(steps: int = 2) -> Trace:
    """Training steps of 1 ms: modules with operators, kernels joined to their launches, a fallback with copies."""
    trace = sample_profile_report().cells[0].trace
    assert trace is not None
    events, names, details = len(trace.name) // 2, len(trace.names) - 1, len(trace.details) // 2  # of one of its two

    def columns(**moved: Callable[[int, int], int]) -> dict[str, list[int]]:
        return {
            name: [move(value, step) for step in range(steps) for value in getattr(trace, name)[:events]]
            for name, move in moved.items()
        }

    times = [index * 500_000 for index in range(2 * steps)]
    return trace.model_copy(
        update={
            "names": [*trace.names[:names], *(f"ProfilerStep#{step}" for step in range(1, steps))],
            "details": trace.details[:details] * steps,
            **columns(
                name=lambda value, step: value or (step and names - 1 + step),
                category=lambda value, _step: value,
                track=lambda value, _step: value,
                detail=lambda value, step: value if value < 0 else value + step * details,
                flow=lambda value, step: value and value + step * 10,
                start_ns=lambda value, step: value + step * 1_000_000,
                duration_ns=lambda value, _step: value,
            ),
            "counters": [
                Counter(name="allocated_bytes", times_ns=times, values=[1e6, 1.5e6] * steps),
                Counter(name="gpu_power_mw", times_ns=times, values=[9e3 + index for index in range(2 * steps)]),
            ],
        }
    )
