"""Hypothesis strategies for reports. Needs Hypothesis, which mpsprobe itself does not depend on."""

from __future__ import annotations

from typing import Any, get_args

from hypothesis import strategies as st

from mpsprobe.schemas import (
    AdvisoryMatch,
    AffectedRange,
    AffectedSystems,
    CoverageReport,
    CoverageSummary,
    DataDependence,
    Environment,
    MacosCondition,
    MatrixCell,
    MatrixReport,
    OperatorFinding,
    RefusedTensor,
    RunFailure,
    Source,
    TableProvenance,
    Target,
    Unjudged,
    Verdict,
    WorkloadInfo,
)

# Lone surrogates are no Unicode text: JSON as UTF-8 cannot hold them, and pydantic refuses them.
TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=12)
COUNT = st.integers(0, 2**53)
CALLS = st.integers(1, 2**53)
VERDICTS: st.SearchStrategy[Verdict] = st.sampled_from(get_args(Verdict))
RELEASES = st.builds("{}.{}.{}".format, st.integers(1, 3), st.integers(0, 40), st.integers(0, 9))
OPERATOR_NAMES = st.from_regex(r"[a-z]{2,8}::[a-z_]{1,12}(\.[A-Za-z_]{1,8})?", fullmatch=True)


def _few(items: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(items, max_size=3)


def _maybe(items: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | items


ENVIRONMENTS = st.builds(
    Environment, mpsprobe=TEXT, python=TEXT, platform=TEXT, torch=_maybe(RELEASES), transformers=_maybe(TEXT)
)
WORKLOADS = st.builds(
    WorkloadInfo,
    name=TEXT,
    architecture=TEXT,
    phase=st.sampled_from(["inference", "training"]),
    dtype=TEXT,
    parameters=COUNT,
    batch_size=_maybe(COUNT),
    notes=_few(TEXT),
)
TARGETS = st.builds(
    Target,
    torch=RELEASES,
    macos_minimum=_maybe(TEXT),
    macos=_maybe(TEXT),
    table=_maybe(st.builds(TableProvenance, wheel=TEXT, sha256=TEXT)),
)
SUMMARIES = st.builds(
    CoverageSummary,
    calls=COUNT,
    operators=COUNT,
    calls_by_verdict=st.dictionaries(VERDICTS, COUNT),
    operators_by_verdict=st.dictionaries(VERDICTS, COUNT),
    native_since=_maybe(RELEASES),
)
FINDINGS = st.builds(
    OperatorFinding,
    operator=OPERATOR_NAMES,
    verdict=VERDICTS,
    calls=CALLS,
    phases=st.dictionaries(st.sampled_from(["forward", "backward", "optimizer"]), CALLS),
    dtypes=_few(TEXT),
    shapes=_few(TEXT),
    modules=_few(TEXT),
    call_sites=_few(TEXT),
    native_since=_maybe(RELEASES),
    input_bytes=COUNT,
    output_bytes=COUNT,
    reason=_maybe(TEXT),
    source=_maybe(st.sampled_from(get_args(Source))),
    evidence=_maybe(TEXT),
    needs_macos=_maybe(TEXT),
    advice=_maybe(TEXT),
)
FAILURES = st.builds(RunFailure, phase=TEXT, error=TEXT, message=TEXT, module=_maybe(TEXT))
_REFUSED = st.builds(RefusedTensor, dtype=TEXT, operator=OPERATOR_NAMES, phase=TEXT, module=_maybe(TEXT))
_CONDITIONS = _few(st.builds(MacosCondition, macos=TEXT, what=TEXT, operators=_few(OPERATOR_NAMES)))
_RANGE = {
    "since": _maybe(TEXT),
    "seen": _few(TEXT),
    "fixed": _maybe(TEXT),
    "open": st.booleans(),
    "every": st.booleans(),
}
ADVISORIES = st.builds(
    AdvisoryMatch,
    id=TEXT,
    title=TEXT,
    condition=TEXT,
    symptom=TEXT,
    workaround=TEXT,
    hardware=_maybe(TEXT),
    torch=st.builds(AffectedRange, **_RANGE),
    macos=st.builds(AffectedSystems, **_RANGE),
    sources=_few(TEXT),
    operators=_few(OPERATOR_NAMES),
    calls=CALLS,
    phases=st.dictionaries(TEXT, CALLS, max_size=2),
    modules=_few(TEXT),
    call_sites=_few(TEXT),
)
_METHODS = st.sampled_from(["predicted", "observed"])
_UNJUDGED = _few(st.builds(Unjudged, operator=OPERATOR_NAMES, reason=TEXT, calls=CALLS))
_DEPENDENCE = _few(st.builds(DataDependence, operator=OPERATOR_NAMES, assumed=TEXT))


def coverage_reports() -> st.SearchStrategy[CoverageReport]:
    """Any valid coverage report; its counts need not agree with each other."""
    return st.builds(
        CoverageReport,
        method=_METHODS,
        workload=WORKLOADS,
        target=TARGETS,
        environment=ENVIRONMENTS,
        summary=SUMMARIES,
        operators=_few(FINDINGS),
        not_judged=_UNJUDGED,
        data_dependence=_DEPENDENCE,
        first_refused_tensor=_maybe(_REFUSED),
        macos_conditions=_CONDITIONS,
        advisories=_few(ADVISORIES),
        explained=st.booleans(),
        failure=_maybe(FAILURES),
    )


def matrix_reports() -> st.SearchStrategy[MatrixReport]:
    """Any valid report on many releases; its counts need not agree with each other."""
    cell = st.builds(
        MatrixCell,
        target=TARGETS,
        summary=SUMMARIES,
        findings=st.dictionaries(OPERATOR_NAMES, VERDICTS, max_size=3),
        advisories=_few(TEXT),
        failure=_maybe(FAILURES),
    )
    return st.builds(
        MatrixReport,
        method=_METHODS,
        workload=WORKLOADS,
        environment=ENVIRONMENTS,
        native_since=_maybe(RELEASES),
        releases=_few(cell),
        operators=_few(FINDINGS),
        not_judged=_UNJUDGED,
        advisories=_few(ADVISORIES),
    )


def reports() -> st.SearchStrategy[CoverageReport | MatrixReport]:
    """Any valid report of a kind that the core knows."""
    return coverage_reports() | matrix_reports()
