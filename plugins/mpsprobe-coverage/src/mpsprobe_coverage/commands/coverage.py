"""``mpsprobe coverage WORKLOAD``."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from mpsprobe import exporting
from mpsprobe.declarations import DTYPES, PHASES, SIZES
from mpsprobe.environment import check_version
from mpsprobe.errors import RunFailed, UsageError, WorkloadError
from mpsprobe.options import SAY_SO, Named, Names, Positive, check_training
from mpsprobe.plugins.registry import get_registry
from mpsprobe.progress import make_progress
from mpsprobe.protocols import Progress, RunOptions, Workload
from mpsprobe.schemas import SEVERITY, CoverageReport, MatrixCell, MatrixReport, Report, SeveralReport
from mpsprobe.suggestions import printable
from mpsprobe_coverage.chips.mac import mac_asked
from mpsprobe_coverage.commands import several
from mpsprobe_coverage.commands.options import (
    ADVISORY,
    ALL,
    BACKEND_OPTION,
    CHIP_OPTION,
    MEMORY,
    MEMORY_OPTION,
    MacosVersion,
    NotNegative,
    VaryRange,
    VerdictList,
    releases,
    torch_option,
)

if TYPE_CHECKING:
    from mpsprobe_coverage.scanner.vary import Vary

STEPS = 3  # to load torch, to build the workload, to run it
METHODS = ("auto", "predicted", "observed")
GENERATE = "generate"
TORCH = several.TORCH
MOST_NAMED = 3  # workloads in an error
DECODINGS = ("greedy", "sampling", "beams")
CACHES = ("dynamic", "static")
OF_GENERATE = ("new_tokens", "decoding", "cache", "word_timestamps")
"""The options that ``--phase generate`` alone has."""


@click.command()
@click.argument("names", nargs=-1, metavar="[WORKLOAD]...")
@click.option("--workloads", "files", multiple=True, metavar="FILE", help="Judge what FILE names too, one in a line.")
@click.option("--jobs", type=Positive(), help="Most processes for several workloads [default: up to 4].")
@click.option(
    "--timeout", type=Positive(), default=600, show_default=True, help="Seconds that one of several may take."
)
@click.option(
    "--phase", type=Named("phase", (*PHASES, GENERATE)), default="inference", show_default=True, help="What to run."
)
@torch_option("installed", "The release to judge; several with commas, or every one that is known.")
@BACKEND_OPTION
@click.option("--dtype", type=Named("dtype", DTYPES), default="float32", show_default=True, help="Of the parameters.")
@click.option("--batch-size", type=Positive(), help="Samples in a step [default: the workload's own].")
@click.option("--seq-len", type=Positive(), help="Tokens (frames, …) in a sample [default: the workload's own].")
@click.option(
    "--size", type=Named("size", SIZES), default="real", show_default=True, help="Of the model; small: few layers."
)
@click.option("--autocast", type=Named("dtype", DTYPES[1:]), help="Run the forward pass under autocast.")
@click.option("--grad-accum", type=Positive(), default=1, show_default=True, help="Backward passes for each update.")
@click.option(
    "--clip-norm", type=NotNegative(), default=1.0, show_default=True, help="Gradient norm limit; 0 for none."
)
@click.option("--lora", is_flag=True, help="Train LoRA adapters of all linear layers instead of the whole model.")
@click.option("--lora-rank", type=Positive(), default=16, show_default=True, help="Of these adapters.")
@click.option(
    "--weights", is_flag=True, help="Load real weights and compute with them, instead of predicting from shapes."
)
@click.option("--trust-remote-code", is_flag=True, help="Let a checkpoint run Python code of its own.")
@click.option("--method", type=Named("method", METHODS), default="auto", show_default=True, help="How to find out.")
@click.option("--new-tokens", type=Positive(), default=8, show_default=True, help="What --phase generate makes.")
@click.option(
    "--decoding", type=Named("decoding", DECODINGS), default="greedy", show_default=True, help="How generate() chooses."
)
@click.option("--cache", type=Named("cache", CACHES), default="dynamic", show_default=True, help="What it keeps.")
@click.option("--word-timestamps", is_flag=True, help="Whisper: find out when each generated word is spoken.")
@click.option("--macos", type=MacosVersion(), metavar="VERSION", help="The macOS to judge for [default: a new one].")
@CHIP_OPTION
@MEMORY_OPTION
@click.option(
    "--vary",
    type=VaryRange(),
    metavar="WHAT=A..B",
    help="Count the MPSGraphs that many lengths compile: seq-len=1..512.",
)
@click.option("--explain", is_flag=True, help="Show for each operator what its verdict rests on.")
@click.option("--all", "everything", is_flag=True, help="On a terminal, show native operators too.")
@click.option("--format", "format_name", metavar="NAME", help="An exporter [default: table, or by -o's extension].")
@click.option("-o", "--output", metavar="FILE", help="Write the report to FILE.")
@click.option("--export", "exports", multiple=True, metavar="NAME[=PATH]", help="Also write this format; repeatable.")
@click.option(
    "--fail-on",
    type=VerdictList(),
    metavar="VERDICT,…",
    help="Exit with 1 when an operator has one of these verdicts; 'advisory': when results are known to be wrong; "
    "'memory': when it raises for want of memory by every published figure.",
)
@click.option("--allow", type=Names(), metavar="OPERATOR,…", help="What --fail-on passes over: linalg_qr, aten::fft_*.")
@click.pass_context
def coverage(
    ctx: click.Context,
    /,
    names: tuple[str, ...],
    files: tuple[str, ...],
    jobs: int | None,
    timeout: int,
    torch_release: str,
    method: str,
    explain: bool,
    everything: bool,
    format_name: str | None,
    output: str | None,
    exports: tuple[str, ...],
    fail_on: tuple[str, ...] | None,
    allow: tuple[str, ...] | None,
    vary: Vary | None,
    **run_options: Any,
) -> None:
    """Which operators of WORKLOAD have no MPS kernel, where they are called, and which release fixes them.

    WORKLOAD is a name ('mpsprobe workloads list'), hf:TYPE for any transformers model type, a checkpoint
    folder, a Hub id, keras:NAME, or path/to/file.py:function returning a model and its inputs. Nothing is downloaded
    for a name, and no Mac is needed. Several of them, or a pattern such as 'bert-*', give one table.

    \b
    mpsprobe coverage bert-base
    mpsprobe coverage llama-3-8b --phase training --torch 2.6.0
    mpsprobe coverage whisper-tiny --torch all
    mpsprobe coverage llama-3-8b --phase generate --decoding beams
    mpsprobe coverage llama-3-8b --dtype float16 --chip m2-pro-16gb
    mpsprobe coverage my_model.py:make --fail-on missing,unsupported
    mpsprobe coverage --workloads models.txt --jobs 4 --fail-on missing
    """
    if names and ctx.get_parameter_source("files") is not ParameterSource.COMMANDLINE:
        files = ()  # of a variable or a file: what is typed goes before
    if not (names or files):
        raise UsageError("what should be judged?", "Name a WORKLOAD of 'mpsprobe workloads list', or file.py:function.")
    registry = get_registry()
    many = bool(files) or len(names) > 1 or several.is_pattern(names[0])
    wanted = several.names(names, files, registry) if many else [*names]
    framework = several.framework(wanted, registry)
    options, targets = asked(torch_release, method, explain, run_options, framework)
    check_memory(options, fail_on or ())
    if vary is not None and (many or len(targets) > 1):
        raise UsageError("--vary is about one workload on one torch release", "Name one of each.")
    kind = "coverage-several" if many else "coverage" if len(targets) == 1 else "coverage-matrix"
    name = exporting.choose(registry, format_name, output, kind)
    stem = PurePath(files[0]).stem if files else PurePath(names[0]).name
    others = [exporting.further(registry, text, stem, kind) for text in exports]
    with make_progress() as progress:
        report: Report
        if many:
            if framework == TORCH:
                check_version("torch", "mpsprobe-coverage", "coverage")
            report = several.judge(wanted, options, targets, explain, jobs or several.usual_jobs(), timeout, progress)
        else:
            progress.start_loading(STEPS)
            report = judged(names[0], options, targets, explain, progress)
            if vary is not None:
                report = grown(report, names[0], options, vary, progress)
    report = with_allowed(report, allow or ())
    try:
        for other, path in others:
            click.echo(f"{other}: {exporting.write(registry, other, report, path)}", err=True)
    finally:  # the report is not lost with an export that fails
        exporting.write(registry, name, report, output, everything)
    shown = name == "table" and output in (None, "-")
    sys.exit(exit_code(report, fail_on or (), allow or (), shown=shown))


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
