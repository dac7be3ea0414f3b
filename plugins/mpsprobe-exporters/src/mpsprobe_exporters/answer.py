"""What a coverage report says in short. Every format takes these words from here, so that all say the same."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from mpsprobe.declarations import SEVERITY
from mpsprobe.doubts import applying, guesses, unwatched
from mpsprobe_exporters import backends, fitting
from mpsprobe_exporters.plain_text import call_site, listed, one_line, plural, sentence, shortened
from mpsprobe_exporters.units import byte_size, number

if TYPE_CHECKING:
    from mpsprobe import schemas
    from mpsprobe_exporters.supported import AnyReport

FINDINGS = tuple(
    sorted((verdict for verdict in SEVERITY if SEVERITY[verdict]), key=lambda found_verdict: -SEVERITY[found_verdict])
)
"""The verdicts that are findings, the worst first."""
SAYS = {
    "missing": ("has no {} kernel", "have no {} kernel"),
    "unsupported": ("is not supported on {}", "are not supported on {}"),
    "fallback": ("falls back to the CPU", "fall back to the CPU"),
    "unknown": ("is unknown", "are unknown"),
}
# Apple's GPUs have no arithmetic for these, so that no release changes it.
WIDE_DTYPES = frozenset({"float64", "complex128"})
NOT_MEASURED = "speed and numbers were not measured"


@lru_cache(maxsize=256)
def release_key(release: str) -> tuple[int, ...]:
    """Sorts releases by number: 2.9.0 before 2.10.0. A local part (``+cpu``) does not count."""
    return tuple(int(part[:9]) for part in re.findall("[0-9]+", release.partition("+")[0]))


def is_later(release: str | None, than: str) -> bool:
    return release is not None and release_key(release) > release_key(than)


def since(finding: schemas.OperatorFinding, release: str) -> str | None:
    """From when on an operator is native: for a finding, the release after ``release`` that cures it."""
    if finding.verdict not in FINDINGS:
        return finding.native_since
    if finding.verdict == "unsupported" and WIDE_DTYPES.intersection(finding.dtypes):
        return None
    return finding.native_since if is_later(finding.native_since, release) else None


def findings(report: AnyReport) -> list[schemas.OperatorFinding]:
    """The operators that are not native, worst first, then by calls. What is composite is no finding."""
    not_native = (finding for finding in report.operators if finding.verdict in FINDINGS)
    return sorted(not_native, key=lambda finding: (-SEVERITY[finding.verdict], -finding.calls, finding.operator))


def natives(report: AnyReport) -> list[schemas.OperatorFinding]:
    return sorted(
        (operator for operator in report.operators if operator.verdict == "native"),
        key=lambda o: (-o.calls, o.operator),
    )


def short_answer(report: AnyReport) -> list[str]:
    """The report in sentences, the first of which says most; none has a full stop."""
    first, *rest = _clauses(report)
    return [sentence(first), *([sentence("; ".join(rest))] if rest else [])]


def _clauses(report: AnyReport) -> list[str]:
    not_native, judged = findings(report), bool(report.not_judged)
    if report.kind == "coverage":
        parts = _of_release(report, not_native, judged=judged)
        if report.failure:
            parts[0] = f"the run stopped; up to there, {parts[0]}"
        advised = _advised(report) if report.operators else ""
    else:
        parts = _of_releases(report.releases, report.native_since, judged=judged)
        concerned = sum(bool(cell.advisories) for cell in report.releases)
        on = f"{number(concerned)} of {plural(len(report.releases), 'release')}"
        advised = f"known wrong results on {on}" if concerned else ""
    if advised and (applying(report) or not not_native):
        parts[0] += f"; {advised}"
    elif advised:
        parts.append(advised)
    if report.not_judged:
        parts.append(f"{number(len(report.not_judged))} more could not be judged")
    unproven = "" if not_native else _unproven(guesses(report), unwatched(report))
    parts[0] += unproven
    fits = fitting.each(report)
    if report.kind != "coverage":
        return fitting.with_fit(parts, fitting.of_releases(fits), fits)
    program, memory = report.program, report.memory
    if program and program.as_cuda and program.cuda:
        lines = len({place for hint in program.cuda for place in hint.call_sites})
        parts[0] = f"on MPS once {plural(lines, 'line')} for CUDA {'is' if lines == 1 else 'are'} changed: {parts[0]}"
    elsewhere = program and (program.stayed_on_cpu or program.computed_on_cpu or program.cuda)
    parts = fitting.with_fit(parts, fitting.in_short(memory, report.summary.parameters_bytes), fits)
    if report.operators and not (not_native or report.failure or elsewhere or unproven):
        parts[0] += f"{'' if any(fits) else fitting.needs(memory)}; {NOT_MEASURED}"
    return parts


def _advised(report: schemas.CoverageReport) -> str:
    """``2 of 212 known wrong results apply``; empty where none are known."""
    count, compared = len(applying(report)), report.summary.advisories_compared
    undecided = len(report.advisories) - count
    if compared is None:
        said = plural(count, "known wrong result") if count else ""
    elif not count:
        said = f"none of {number(compared)} known wrong results applies" if compared else ""
    else:
        said = f"{number(count)} of {number(compared)} known wrong results {'applies' if count == 1 else 'apply'}"
    more = f"{number(undecided)} more may, by values that are not known" if undecided else ""
    return ", ".join(filter(None, (said, more)))


def is_error(finding: schemas.OperatorFinding) -> bool:
    """Whether a finding is an error of the program, which no release cures: a tensor on the CPU, or of float64."""
    of_dtype = finding.source == "dtype" and finding.native_since is None
    return finding.verdict == "unsupported" and (of_dtype or finding.source == "device")


def only_cuda(report: schemas.CoverageReport) -> str:
    """The line at which a program that ran to its end looks for CUDA, and for no other GPU; empty of other programs."""
    program = report.program
    if program is None or program.exit_code or report.failure or report.operators:
        return ""
    stayed = program.stayed_on_cpu or program.computed_on_cpu
    return next((call_site(hint.call_sites[0]) for hint in program.cuda if hint.call_sites), "") if stayed else ""


def _of_release(report: schemas.CoverageReport, not_native: list[schemas.OperatorFinding], judged: bool) -> list[str]:
    if line := only_cuda(report):
        return [f"the program would run on the CPU of a Mac: {line} looks only for CUDA"]
    summary, target = report.summary, report.target
    release, gaps = backends.on_release(target), [finding for finding in not_native if not is_error(finding)]
    errors = _errors(report)
    if errors:
        worst = {gap.operator: gap.verdict for gap in reversed(gaps)}
        counts = {**Counter(worst.values()), "native": summary.operators_by_verdict.get("native", 0)}
        summary = summary.model_copy(update={"operators_by_verdict": counts})
    answer, *parts = _verdicts(summary, release, backends.label(target), judged=judged, calls=True)
    if gaps and (only := _only_if(gaps)):
        answer = f"{answer}, {only}"
    if remedy := _remedy(gaps, target.version):
        parts, answer = ([*parts, remedy], answer) if parts else ([], f"{answer}; {remedy}")
    if errors:
        answer = f"{errors}; {answer}" if any(counts.values()) else errors
    if ending := [finding.operator for finding in not_native if finding.ends_process]:
        calls = f"a call of {one_line(ending[0])} ends"
        calls = calls if len(ending) == 1 else f"calls of {number(len(ending))} operators end"
        parts.append(f"{calls} the process, which no try catches")
    if copied := copies(summary.transfers):
        parts.append(f"copied in each step: {copied}")
    if unproven := summary.calls_registered_only:
        parts.append(f"{plural(unproven, 'native call')} with dtypes that no test covers")
    return [answer, *parts]


def _only_if(not_native: list[schemas.OperatorFinding]) -> str:
    """On which branches alone the findings are called, where there is none that always is."""
    conditions = {finding.only_if or "" for finding in not_native}
    if "" in conditions:
        return ""
    several = "each only if a boolean has one of its values"
    return several if len(conditions) > 1 else f"only if {one_line(conditions.pop())}"


def _errors(report: schemas.CoverageReport) -> str:
    """``1 error in the program: float64 at model.py:26``; empty where there is none."""
    errors, first = [operator for operator in report.operators if is_error(operator)], report.first_refused_tensor
    if not errors:
        return ""
    wide = first is not None and any(error.source == "dtype" for error in errors)
    lines = list(
        dict.fromkeys(call_site(at) for error in errors if error.source == "device" for at in error.call_sites)
    )
    causes = [f"{one_line(first.dtype)} {_place_of(first)}"] if first and wide else []
    causes += [f"a tensor on the CPU at {listed(shortened(lines, 2))}"] if lines else []
    count = plural(wide + len(lines) or len(errors), "error")
    return f"{count} in the program{': ' if causes else ''}{listed(causes)}"


def _place_of(first: schemas.RefusedTensor) -> str:
    """Where the first tensor of a dtype is made that the backend does not have; its uses are only a consequence."""
    if first.call_site:
        return f"at {call_site(first.call_site)}"
    inside = first.module and first.module != "(model)"
    return f"in the parameters of '{one_line(first.module or '')}'" if inside else "in the model or its inputs"


def native_of(summary: schemas.CoverageSummary) -> str:
    """``61 of 63``."""
    return f"{number(summary.operators_by_verdict.get('native', 0))} of {number(summary.operators)}"


def findings_of(summary: schemas.CoverageSummary) -> list[str]:
    """``2 missing``, ``1 fallback``."""
    counts = summary.operators_by_verdict
    return [f"{number(counts[verdict])} {verdict}" for verdict in FINDINGS if counts.get(verdict)]


def copies(transfers: schemas.Transfers | None) -> str | None:
    """``3 tensors (1.2 MB) to the GPU, 1 tensor (4 kB) to the CPU``; ``None`` where none is copied."""
    if transfers is None or not (transfers.to_gpu or transfers.to_cpu):
        return None
    sides = ((transfers.to_gpu, transfers.to_gpu_bytes, "GPU"), (transfers.to_cpu, transfers.to_cpu_bytes, "CPU"))
    return ", ".join(f"{plural(n, 'tensor')} ({byte_size(size)}) to the {where}" for n, size, where in sides if n)


def _of_releases(cells: Sequence[schemas.MatrixCell], first: str | None, judged: bool) -> list[str]:
    if not cells:
        return ["no release was judged"]
    newest = cells[-1]
    if first is None:
        answer = "no release has every operator native yet"
    elif first == cells[0].target.version:
        answer = f"every operator native in every release, {one_line(first)} on"
    else:
        answer = f"every operator native from {one_line(first)} on"
    release = f"the newest, {backends.on_release(newest.target)}"
    parts = _verdicts(newest.summary, release, backends.label(newest.target), judged=judged)
    if stopped := sum(cell.failure is not None for cell in cells):
        parts.append(f"the run stopped on {stopped:,} of {plural(len(cells), 'release')}")
    return [answer, *parts]


def _verdicts(
    summary: schemas.CoverageSummary, release: str, label: str, *, judged: bool, calls: bool = False
) -> list[str]:
    """``16 of 16 operators native on torch 2.15.0`` and its worse forms; of several verdicts a second clause.

    ``calls``: whether it is about the calls of one run, which is all that native kernels are known to take.
    """
    counts = summary.operators_by_verdict
    present = [verdict for verdict in FINDINGS if counts.get(verdict, 0) > 0]
    operators = plural(summary.operators, "judged operator" if judged else "operator")
    if summary.operators == 0:
        return [f"no operator was judged on {release}"]
    if not present:
        native = f"{number(counts.get('native', 0))} of {operators}"
        takes = "has a kernel that takes its" if summary.operators == 1 else "have a kernel that takes these"
        return [f"{native} {takes} calls on {release}" if calls else f"{native} native on {release}"]
    total = sum(counts[verdict] for verdict in present)
    if len(present) == 1:
        return [f"{number(total)} of {operators} {SAYS[present[0]][total != 1].format(label)} on {release}"]
    parts = [f"{number(counts[verdict])} {SAYS[verdict][counts[verdict] != 1].format(label)}" for verdict in present]
    return [f"{number(total)} of {operators} {'is' if total == 1 else 'are'} not native on {release}", listed(parts)]


def _remedy(not_native: list[schemas.OperatorFinding], release: str) -> str:
    """From which release on the findings are native: ``both are native from 2.9.0 on``."""
    certain = [one for one in not_native if one.verdict != "unknown"]  # of which nothing can be said
    systems = [one.needs_macos for one in certain if one.needs_macos is not None]
    if certain and len(systems) == len(certain):
        return f"macOS {one_line(max(systems, key=release_key))} changes that"
    cures: dict[str, list[str | None]] = {}
    for finding in certain:
        cures.setdefault(finding.operator, []).append(since(finding, release))
    cured = [cure for each in cures.values() if None not in each for cure in each if cure is not None]
    if not cured:
        return "no release is known to change that" if cures else ""
    count = sum(None not in each for each in cures.values())
    subject = {1: "it is", 2: "both are"}.get(len(cures), f"all {len(cures):,} are")
    subject = subject if count == len(cures) else f"{count:,} of {len(cures):,} are"
    rest = "" if count == len(cures) else ", the others in no release yet"
    return f"{subject} native from {one_line(max(cured, key=release_key))} on{rest}"


def _unproven(guessed: list[schemas.DataDependence], unwatched_processes: int) -> str:
    """What nothing proves, with semicolons before it: guesses that decided the path, processes that nobody watched."""
    at = f" at {guessed_at(guessed)}" if guessed_at(guessed) else ""
    path = f"; values were guessed{at}, and others may take another path" if guessed else ""
    others = plural(unwatched_processes, "process", "processes")
    were = "was" if unwatched_processes == 1 else "were"
    return path + (f"; {others} that the program started {were} not watched" if unwatched_processes else "")


def guessed_at(guessed: list[schemas.DataDependence]) -> str:
    return listed(shortened(list(dict.fromkeys(call_site(at) for read in guessed for at in read.call_sites)), 2))


def failure_sentence(failure: schemas.RunFailure) -> str:
    at = " · ".join(filter(None, (one_line(failure.module or ""), call_site(failure.call_site or ""))))
    where = f" at {at}" if at else ""
    error = ": ".join(filter(None, (one_line(failure.error), one_line(failure.message))))
    phase = "" if failure.phase == "program" else f" in {one_line(failure.phase)}"
    return f"The run stopped{phase}{where}: only the operators before it are judged. {error}"


def failures(report: AnyReport) -> list[str]:
    """One sentence for each way in which a run stopped; for a matrix with the releases that it stopped on."""
    if report.kind == "coverage":
        return [failure_sentence(report.failure)] if report.failure else []
    stopped: dict[str, list[str]] = {}
    for cell in report.releases:
        if cell.failure:
            stopped.setdefault(failure_sentence(cell.failure), []).append(one_line(cell.target.version))
    software = backends.software(backends.target(report))
    return [f"On {software} {listed(releases)}: {text}" for text, releases in stopped.items()]


def compositions(report: AnyReport) -> list[tuple[str, int, str]]:
    """Composite operators and derivatives that the release may make of others than the torch that ran the trace.

    For each its name, how many calls rest on it, and which.
    """
    there = one_line(backends.release(backends.target(report)))
    composed: dict[str, dict[str, int]] = {}
    for operator in report.operators:
        for name, calls in operator.composed_by.items():
            by_operator = composed.setdefault(name, {})
            by_operator[operator.operator] = by_operator.get(operator.operator, 0) + calls
    lines = []
    for name, by_operator in composed.items():
        operators = ", ".join(shortened(list(map(one_line, by_operator)), 3))
        calls = sum(by_operator.values())
        text = f"{plural(calls, 'call')} of {operators} may not happen on torch {there}, which may split it differently"
        lines.append((name, calls, text))
    return lines
