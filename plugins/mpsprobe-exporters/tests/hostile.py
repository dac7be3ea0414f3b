"""The devkit's hostile texts, those that only some format minds, and the samples with one wherever they take a text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from example_reports import samples
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mpsprobe.schemas import ComparisonReport, CoverageReport, MatrixReport, ProfileReport
from mpsprobe.schemas.report import Report
from mpsprobe_devkit.testing import sample_coverage_report, sample_matrix_report, sample_profile_report
from mpsprobe_devkit.testing.mutations import HOSTILE_TEXTS, with_text
from mpsprobe_devkit.testing.strategies import hostile_texts

FORMULAS = ("+1", "-1", "@SUM(1)", " =1", "\uff1d1")
MARKUP = ("<!-- comment", "\\|", "`\\`|", "| a | b |", "# heading", "{0..3}.{a,b}", "$x^2$ @someone #1", "word " * 1000)
PREFIXED = ("aten::<b>|x`\x1b", "/x/\u202e\n:1", "a.0.\x00", "zero\u200bwidth\ufeff")
HOSTILE = [*HOSTILE_TEXTS.values(), *FORMULAS, *MARKUP, *PREFIXED]

texts = hostile_texts() | st.sampled_from(HOSTILE)


def on_any_text(test: Callable[[str], None]) -> Callable[..., None]:
    """Runs a test with each hostile text, and with twenty others at random."""
    for known in HOSTILE:
        test = example(text=known)(test)
    return settings(max_examples=20, deadline=None)(given(text=texts)(test))


def hostile_coverage(text: str) -> CoverageReport:
    """A report with ``text`` wherever it takes one."""
    made = with_text(sample_coverage_report(), text)
    assert isinstance(made, CoverageReport)
    return made


def hostile_matrix(text: str) -> MatrixReport:
    """The same of many releases."""
    made = with_text(sample_matrix_report(), text)
    assert isinstance(made, MatrixReport)
    cells = [  # no release is in a report twice
        one.model_copy(update={"target": one.target.model_copy(update={"torch": f"{prefix}{text}"})})
        for one, prefix in zip(made.releases, ("", "2.0.", "v"), strict=True)
    ]
    return made.model_copy(update={"releases": cells})


def hostile_profile(text: str) -> ProfileReport:
    """A profile with ``text`` wherever it takes one, and figures that no run gives."""
    made = with_text(sample_profile_report(), text)
    assert isinstance(made, ProfileReport)
    cell = made.cells[0]
    assert cell.step is not None and cell.memory is not None
    spent = (0, 10**400, 5, 5, 5)
    steps = [one.model_copy(update={"duration_ns": ns}) for one, ns in zip(cell.steps, spent, strict=True)]
    statistics: dict[str, Any] = {"median_ns": -5.0, "low_ns": 0.0, "high_ns": 1e300, "spread": -1.0, "mean_ns": -1.0}
    step = cell.step.model_copy(update={**statistics, "minimum_ns": -7.0, "maximum_ns": 1e308})
    curve = {"times_ns": [0, 10**400], "allocated_bytes": [1, -(10**400)], "process_bytes": [1]}
    memory = {"peak_allocated_bytes": -1, "peak_process_bytes": 10**400}
    odd = {
        "steps": steps,
        "step": step,
        "batch_size": 10**400,
        "seq_len": -1,
        "first_call_ns": [-1, 10**400],
        "phases": dict.fromkeys((text, "forward"), step),
        "phase_samples_ns": {text: [-1, 0, 10**400]},
        "throughput": [one.model_copy(update={"per_second": -1.0, "high": 1e308}) for one in cell.throughput],
        "memory": cell.memory.model_copy(update={**memory, "curve": cell.memory.curve.model_copy(update=curve)}),
        "operators": [one.model_copy(update={"calls": 10**400, "self_host_ns": 10**400}) for one in cell.operators],
        "fallbacks": [one.model_copy(update={"duration_ns": -1, "bytes": -1}) for one in cell.fallbacks],
    }
    if cell.trace is not None:
        odd["trace"] = cell.trace.model_copy(update={"duration_ns": [10**400] * len(cell.trace.duration_ns)})
    return made.model_copy(update={"cells": [cell.model_copy(update=odd), *made.cells[1:]]})


def hostile_comparisons(text: str) -> list[ComparisonReport]:
    """Comparisons with ``text`` wherever they take one."""
    made = [with_text(one, text) for one in samples() if isinstance(one, ComparisonReport)]
    return [one for one in made if isinstance(one, ComparisonReport)]


def hostile_reports(text: str) -> list[Report]:
    """One of each kind, and odd figures in one of them."""
    others = [with_text(one, text) for one in samples() if one.kind not in ("coverage-matrix", "profile")]
    return [hostile_matrix(text), hostile_profile(text), *others]
