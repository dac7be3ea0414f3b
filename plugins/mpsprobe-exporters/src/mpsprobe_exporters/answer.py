"""What a report says, in sentences. Every format takes its words from here, so that all say the same."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from mpsprobe.declarations import SEVERITY
from mpsprobe_exporters import backends, fitting, program_answer, unproven
from mpsprobe_exporters.plain_text import call_site, listed, one_line, plural, shortened
from mpsprobe_exporters.units import byte_size, number, quantity

if TYPE_CHECKING:
    from mpsprobe.schemas import (
        CoverageReport,
        CoverageSummary,
        DataDependence,
        Environment,
        MatrixReport,
        OperatorFinding,
        RefusedTensor,
        RunFailure,
        Transfers,
        Unjudged,
        WorkloadInfo,
    )

    AnyReport = CoverageReport | MatrixReport

FINDINGS = tuple(sorted((verdict for verdict in SEVERITY if SEVERITY[verdict]), key=lambda one: -SEVERITY[one]))
"""The verdicts that are findings, the worst first."""
SAYS = {
    "missing": ("has no {} kernel", "have no {} kernel"),
    "unsupported": ("is not supported on {}", "are not supported on {}"),
    "fallback": ("falls back to the CPU", "fall back to the CPU"),
    "unknown": ("is unknown", "are unknown"),
}
# Apple's GPUs have no arithmetic for these, so that no release changes it.
WIDE_DTYPES = frozenset({"float64", "complex128"})

LONGEST = 60  # of a workload's name
TO_DO = "What to do"
MACOS = "Needs a newer macOS"
NOT_JUDGED = "Not judged: nothing is known of these"
COMPOSED_OTHERWISE = "Uncertain: the release may make these of other operators than the torch that ran the trace"
DATA_DEPENDENCE = "Assumed: the model's course depends on values that a prediction does not have"


@lru_cache(maxsize=256)
def release_key(release: str) -> tuple[int, ...]:
    """Sorts releases by number: 2.9.0 before 2.10.0. A local part (``+cpu``) does not count."""
    return tuple(int(part[:9]) for part in re.findall("[0-9]+", release.partition("+")[0]))


def is_later(release: str | None, than: str) -> bool:
    """Whether ``release`` exists and comes after ``than``."""
    return release is not None and release_key(release) > release_key(than)


def cure(finding: OperatorFinding, release: str) -> str | None:
    """The release after ``release`` from which on the finding is none; ``None`` where none is known."""
    if finding.verdict == "unsupported" and WIDE_DTYPES.intersection(finding.dtypes):
        return None
    return finding.native_since if is_later(finding.native_since, release) else None


def since(report: AnyReport, one: OperatorFinding) -> str | None:
    """The "native since" of an operator: for a finding, the later release that cures it."""
    return cure(one, judged_release(report)) if one.verdict in FINDINGS else one.native_since


def findings(report: AnyReport) -> list[OperatorFinding]:
    """The operators that are not native, worst first, then by calls. What is composite is no finding."""
    not_native = (finding for finding in report.operators if finding.verdict in FINDINGS)
    return sorted(not_native, key=lambda finding: (-SEVERITY[finding.verdict], -finding.calls, finding.operator))


def natives(report: AnyReport) -> list[OperatorFinding]:
    """The native operators, most called first."""
    return sorted((one for one in report.operators if one.verdict == "native"), key=lambda o: (-o.calls, o.operator))


def judged_release(report: AnyReport) -> str:
    """The torch release that ``report.operators`` is about: of a matrix, the newest."""
    judged = backends.target(report)
    return judged.version if judged is not None else ""


def headline(report: AnyReport) -> str:
    """The first of the short answer as it begins a page."""
    return sentence(short_answer(report)[0])


def details(report: AnyReport) -> list[str]:
    """The rest of the short answer, as a line; nothing where there is none."""
    parts = short_answer(report)[1:]
    return [sentence("; ".join(parts))] if parts else []


def short_answer(report: AnyReport) -> list[str]:
    """The report in clauses, the first of which says most; each begins small and has no full stop."""
    if report.kind == "coverage":
        parts = _coverage_answer(report)
    else:
        parts = _matrix_answer(report)
    if report.advisories:
        parts[0] += f"; {_advised(report)}"
    if report.not_judged:
        parts.append(f"{number(len(report.not_judged))} more could not be judged")
    if open_end := "" if findings(report) else unproven.in_words(report):
        parts[0] += open_end
    clean = report.kind == "coverage" and report.operators and not (report.failure or report.macos_conditions)
    clean = clean and not (findings(report) or report.advisories or open_end) and len(parts) == 1
    clean = clean and not (program_answer.stayed_on_cpu(report) or program_answer.cuda(report))
    fits, needs = fitting.in_short(report), fitting.needs(report)
    if fits and fitting.is_bad(report):
        return [f"{fits}; {parts[0]}", *parts[1:]]
    if not (fits or clean):
        return parts
    if fits:
        parts[0] += f"; {fits}"
    return (
        [f"{parts[0]}: nothing needs doing{needs if not fits else ''}"] if clean and fitting.is_clean(report) else parts
    )


def _advised(report: AnyReport) -> str:
    if report.kind == "coverage":
        return plural(len(report.advisories), "known wrong result")
    concerned = sum(bool(cell.advisories) for cell in report.releases)
    return f"known wrong results on {number(concerned)} of {plural(len(report.releases), 'release')}"


def sentence(text: str) -> str:
    """``text`` with a capital at its beginning."""
    return text[:1].upper() + text[1:]


def _coverage_answer(report: CoverageReport) -> list[str]:
    release = backends.on_release(report.target, report.target.version)
    answer, *parts = _verdicts(report.summary, release, backends.label(report.target), judged=bool(report.not_judged))
    if report.failure:
        answer = f"the run stopped; up to there, {answer}"
    if remedy := _remedy(findings(report), report.target.version):
        parts, answer = ([*parts, remedy], answer) if parts else ([], f"{answer}; {remedy}")
    if ending := [one.operator for one in findings(report) if one.ends_process]:
        parts = [*parts, f"{ends(ending)} the process, which no try catches"]
    if copied := copies(report.summary.transfers):
        parts = [*parts, f"copied in each step: {copied}"]
    unproven = report.summary.calls_registered_only
    of_dtypes = f"{plural(unproven, 'native call')} with dtypes that no test covers"
    return [answer, *parts, *([of_dtypes] if unproven else [])]


def ends(operators: list[str]) -> str:
    """``a call of aten::sort ends``, ``calls of 2 operators end``."""
    if len(operators) == 1:
        return f"a call of {one_line(operators[0])} ends"
    return f"calls of {number(len(operators))} operators end"


def copies(found: Transfers | None) -> str | None:
    """``3 tensors (1.2 MB) to the GPU, 1 tensor (4 kB) to the CPU``; ``None`` where none is copied."""
    if found is None or not (found.to_gpu or found.to_cpu):
        return None
    sides = ((found.to_gpu, found.to_gpu_bytes, "GPU"), (found.to_cpu, found.to_cpu_bytes, "CPU"))
    return ", ".join(f"{plural(n, 'tensor')} ({byte_size(size)}) to the {where}" for n, size, where in sides if n)


def _matrix_answer(report: MatrixReport) -> list[str]:
    if not report.releases:
        return ["no release was judged"]
    oldest, newest = report.releases[0], report.releases[-1]
    if report.native_since is None:
        answer = "no release has every operator native yet"
    elif report.native_since == oldest.target.version:
        answer = f"every operator native in every release, {one_line(report.native_since)} on"
    else:
        answer = f"every operator native from {one_line(report.native_since)} on"
    release = f"the newest, {backends.on_release(newest.target, newest.target.version)}"
    parts = _verdicts(newest.summary, release, backends.label(newest.target), judged=bool(report.not_judged))
    remaining = sum(cell.failure is not None for cell in report.releases)
    if remaining:
        parts.append(f"the run stopped on {remaining:,} of {plural(len(report.releases), 'release')}")
    return [answer, *parts]


def _verdicts(summary: CoverageSummary, release: str, label: str, judged: bool) -> list[str]:
    """``16 of 16 operators native on torch 2.15.0`` and its worse forms; of several verdicts a second clause."""
    counts = summary.operators_by_verdict
    present = [verdict for verdict in FINDINGS if counts.get(verdict, 0) > 0]
    operators = plural(summary.operators, "judged operator" if judged else "operator")
    if summary.operators == 0:
        return [f"no operator was judged on {release}"]
    if not present:
        return [f"{number(counts.get('native', 0))} of {operators} native on {release}"]
    total = sum(counts[verdict] for verdict in present)
    if len(present) == 1:
        return [f"{number(total)} of {operators} {SAYS[present[0]][total != 1].format(label)} on {release}"]
    parts = [f"{number(counts[verdict])} {SAYS[verdict][counts[verdict] != 1].format(label)}" for verdict in present]
    return [f"{number(total)} of {operators} {'is' if total == 1 else 'are'} not native on {release}", listed(parts)]


def _remedy(found: list[OperatorFinding], release: str) -> str:
    """From which release on the findings are native: ``both are native from 2.9.0 on``."""
    certain = [one for one in found if one.verdict != "unknown"]  # of which nothing can be said
    systems = [one.needs_macos for one in certain if one.needs_macos is not None]
    if certain and len(systems) == len(certain):
        return f"macOS {one_line(max(systems, key=release_key))} changes that"
    if certain and all(one.source == "device" for one in certain):
        return "what is on the CPU has to be on the device"
    cures: dict[str, list[str | None]] = {}
    for one in certain:
        cures.setdefault(one.operator, []).append(cure(one, release))
    cured = [since for each in cures.values() if None not in each for since in each if since is not None]
    if not cured:
        return "no release up to now changes that" if cures else ""
    count = sum(None not in each for each in cures.values())
    subject = {1: "it is", 2: "both are"}.get(len(cures), f"all {len(cures):,} are")
    subject = subject if count == len(cures) else f"{count:,} of {len(cures):,} are"
    rest = "" if count == len(cures) else ", the others in no release yet"
    return f"{subject} native from {one_line(max(cured, key=release_key))} on{rest}"


def failure_sentence(failure: RunFailure) -> str:
    """Where the run stopped, and why."""
    where = f" at {_place(failure)}" if _place(failure) else ""
    error = ": ".join(filter(None, (one_line(failure.error), one_line(failure.message))))
    return f"The run stopped in {one_line(failure.phase)}{where}: only the operators before it are judged. {error}"


def _place(one: RunFailure | RefusedTensor) -> str:
    """``encoder.layer.3 · modeling_bert.py:201``; empty where neither is known."""
    return " · ".join(filter(None, (one_line(one.module or ""), call_site(one.call_site or ""))))


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


def first_refused(report: AnyReport) -> str | None:
    """Where the first tensor of a dtype is made that the backend does not have; its uses are only a consequence."""
    first = report.first_refused_tensor if report.kind == "coverage" else None
    if first is None:
        return None
    where = _place(first) or ("the model's inputs" if first.phase == "move" else "an unknown place")
    judged = backends.target(report)
    label = backends.label(judged)
    how = f"moved to {label}" if first.phase == "move" else f"made by {one_line(first.operator)}"
    who = backends.other(judged) or "a Mac"
    return f"The first {one_line(first.dtype)} tensor is {how} at {where}: {who} raises there"


def allowed(report: AnyReport) -> list[str]:
    """What ``--allow`` named, in a sentence."""
    return [f"Passed over by --allow: {', '.join(map(one_line, report.allowed))}"] if report.allowed else []


def macos_notes(report: AnyReport) -> list[str]:
    """What needs a newer macOS than the release itself, a sentence each."""
    if report.kind != "coverage":
        return []
    own = report.target.macos_minimum
    judged = f"{report.target.software} {one_line(report.target.version)}"
    while_torch = f", while {judged} itself runs from {one_line(own)} on" if own else ""
    return [
        f"{one_line(one.what)} ({', '.join(shortened(list(map(one_line, one.operators)), 3))}): "
        f"macOS {one_line(one.macos)} or newer{while_torch}"
        for one in report.macos_conditions
    ]


def workload_line(report: AnyReport) -> str:
    """What was run: ``bert-base (BertModel, 109.5 M parameters), training, float32, batch 8 x 128, 767 calls``."""
    program = program_answer.of(report)
    calls = [plural(report.summary.calls, "call")] if report.kind == "coverage" else []
    calls += program_answer.run(program) if program is not None else []
    counted = report.workload.phase != "program" or bool(report.workload.architecture)
    return ", ".join([*setting(_named(report), _sizes(report.workload), counted=counted), *calls])


def _named(report: AnyReport) -> WorkloadInfo:
    """The workload, a program with its arguments."""
    program = program_answer.of(report)
    if program is None:
        return report.workload
    name = one_line(report.workload.name, LONGEST) + program_answer.command(program)
    return report.workload.model_copy(update={"name": name})


def _sizes(workload: WorkloadInfo) -> list[str]:
    size = " x ".join(number(n) for n in (workload.batch_size, workload.seq_len) if n is not None)
    return [("batch " if workload.batch_size is not None else "sequence ") + size] if size else []


def setting(
    workload: WorkloadInfo, sizes: Sequence[str] = (), compiled: Sequence[str] = (), counted: bool = True
) -> list[str]:
    """What was run and how: ``bert-base (BertModel, 109.5 M parameters)``, ``training``, ``float32``, ….

    Args:
        workload: it.
        sizes, compiled: words for the sizes and for compilation.
        counted: whether the number of parameters is known.
    """
    made = [one_line(workload.architecture)] if workload.architecture else []
    made += [f"{quantity(workload.parameters)} parameters"] if counted else []
    passes = f"{plural(workload.grad_accum, 'pass', 'passes')} for each optimizer step"
    parts = [
        one_line(workload.name, 2 * LONGEST) + (f" ({', '.join(made)})" if made else ""),
        workload.phase,
        one_line(workload.dtype or ""),
        f"autocast {one_line(workload.autocast)}" if workload.autocast else "",
        *sizes,
        f"LoRA of rank {workload.lora_rank}" if workload.lora_rank else "",
        f"{quantity(workload.trained)} parameters trained" if workload.trained is not None else "",
        passes if workload.grad_accum != 1 else "",
        one_line(workload.optimizer or ""),
        *compiled,
        "real weights" if workload.weights else "",
    ]
    return [part for part in parts if part]


def in_short(report: CoverageReport) -> str:
    """What was run and how it is known, in about a line."""
    named = _named(report).model_copy(update={"architecture": None})
    run = ", ".join(setting(named, _sizes(report.workload), counted=False))
    return f"{run}; {'observed' if report.method == 'observed' else 'predicted'} with {_torch(report.environment)}"


def method_line(report: AnyReport) -> str:
    """How it is known: predicted with which torch, or observed."""
    macos = report.target.macos if report.kind == "coverage" else None
    judged = backends.other(backends.target(report)) or (f"macOS {one_line(macos)}" if macos else "")
    target = f" for {judged}" if judged else ""
    program = program_answer.of(report)
    ran = "traced" if program is None else f"run {program_answer.method(program)}"
    how = "Observed" if report.method == "observed" else f"Predicted{target}: {ran}"
    return f"{how} with {made_with(report.environment)}"


def made_with(environment: Environment) -> str:
    """``torch 2.13.0+cpu and transformers 5.1.0 on Linux-6.1-x86_64``."""
    libraries = [_torch(environment)]
    libraries += [f"transformers {one_line(environment.transformers)}"] if environment.transformers else []
    return f"{' and '.join(libraries)} on {one_line(environment.platform)}"


def _torch(environment: Environment) -> str:
    if environment.tensorflow:
        return f"tensorflow {one_line(environment.tensorflow)}"
    build = f"+{one_line(environment.torch_build)}" if environment.torch_build else ""
    return f"torch {one_line(environment.torch)}{build}" if environment.torch else "an unnamed torch"


def open_questions(report: AnyReport) -> list[tuple[str, list[tuple[str, str]]]]:
    """What the report leaves open: a title, and for each operator under it a sentence. Without empty lists."""
    unjudged = [(one.operator, _told(one.reason, one)) for one in report.not_judged]
    assumed = [(one.operator, _told(one.assumed, one)) for one in report.data_dependence]
    composed = [(name, f"{plural(calls, 'call')} {text}") for name, calls, text in compositions(report)]
    titled = ((NOT_JUDGED, unjudged), (DATA_DEPENDENCE, assumed), (COMPOSED_OTHERWISE, composed))
    return [(title, lines) for title, lines in titled if lines]


def compositions(report: AnyReport) -> list[tuple[str, int, str]]:
    """Composite operators and derivatives that the release makes of others than the torch that ran the trace.

    For each its name, how many calls rest on it, and which.
    """
    here, there = one_line(report.environment.torch or "that traced"), one_line(judged_release(report))
    composed: dict[str, dict[str, int]] = {}
    for one in report.operators:
        for name, calls in one.composed_by.items():
            by_operator = composed.setdefault(name, {})
            by_operator[one.operator] = by_operator.get(one.operator, 0) + calls
    lines = []
    for name, by_operator in composed.items():
        operators = ", ".join(shortened(list(map(one_line, by_operator)), 3))
        text = f"that torch {here} makes there, and torch {there} may not: {operators}"
        lines.append((name, sum(by_operator.values()), text))
    return lines


def _told(text: str, one: Unjudged | DataDependence) -> str:
    sites = list(dict.fromkeys(map(call_site, one.call_sites)))
    return f"{one_line(text)} ({', '.join([plural(one.calls, 'call'), *shortened(sites, 3)])})"
