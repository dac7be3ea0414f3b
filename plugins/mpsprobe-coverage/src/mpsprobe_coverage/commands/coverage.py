"""``mpsprobe coverage WORKLOAD``."""

from __future__ import annotations

import sys
from typing import Any

import click

from mpsprobe import exporting
from mpsprobe.declarations import DTYPES, PHASES
from mpsprobe.environment import check_version
from mpsprobe.errors import RunFailed, UsageError
from mpsprobe.options import Named, Positive
from mpsprobe.plugins.registry import get_registry
from mpsprobe.progress import make_progress
from mpsprobe.protocols import RunOptions
from mpsprobe.schemas import CoverageReport
from mpsprobe_coverage.commands.options import (
    ADVISORY,
    ALL,
    BACKEND_OPTION,
    MacosVersion,
    NotNegative,
    VerdictList,
    releases,
    torch_option,
)

STEPS = 3  # to load torch, to build the workload, to run it
METHODS = ("auto", "predicted", "observed")
GENERATE = "generate"
DECODINGS = ("greedy", "sampling", "beams")
CACHES = ("dynamic", "static")
OF_GENERATE = ("new_tokens", "decoding", "cache", "word_timestamps")
"""The options that ``--phase generate`` alone has."""


@click.command()
@click.argument("workload", required=False, metavar="WORKLOAD")
@click.option(
    "--phase", type=Named("phase", (*PHASES, GENERATE)), default="inference", show_default=True, help="What to run."
)
@torch_option("installed", "The torch release to judge; several with commas, or every one that is known.")
@BACKEND_OPTION
@click.option("--dtype", type=Named("dtype", DTYPES), default="float32", show_default=True, help="Of the parameters.")
@click.option("--batch-size", type=Positive(), help="Samples in a step [default: the workload's own].")
@click.option("--seq-len", type=Positive(), help="Tokens (frames, …) in a sample [default: the workload's own].")
@click.option("--autocast", type=Named("dtype", DTYPES[1:]), help="Run the forward pass under autocast.")
@click.option("--grad-accum", type=Positive(), default=1, show_default=True, help="Backward passes for each update.")
@click.option(
    "--clip-norm", type=NotNegative(), default=1.0, show_default=True, help="Gradient norm limit; 0 for none."
)
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
@click.option("--explain", is_flag=True, help="Show for each operator what its verdict rests on.")
@click.option("--all", "everything", is_flag=True, help="On a terminal, show native operators too.")
@click.option("--format", "format_name", metavar="NAME", help="An exporter [default: table, or by -o's extension].")
@click.option("-o", "--output", metavar="FILE", help="Write the report to FILE.")
@click.option(
    "--fail-on",
    type=VerdictList(),
    metavar="VERDICT,…",
    help="Exit with 1 when an operator has one of these verdicts; 'advisory': when results are known to be wrong.",
)
def coverage(
    workload: str | None,
    torch_release: str,
    method: str,
    explain: bool,
    everything: bool,
    format_name: str | None,
    output: str | None,
    fail_on: tuple[str, ...] | None,
    **run_options: Any,
) -> None:
    """Which operators of WORKLOAD have no MPS kernel, where they are called, and which release fixes them.

    WORKLOAD is a name ('mpsprobe workloads list'), hf:TYPE for any transformers model type, a checkpoint
    folder, a Hub id, or path/to/file.py:function returning a model and its inputs. Nothing is downloaded
    for a name, and no Mac is needed.

    \b
    mpsprobe coverage bert-base
    mpsprobe coverage llama-3-8b --phase training --torch 2.6.0
    mpsprobe coverage whisper-tiny --torch all
    mpsprobe coverage llama-3-8b --phase generate --decoding beams
    mpsprobe coverage my_model.py:make --fail-on missing,unsupported
    """
    if workload is None:
        raise UsageError("what should be judged?", "Name a WORKLOAD of 'mpsprobe workloads list', or file.py:function.")
    options = RunOptions(**run_options)  # the options that are no parameters here are named as its fields
    if method == "observed":
        raise UsageError(
            "--method observed is not there yet: it will record real fallbacks on a Mac",
            "Use --method predicted (the default), which needs no Mac.",
        )
    if explain and ("," in torch_release or torch_release == ALL):
        raise UsageError("--explain is about one torch release", "Name one with --torch.")
    if options.phase != "training" and options.grad_accum != 1:
        raise UsageError("--grad-accum makes sense with --phase training only")
    for field in OF_GENERATE if options.phase != GENERATE else ():
        if getattr(options, field) != getattr(RunOptions(), field):
            raise UsageError(f"--{field.replace('_', '-')} makes sense with --phase {GENERATE} only")
    registry = get_registry()

    from mpsprobe_coverage.kernels.backends import family_named

    targets = releases(torch_release, family_named(options.backend, registry))
    kind = "coverage" if len(targets) == 1 else "coverage-matrix"
    name = exporting.choose(registry, format_name, output, kind)

    check_version("torch", "mpsprobe-coverage", "coverage")
    chosen = registry.workload(workload)
    registry.announce("mpsprobe_before_run", workload=workload, phase=options.phase)
    with make_progress() as progress:
        progress.start_loading(STEPS)
        report = registry.scanner_for(chosen.framework).scan(chosen, options, targets, progress)
    document = report.model_dump(mode="json")
    registry.announce("mpsprobe_after_run", workload=workload, phase=options.phase, report=document)
    if explain and isinstance(report, CoverageReport):
        report = report.model_copy(update={"explained": True})
    exporting.write(registry, name, report, output, everything)
    sys.exit(exit_code(report, fail_on or (), shown=name == "table" and output in (None, "-")))


def exit_code(report: object, fail_on: tuple[str, ...], *, shown: bool) -> int:
    """0 clean, 1 for what ``fail_on`` names (verdicts, advisories), 2 when the workload did not run to its end.

    Args:
        shown: the report, which has the cause of a failure, is what the user sees.
    """
    cells = getattr(report, "releases", None) or [report]
    for cell in cells:
        if cell.failure is not None:
            raise RunFailed(cell.failure, shown)
    seen = {verdict for cell in cells for verdict in cell.summary.operators_by_verdict}
    if any(cell.advisories for cell in cells):
        seen.add(ADVISORY)
    return 1 if seen.intersection(fail_on) else 0
