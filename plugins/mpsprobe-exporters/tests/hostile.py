"""Strings that want to break out of wherever they are put, and reports made of them."""

from __future__ import annotations

from typing import Any

from example_reports import BERT, ENVIRONMENT, SIZES, coverage, finding
from hypothesis import strategies as st

from mpsprobe.schemas import ComparisonReport, CoverageReport, MatrixCell, MatrixReport, ProfileReport

HOSTILE = [
    "\x1b[31mred\x1b[0m\x1b]0;title\x07",
    "<script>alert(1)</script>",
    "<!-- comment",
    "../../etc/passwd",
    'quote"and,comma;semicolon',
    "line\nbreak\r\nand\ttab\x0b\x0c\x85\u2028\u2029",
    "=HYPERLINK(1)",
    "+1",
    "-1",
    "@SUM(1)",
    " =1",
    "\uff1d1",
    "a" * 5000,
    "word " * 1000,
    "\u202eright to left\u202c\u200f",
    "zero\u200bwidth\ufeff",
    "`code` ``` *bold* _under_ [link](http://example.com) ![x](y) ~~gone~~ | cell |",
    "\\",
    "\\|",
    "`\\`|",
    "| a | b |",
    "# heading",
    "{0..3}.{a,b}",
    "[red]markup[/red] :smile:",
    "\ud800",
    "\x00",
    "日本語のモジュール名",
    "e\u0301\u0302",
    "$x^2$ @someone #1",
    " ",
    "",
]

texts = (
    st.sampled_from(HOSTILE) | st.text(max_size=60) | st.text(alphabet="|`\\<>&*_[]{}=+-@\n .:0123456789a", max_size=40)
)


def hostile_advisory(text: str) -> dict[str, Any]:
    """A known wrong result with ``text`` wherever it takes a string."""
    words = ("id", "title", "condition", "symptom", "workaround", "hardware")
    places = {"sources": [text], "operators": [text], "modules": [text], "call_sites": [text]}
    affected = {"torch": {"since": text, "fixed": text}, "macos": {"seen": [text]}}
    return {**dict.fromkeys(words, text), **places, **affected, "calls": 1, "phases": {text: 1}}


def hostile_coverage(text: str) -> CoverageReport:
    """A report with ``text`` wherever a report takes a string."""
    places: dict[str, Any] = {"modules": [text, f"a.0.{text}", f"a.1.{text}"], "call_sites": [text, f"/x/{text}:1"]}
    words: dict[str, Any] = {"reason": text, "advice": text, "native_since": text, "shapes": [text], "dtypes": [text]}
    findings = [
        finding(text, "missing", phases={text: 1}, **places, **words),
        finding(f"aten::{text}", "unknown", phases={"forward": 1}, **places),
        finding(f"native{text}", **places, **words),
    ]
    failure = {"phase": text, "error": text, "message": text, "module": text, "call_site": text}
    return coverage(
        text,
        findings,
        workload={
            **BERT,
            **SIZES,
            "name": text,
            "architecture": text,
            "dtype": text,
            "notes": [text],
            "optimizer": text,
        },
        environment={**ENVIRONMENT, "torch": text, "torch_build": text, "platform": text, "transformers": text},
        not_judged=[{"operator": text, "reason": text, "call_sites": [text]}],
        data_dependence=[{"operator": text, "assumed": text, "call_sites": [text]}],
        advisories=[hostile_advisory(text)],
        failure=failure,
    )


def hostile_matrix(text: str) -> MatrixReport:
    """A matrix with ``text`` wherever it takes a string."""
    one = hostile_coverage(text)
    cell = {"target": {"torch": text}, "summary": one.summary, "failure": one.failure}
    return MatrixReport(
        method="predicted",
        workload=one.workload,
        environment=one.environment,
        native_since=text,
        releases=[
            MatrixCell.model_validate(
                {**cell, "findings": {text: "missing", f"b{text}": "unsupported"}, "advisories": [text]}
            ),
            MatrixCell.model_validate({**cell, "target": {"torch": f"2.0.{text}"}, "findings": {text: "fallback"}}),
        ],
        operators=one.operators,
        not_judged=one.not_judged,
        data_dependence=one.data_dependence,
        advisories=one.advisories,
    )


