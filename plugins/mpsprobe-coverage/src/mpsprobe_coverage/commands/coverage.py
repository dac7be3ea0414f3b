"""``mpsprobe coverage WORKLOAD``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from mpsprobe.answers.lookup import find, keep
from mpsprobe.answers.question import Question, cache_option
from mpsprobe.errors import UsageError
from mpsprobe.options import Named, Names, Positive
from mpsprobe.plugins.registry import get_registry
from mpsprobe_coverage.commands.options import (
    BACKEND_OPTION,
    CHIP_OPTION,
    MEMORY_OPTION,
    PHASE_OPTION,
    MacosVersion,
    NotNegative,
    VaryRange,
    VerdictList,
    framework,
    is_pattern,
    model_options,
    several_options,
    torch_option,
)
from mpsprobe_coverage.commands.showing import Showing

if TYPE_CHECKING:
    from mpsprobe.schemas import Report

STEPS = 3  # to load torch, to build the workload, to run it
METHODS = ("auto", "predicted", "observed")
DECODINGS = ("greedy", "sampling", "beams")
CACHES = ("dynamic", "static")
GRAPHS = ("plain", "optimized", "eager")


@click.command()
@click.argument("names", nargs=-1, metavar="[WORKLOAD]...")
@several_options
@PHASE_OPTION
@torch_option("installed", "The release to judge; several with commas, or every one that is known.")
@BACKEND_OPTION
@model_options
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
@click.option(
    "--graph", type=Named("graph", GRAPHS), default="plain", show_default=True, help="TensorFlow: which operations."
)
@click.option("--macos", type=MacosVersion(), metavar="VERSION", help="The macOS to judge for [default: a new one].")
@CHIP_OPTION
@MEMORY_OPTION
@click.option(
    "--vary",
    type=VaryRange(),
    metavar="WHAT=A..B",
    help="Count the MPSGraphs that many lengths compile: seq-len=1..512.",
)
@click.option("--allocations", is_flag=True, help="Keep every allocation in the report, for --export memory-viz.")
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
    "'assumed': when a value was guessed, which is 'unknown' too; 'memory': when it raises for want of memory "
    "by every published figure, or takes more than the Mac has.",
)
@click.option("--allow", type=Names(), metavar="OPERATOR,…", help="What --fail-on passes over: linalg_qr, aten::fft_*.")
@click.option(
    "--atlas/--no-atlas",
    default=None,
    help="Take the answer that mpsprobe-atlas knows, also of other versions [default: where a run would say the same].",
)
@cache_option("coverage")
@click.pass_context
def coverage(
    ctx: click.Context,
    /,
    names: tuple[str, ...],
    files: tuple[str, ...],
    jobs: int | None,
    timeout: int,
    everything: bool,
    format_name: str | None,
    output: str | None,
    exports: tuple[str, ...],
    fail_on: tuple[str, ...] | None,
    allow: tuple[str, ...] | None,
    atlas: bool | None,
    no_cache: bool,
    **asked: Any,
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
    showing = Showing(format_name, output, exports, everything, fail_on or (), allow or ())
    asked["allocations"] |= showing.asks("allocations")
    many = bool(files) or len(names) > 1 or is_pattern(names[0])
    question = None if many else Question.of_command(ctx.command, names[0], asked, cached=not no_cache)
    answer = find(question, atlas) if question is not None else None
    if answer is not None and showing.at_once(answer):
        return

    from mpsprobe.progress import make_progress
    from mpsprobe_coverage.commands import judge, several

    registry = get_registry()
    wanted = several.names(names, files, registry) if many else [*names]
    judging = judge.Judging.of_flags(asked, framework(wanted, registry), showing.fail_on)
    kind = "coverage-several" if many else "coverage" if len(judging.releases) == 1 else "coverage-matrix"
    for flag in ("vary", "allocations"):
        if asked[flag] and kind != "coverage":
            raise UsageError(f"--{flag} is about one workload on one torch release", "Name one of each.")
    chosen = showing.choose(kind, files[0].removesuffix(".txt") if files else names[0])
    report: Report | None = answer.report() if answer is not None else None
    with make_progress() as progress:
        if question is None:
            questions = [Question.of_command(ctx.command, name, asked, cached=not no_cache) for name in wanted]
            report = several.judge(questions, judging, atlas, jobs or several.usual_jobs(), timeout, progress)
        elif report is None:
            progress.start_loading(STEPS)
            report = judge.judged(names[0], judging, progress)
            keep(question, report)
    sys.exit(showing.exit_code(report, chosen, showing.show(report, chosen)))
