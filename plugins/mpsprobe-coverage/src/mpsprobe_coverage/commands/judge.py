"""From what the flags of ``mpsprobe coverage`` ask for to the report."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from mpsprobe.environment import check_version
from mpsprobe.errors import UsageError
from mpsprobe.options import SAY_SO, check_training
from mpsprobe.plugins.registry import get_registry
from mpsprobe.protocols import GenerateOptions, Progress, RunOptions, Workload
from mpsprobe.schemas import CoverageReport, Report
from mpsprobe.suggestions import printable
from mpsprobe_coverage.commands.options import ALL, GENERATE, MEMORY, TORCH, releases
from mpsprobe_coverage.knowledge.chips.limits import mac_asked

if TYPE_CHECKING:
    from mpsprobe_coverage.scanning.vary import Vary


@dataclass(frozen=True)
class Judging:
    """How a workload is judged: its run, exact releases with the oldest first, and what more is found out."""

    options: RunOptions
    releases: Sequence[str]
    framework: str = TORCH
    explain: bool = False
    vary: Vary | None = None

    @classmethod
    def of_flags(cls, asked: Mapping[str, Any], framework: str = TORCH, fail_on: Collection[str] = ()) -> Judging:
        """What the flags ask for, by their parameters' names; those that are left out are as usual.

        Raises:
            UsageError: flags that do not go together, or there is no such release.
        """
        options = RunOptions(**{field.name: asked[field.name] for field in fields(RunOptions) if field.name in asked})
        release, explain = asked.get("torch_release", "installed"), asked.get("explain", False)
        if explain and ("," in release or release == ALL):
            raise UsageError("--explain is about one torch release", "Name one with --torch.")
        check_training(options, options.phase == "training")
        for field in fields(GenerateOptions) if options.phase != GENERATE else ():
            if getattr(options, field.name) != field.default:
                raise UsageError(f"--{field.name.replace('_', '-')} makes sense with --phase {GENERATE} only", SAY_SO)
        if mac_asked(options) is None and MEMORY in fail_on:
            raise UsageError(
                "--fail-on memory needs the memory of a Mac", "For example --chip m2-16gb, or --memory 16GB."
            )
        options, targets = _targets(options, release, framework)
        return cls(options, targets, framework, explain, asked.get("vary"))


def _targets(options: RunOptions, release: str, framework: str) -> tuple[RunOptions, list[str]]:
    """The releases, and ``options`` with the backend; a scanner may know the kernels of one backend itself."""
    scanner: Any = None if framework == TORCH else get_registry().scanner_for(framework)
    if not hasattr(scanner, "releases"):
        if options.graph != RunOptions().graph:
            raise UsageError("--graph is for workloads of TensorFlow", "Leave it out.")

        from mpsprobe_coverage.knowledge.kernels.backends import family_named

        return options, releases(release, family_named(options.backend))
    if options.backend not in (scanner.backend, RunOptions().backend):
        shown = printable(options.backend)
        raise UsageError(f"--backend {shown} runs no such workload", f"Leave it out: {scanner.backend}.")
    return replace(options, backend=scanner.backend), scanner.releases(release)


def judged(workload: str | Workload, judging: Judging, progress: Progress) -> Report:
    """The report on ``workload``, or the workload of that name."""
    registry, options = get_registry(), judging.options
    chosen = registry.workload(workload) if isinstance(workload, str) else workload
    if chosen.framework == TORCH:
        check_version("torch", "mpsprobe-coverage", "coverage")
    registry.announce("mpsprobe_before_run", workload=chosen.name, phase=options.phase)
    report = registry.scanner_for(chosen.framework).scan(chosen, options, judging.releases, progress)
    if registry.listens("mpsprobe_after_run"):
        document = report.model_dump(mode="json")
        registry.announce("mpsprobe_after_run", workload=chosen.name, phase=options.phase, report=document)
    if isinstance(report, CoverageReport):
        report = report.model_copy(update={"explained": judging.explain})
        if judging.vary is not None:
            report = _grown(report, chosen, options, judging.vary, progress)
    return report


def _grown(
    report: CoverageReport, workload: Workload, options: RunOptions, vary: Vary, progress: Progress
) -> CoverageReport:
    """``report`` with the graphs that many lengths compile."""
    from mpsprobe_coverage.knowledge.kernels.backends import family_named
    from mpsprobe_coverage.scanning.growth import growth

    table = family_named(options.backend).target(report.target.torch)
    return report.model_copy(update={"growth": growth(workload, options, table, vary, progress)})
