"""What a report says, in sentences. Every format takes its words from here, so that all say the same."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from mpsprobe_exporters.plain_text import call_site, listed, one_line, plural, quantity

if TYPE_CHECKING:
    from mpsprobe.schemas import (
        CoverageReport,
        DataDependence,
        MatrixReport,
        OperatorFinding,
        RunFailure,
        Unjudged,
        Verdict,
        WorkloadInfo,
    )

    AnyReport = CoverageReport | MatrixReport

# Worst first: an error, an error that no variable helps, a slow trip to the CPU, not known.
FINDINGS: tuple[Verdict, ...] = ("missing", "unsupported", "fallback", "unknown")
SAYS = {
    "missing": ("has no MPS kernel", "have no MPS kernel"),
    "unsupported": ("is not supported on MPS", "are not supported on MPS"),
    "fallback": ("falls back to the CPU", "fall back to the CPU"),
    "unknown": ("is unknown", "are unknown"),
}
NUMERALS = {1: "it is", 2: "both are"}


def release_key(release: str) -> tuple[int, ...]:
    """Sorts releases by number: 2.9.0 before 2.10.0. A local part (``+cpu``) does not count."""
    return tuple(int(part[:9]) for part in re.findall("[0-9]+", release.partition("+")[0]))


def is_later(release: str | None, than: str) -> bool:
    """Whether ``release`` exists and comes after ``than``."""
    return release is not None and release_key(release) > release_key(than)


def findings(report: AnyReport) -> list[OperatorFinding]:
    """The operators that are not native, worst first, then by calls. What is composite is no finding."""
    found = [one for one in report.operators if one.verdict in FINDINGS]
    return sorted(found, key=lambda one: (FINDINGS.index(one.verdict), -one.calls, one.operator))


def natives(report: AnyReport) -> list[OperatorFinding]:
    """The native operators, most called first."""
    return sorted((one for one in report.operators if one.verdict == "native"), key=lambda o: (-o.calls, o.operator))


# -- the short answer ----------------------------------------------------------------------------


def short_answer(report: AnyReport) -> str:
    """The report in a sentence, without a full stop."""
    if report.kind == "coverage":
        return _coverage_answer(report)
    return _matrix_answer(report)


def _coverage_answer(report: CoverageReport) -> str:
    counts = report.summary.operators_by_verdict
    answer = _counts_answer(report.summary.operators, counts, f"torch {one_line(report.target.torch)}")
    remedy = _remedy(findings(report), report.target.torch)
    if remedy:
        answer += f"; {remedy}"
    if report.not_judged:
        answer += f"; {_not_judged_clause(report.not_judged)}"
    return answer


def _counts_answer(operators: int, counts: Mapping[Verdict, int], release: str) -> str:
    """``16 of 16 operators native on torch 2.15.0`` and its worse forms."""
    present = [verdict for verdict in FINDINGS if counts.get(verdict, 0) > 0]
    if operators == 0:
        return f"no operators were judged on {release}"
    if not present:
        native = counts.get("native", 0)
        return f"{native:,} of {plural(operators, 'operator')} native on {release}"
    if len(present) == 1:
        count = counts[present[0]]
        return f"{count:,} of {plural(operators, 'operator')} {SAYS[present[0]][count != 1]} on {release}"
    total = sum(counts[verdict] for verdict in present)
    parts = [f"{counts[verdict]:,} {SAYS[verdict][counts[verdict] != 1]}" for verdict in present]
    be = "is" if total == 1 else "are"
    return f"{total:,} of {plural(operators, 'operator')} {be} not native on {release}: {listed(parts)}"


def _remedy(found: list[OperatorFinding], release: str) -> str:
    """From which release on the findings are native: ``both are native from 2.9.0 on``."""
    curable = [one for one in found if one.verdict != "unknown"]
    since: dict[str, int] = {}
    never = 0
    for one in curable:
        if one.native_since is not None and is_later(one.native_since, release):
            since[one.native_since] = since.get(one.native_since, 0) + 1
        else:
            never += 1
    total = len(curable)
    if total == 0:
        return ""
    if not since:
        return "no release changes that" if total == 1 else "no release changes any of them"
    if len(since) == 1 and not never:
        return f"{NUMERALS.get(total, f'all {total:,} are')} native from {one_line(next(iter(since)))} on"
    parts = [f"{one_line(r)} on: {since[r]:,}" for r in sorted(since, key=release_key)]
    text = "native from " + ", from ".join(parts)
    return text + (f", in no release yet: {never:,}" if never else "")


def _not_judged_clause(unjudged: list[Unjudged]) -> str:
    return f"{len(unjudged):,} more could not be judged"


def _matrix_answer(report: MatrixReport) -> str:
    if not report.releases:
        return "no release was judged"
    newest = report.releases[-1]
    release = f"torch {one_line(newest.target.torch)}"
    if report.native_since is None:
        answer = "native in no release from beginning to end"
    elif report.native_since == report.releases[0].target.torch:
        answer = f"native in every release from {one_line(report.native_since)} on"
    else:
        answer = f"native from {one_line(report.native_since)} on"
    answer += f"; {_counts_answer(newest.summary.operators, newest.summary.operators_by_verdict, release)}"
    stopped = sum(cell.failure is not None for cell in report.releases)
    if stopped:
        answer += f"; the run stopped on {stopped:,} of {plural(len(report.releases), 'release')}"
    if report.not_judged:
        answer += f"; {_not_judged_clause(report.not_judged)}"
    return answer


# -- around it -----------------------------------------------------------------------------------


def failure_sentence(failure: RunFailure) -> str:
    """Where the run stopped, and why."""
    places = [one_line(failure.module)] if failure.module else []
    places += [call_site(failure.call_site)] if failure.call_site else []
    where = f" at {' · '.join(places)}" if places else ""
    error = one_line(failure.error)
    if failure.message.strip():
        error += f": {one_line(failure.message)}"
    return f"The run stopped in {one_line(failure.phase)}{where}. Only the operators before it are judged. {error}"


def failures(report: AnyReport) -> list[str]:
    """One sentence for each way in which a run stopped; for a matrix with the releases that it stopped on."""
    if report.kind == "coverage":
        return [failure_sentence(report.failure)] if report.failure else []
    stopped: dict[str, list[str]] = {}
    for cell in report.releases:
        if cell.failure:
            stopped.setdefault(failure_sentence(cell.failure), []).append(one_line(cell.target.torch))
    return [f"On torch {listed(releases)}: {sentence}" for sentence, releases in stopped.items()]


def workload_line(workload: WorkloadInfo) -> str:
    """What was run: ``bert-base (BertModel, 109.5 M parameters), training, float32, batch 8 x 128``."""
    made = [one_line(workload.architecture)] if workload.architecture else []
    made.append(f"{quantity(workload.parameters)} parameters")
    parts = [f"{one_line(workload.name)} ({', '.join(made)})", workload.phase, one_line(workload.dtype)]
    if workload.autocast:
        parts.append(f"autocast {one_line(workload.autocast)}")
    size = " x ".join(str(n) for n in (workload.batch_size, workload.seq_len) if n is not None)
    if size:
        parts.append(("batch " if workload.batch_size is not None else "sequence ") + size)
    if workload.grad_accum != 1:
        parts.append(f"{workload.grad_accum} passes for each optimizer step")
    if workload.optimizer:
        parts.append(one_line(workload.optimizer))
    if workload.weights:
        parts.append("real weights")
    return ", ".join(parts)


def method_line(report: AnyReport) -> str:
    """How it is known: predicted with which torch, or observed."""
    environment = report.environment
    build = f"+{one_line(environment.torch_build)}" if environment.torch_build else ""
    tracer = f"torch {one_line(environment.torch)}{build}" if environment.torch else "an unnamed torch"
    if environment.transformers:
        tracer += f" and transformers {one_line(environment.transformers)}"
    if report.method == "observed":
        return f"Observed with {tracer} on {one_line(environment.platform)}"
    return f"Predicted; the operators were traced with {tracer} on {one_line(environment.platform)}"


def unjudged_line(one: Unjudged) -> str:
    """What was not judged, and why."""
    return f"{one_line(one.operator)}: {one_line(one.reason)}{_aside(one.calls, one.call_sites)}"


def dependence_line(one: DataDependence) -> str:
    """Where the control flow read a value, and what was assumed."""
    return f"{one_line(one.operator)}: assumed {one_line(one.assumed)}{_aside(one.calls, one.call_sites)}"


def _aside(calls: int, call_sites: Iterable[str]) -> str:
    sites = list(dict.fromkeys(call_site(site) for site in call_sites))
    return f" ({', '.join([plural(calls, 'call'), *sites[:3]])})"


NOT_JUDGED = "Not judged: nothing is known about these, native or not"
DATA_DEPENDENCE = "Read a value that a prediction cannot know: another value may lead to other operators"
