"""From what the flags of ``mpsprobe coverage`` ask for to the report, and from the report to the exit code."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from mpsprobe.environment import check_version
from mpsprobe.errors import RunFailed, UsageError, WorkloadError
from mpsprobe.options import SAY_SO, check_training
from mpsprobe.plugins.registry import get_registry
from mpsprobe.protocols import Progress, RunOptions, Workload
from mpsprobe.schemas import SEVERITY, CoverageReport, MatrixCell, MatrixReport, Report, SeveralReport
from mpsprobe.suggestions import printable
from mpsprobe_coverage.chips.mac import mac_asked
from mpsprobe_coverage.commands.options import ADVISORY, ALL, GENERATE, MEMORY, OF_GENERATE, TORCH, releases

if TYPE_CHECKING:
    from mpsprobe_coverage.scanner.vary import Vary

MOST_NAMED = 3  # workloads in an error


def asked(
    torch_release: str, method: str, explain: bool, run_options: Mapping[str, Any], framework: str = TORCH
) -> tuple[RunOptions, list[str]]:
    """What the flags ask for, and the releases to judge.

    Args:
        run_options: by the parameters' names; what is not in it is as usual.
        framework: of the workloads.

    Raises:
        UsageError: flags that do not go together, or there is no such release.
    """
    options = RunOptions(**run_options)  # the options that are no parameters here are named as its fields
    if method == "observed":
        raise UsageError(
            "--method observed is not there: the step of a workload is predicted, also on a Mac",
            "Leave it out. On a Mac, mpsprobe run --device mps observes a program, mpsprobe.observe() a part of one.",
        )
    if explain and ("," in torch_release or torch_release == ALL):
        raise UsageError("--explain is about one torch release", "Name one with --torch.")
    check_training(options, options.phase == "training")
    for field in OF_GENERATE if options.phase != GENERATE else ():
        if getattr(options, field) != getattr(RunOptions(), field):
            raise UsageError(f"--{field.replace('_', '-')} makes sense with --phase {GENERATE} only", SAY_SO)

    if framework != TORCH:
        scanner = get_registry().scanner_for(framework)
        if hasattr(scanner, "releases"):
            return _asked_of(scanner, options, torch_release)
    if options.graph != RunOptions().graph:
        raise UsageError("--graph is for workloads of TensorFlow", "Leave it out.")

    from mpsprobe_coverage.kernels.backends import family_named

    return options, releases(torch_release, family_named(options.backend, get_registry()))


def _asked_of(scanner: Any, options: RunOptions, release: str) -> tuple[RunOptions, list[str]]:
    """The same of a scanner that knows the kernels of one backend itself."""
    backend = scanner.backend
    if options.backend not in (backend, RunOptions().backend):
        raise UsageError(f"--backend {printable(options.backend)} runs no such workload", f"Leave it out: {backend}.")
    return replace(options, backend=backend), scanner.releases(release)


def check_memory(options: RunOptions, fail_on: Collection[str]) -> None:
    """Refuse ``memory`` of ``--fail-on`` where no Mac's memory is named, and two memories.

    Raises:
        UsageError: it is so.
    """
    if mac_asked(options) is None and MEMORY in fail_on:
        raise UsageError("--fail-on memory needs the memory of a Mac", "For example --chip m2-16gb, or --memory 16GB.")


def judged(
    workload: str | Workload, options: RunOptions, targets: Sequence[str], explain: bool, progress: Progress
) -> Report:
    """The report on ``workload``, or the workload of that name.

    Raises:
        MpsprobeError: the workload cannot be built, or a table cannot be read.
    """
    registry = get_registry()
    chosen = registry.workload(workload) if isinstance(workload, str) else workload
    if chosen.framework == TORCH:
        check_version("torch", "mpsprobe-coverage", "coverage")
    registry.announce("mpsprobe_before_run", workload=chosen.name, phase=options.phase)
    report = registry.scanner_for(chosen.framework).scan(chosen, options, targets, progress)
    if registry.listens("mpsprobe_after_run"):
        document = report.model_dump(mode="json")
        registry.announce("mpsprobe_after_run", workload=chosen.name, phase=options.phase, report=document)
    if explain and isinstance(report, CoverageReport):
        report = report.model_copy(update={"explained": True})
    return report


def grown(report: Report, workload: str, options: RunOptions, vary: Vary, progress: Progress) -> Report:
    """``report`` with the graphs that many lengths compile.

    Raises:
        MpsprobeError: the workload cannot be run with them, or nothing is known about graphs.
    """
    from mpsprobe_coverage.kernels.backends import family_named
    from mpsprobe_coverage.scanner.growth import growth

    assert isinstance(report, CoverageReport)
    registry = get_registry()
    table = family_named(options.backend, registry).target(report.target.torch)
    found = growth(registry.workload(workload), options, table, vary, progress)
    return report.model_copy(update={"growth": found})


def exit_code(report: Report, fail_on: Collection[str], allow: Collection[str] = (), *, shown: bool) -> int:
    """0 clean, 1 for what ``fail_on`` names (verdicts, advisories, memory), 2 when the workload did not run to its end.

    Args:
        shown: the report, which has the cause of a failure, is what the user sees.

    Raises:
        WorkloadError: it did not; of several workloads, one of them.
        KeyboardInterrupt: of several workloads, not all were judged.
    """
    if isinstance(report, SeveralReport):
        if not report.complete:
            raise KeyboardInterrupt
        failed = [one.name for one in report.workloads if _failed(one.report)]
        if failed:
            some = ", ".join(map(printable, failed[:MOST_NAMED])) + (", …" if len(failed) > MOST_NAMED else "")
            count = f"{len(failed)} of {len(report.workloads)} workloads"
            raise WorkloadError(f"{count} could not be judged to their end: {some}", "The report says why.")
        return int(any(broken(one.report, fail_on, allow) for one in report.workloads if one.report))
    return 1 if broken(report, fail_on, allow, shown=shown) else 0


def broken(report: Report, fail_on: Collection[str], allow: Collection[str], *, shown: bool = False) -> list[str]:
    """A line for each operator with a verdict of ``fail_on`` that ``allow`` does not name, and for each advisory.

    Args:
        allow: operators, as reports write them or without overload or namespace; ``*`` stands for anything.

    Raises:
        RunFailed: the workload did not run to its end.
    """
    cells: list[CoverageReport | MatrixCell] = []
    if isinstance(report, MatrixReport):
        cells += report.releases
    elif isinstance(report, CoverageReport):
        cells.append(report)
    found: dict[str, None] = {}
    for cell in cells:
        if cell.failure is not None:
            raise RunFailed(cell.failure, shown)
        found |= dict.fromkeys(_operators(cell, fail_on, allow))
        fit = cell.fit if isinstance(cell, MatrixCell) else cell.memory and cell.memory.fit
        if fit and fit.answer == "raises" and MEMORY in fail_on:
            found[f"{fit.low.message} ({fit.machine}, torch {cell.target.torch})"] = None
        advised = [one if isinstance(one, str) else f"{one.id} ({one.title})" for one in cell.advisories]
        found |= dict.fromkeys(f"known wrong result: {one}" for one in advised if ADVISORY in fail_on)
    return list(found)


def _failed(report: CoverageReport | MatrixReport | None) -> bool:
    cells = report.releases if isinstance(report, MatrixReport) else [report]
    return any(cell is None or cell.failure is not None for cell in cells)


def with_allowed(report: Report, allow: Collection[str]) -> Report:
    """``report`` with the operators of its findings that ``allow`` names, for who shows it."""
    if isinstance(report, SeveralReport):
        rows = [
            one.model_copy(update={"report": with_allowed(one.report, allow)}) if one.report else one for one in report
        ]
        return report.model_copy(update={"workloads": rows})
    if isinstance(report, CoverageReport):
        operators = [one.operator for one in report.operators if SEVERITY[one.verdict]]
    elif isinstance(report, MatrixReport):
        operators = [operator for cell in report.releases for operator in cell.findings]
    else:
        return report
    return report.model_copy(update={"allowed": [one for one in dict.fromkeys(operators) if is_allowed(one, allow)]})


def _operators(cell: CoverageReport | MatrixCell, fail_on: Collection[str], allow: Collection[str]) -> Iterator[str]:
    release = f"{cell.target.software} {cell.target.version}"
    if isinstance(cell, MatrixCell):
        for operator, verdict in cell.findings.items():
            if verdict in fail_on and not is_allowed(operator, allow):
                yield f"{operator} is {verdict} on {release}"
        return
    for one in cell.operators:
        if one.verdict in fail_on and not is_allowed(one.operator, allow):
            where = f" ({one.call_sites[0]})" if one.call_sites else ""
            yield f"{one.operator} is {one.verdict} on {release}{where}" + (f": {one.advice}" if one.advice else "")


def is_allowed(operator: str, allow: Collection[str]) -> bool:
    """Whether ``allow`` names ``operator``: ``aten::linalg_qr.out``, ``linalg_qr.out``, ``linalg_qr``, ``linalg_*``."""
    whole = operator.partition(".")[0]
    names = (operator, whole, operator.partition("::")[2], whole.partition("::")[2])
    return any(fnmatchcase(name, pattern) for pattern in allow for name in names)