def hostile_profile(text: str) -> ProfileReport:
    """A profile with ``text`` wherever it takes a string, and figures that no run gives."""
    steps = [{"duration_ns": spent, "process": index % 2} for index, spent in enumerate((0, 10**400, 5, 5, 5))]
    odd = {"count": 5, "median_ns": -5.0, "low_ns": 0.0, "high_ns": 1e300, "spread": -1.0, "mean_ns": -1.0}
    statistics = {**odd, "minimum_ns": -7.0, "maximum_ns": 1e308}
    curve = {"times_ns": [0, 10**400], "allocated_bytes": [1, -(10**400)], "process_bytes": [1]}
    times = {"calls": 10**400, "host_ns": 0, "self_host_ns": 10**400}
    cell = {
        "workload": text,
        "phase": "training",
        "device": text,
        "batch_size": 10**400,
        "seq_len": -1,
        "dtype": text,
        "autocast": text,
        "first_call_ns": [-1, 10**400],
        "warmup": {"durations_ns": [-1, 0], "stable": False, "rule": text},
        "steps": steps,
        "step": statistics,
        "phases": {text: statistics, "forward": statistics},
        "phase_samples_ns": {text: [-1, 0, 10**400]},
        "throughput": [{"unit": "samples", "per_second": -1.0, "low": 0.0, "high": 1e308}],
        "memory": {"source": "sampled", "peak_allocated_bytes": -1, "peak_process_bytes": 10**400, "curve": curve},
        "readings": [{"probe": text, "values": {text: 1e308, f"{text}_mj": -1.0, "a_ns": text}, "caveats": [text]}],
        "unavailable": [{"probe": text, "reason": text}],
        "operators": [{**times, "operator": text, "shapes": [text], "modules": [text], "source": text}] * 2,
        "modules": [{**times, "module": text, "type": text, "phase": text}],
        "fallbacks": [
            {"operator": text, "calls": 1, "method": "observed", "verdict": text, "duration_ns": -1, "bytes": -1},
            {"operator": text, "calls": 10**400, "method": "predicted", "verdict": text, "native_since": text},
        ],
        "notes": [text],
        "failure": {"phase": text, "error": text, "message": text},
    }
    workload = {
        **BERT,
        **SIZES,
        "name": text,
        "architecture": text,
        "phase": "training",
        "dtype": text,
        "notes": [text],
    }
    plan = {"devices": [text], "batch_sizes": [1], "seq_lens": [None], "steps": 1, "baseline": "cpu", "probes": [text]}
    base = {**cell, "device": "cpu", "failure": None, "notes": []}
    document = {
        "workloads": [workload],
        "environment": {**ENVIRONMENT, "torch": text, "platform": text, "transformers": text},
        "devices": [{"type": text, "name": text, "capabilities": {text: text}, "caveats": [text]}],
        "plan": plan,
        "cells": [cell, base, {"workload": text, "phase": "inference", "device": text}],
        "notes": [text],
    }
    return ProfileReport.model_validate(document)


def hostile_comparisons(text: str) -> list[ComparisonReport]:
    """Comparisons with ``text`` wherever they take a string, and amounts beyond any run."""
    key = {"workload": text, "phase": text, "device": text, "dtype": text, "autocast": text, "batch_size": 10**400}
    failure = {"phase": text, "error": text, "message": text}
    quantity = {"quantity": "phase", "name": text, "unit": "ns", "old": -1e308, "new": 1e308, "note": text}
    memory = {
        "quantity": "memory",
        "name": text,
        "unit": "bytes",
        "old": 0.0,
        "new": -5.0,
        "ratio": 1e300,
        "test": text,
    }
    operator = {"operator": text, "clock": "host", "presence": "new", "new_calls": 1e308, "new_ns": -1e308}
    fallback = {"operator": text, "presence": "both", "old_verdict": text, "new_verdict": text, "new_bytes": -(10**400)}
    cell = {**key, "quantities": [quantity, memory], "operators": [operator], "fallbacks": [fallback]}
    side = {"source": text, "workloads": [text], "torch": text}
    shared = {
        "old": side,
        "new": side,
        "conditions": [{"what": text, "old": text, "new": text}],
        "notes": [text],
    }
    profile = {
        "compares": "profile",
        "method": {"level": 0.05, "threshold": 0.02, "tests": 1, "words": text},
        "cells": [{**cell, "new_failure": failure}, {**key, "old_failure": failure}],
        "unpaired": [{**key, "presence": "gone"}],
    }
    coverage_sides = {
        "compares": "coverage-matrix",
        "verdicts": [{"operator": text, "release": text, "new": "missing", "change": "new", "regression": True}],
        "advisories": [{"id": text, "title": text, "release": text, "presence": "new"}],
        "failures": [{"release": text, "new": failure}],
    }
    return [ComparisonReport.model_validate({**shared, **one}) for one in (profile, coverage_sides)]
