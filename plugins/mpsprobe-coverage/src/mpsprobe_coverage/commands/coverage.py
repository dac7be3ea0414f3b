"""``mpsprobe coverage WORKLOAD``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from mpsprobe.answers.lookup import find, keep
from mpsprobe.answers.question import Question, cache_option
from mpsprobe.errors import UsageError
from mpsprobe.options import Named
from mpsprobe.plugins.registry import get_registry
from mpsprobe_coverage.commands import options as flags
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
@flags.several_options
@flags.PHASE_OPTION
@flags.torch_option("installed", "The release to judge; several with commas, or every one that is known.")
@flags.BACKEND_OPTION
@flags.model_options
@flags.GRAD_ACCUM_OPTION
@click.option(
    "--clip-norm",
    type=flags.gradient_norm,
    metavar="NUMBER",
    default=1.0,
    show_default=True,
    help="Gradient norm limit; 0 for none.",
)
@flags.lora_options
@click.option(
    "--weights", is_flag=True, help="Load real weights and compute with them, instead of predicting from shapes."
)
@flags.TRUST_OPTION
@click.option("--method", type=Named("method", METHODS), default="auto", show_default=True, help="How to find out.")
@flags.NEW_TOKENS_OPTION
@click.option(
    "--decoding", type=Named("decoding", DECODINGS), default="greedy", show_default=True, help="How generate() chooses."
)
@click.option("--cache", type=Named("cache", CACHES), default="dynamic", show_default=True, help="What it keeps.")
@click.option("--word-timestamps", is_flag=True, help="Whisper: find out when each generated word is spoken.")
@click.option(
    "--graph", type=Named("graph", GRAPHS), default="plain", show_default=True, help="TensorFlow: which operations."
)
@flags.mac_options()
@click.option(
    "--vary",
    type=flags.vary_range,
    metavar="WHAT=A..B",
    help="Count the MPSGraphs that many lengths compile: seq-len=1..512.",
)
@click.option("--allocations", is_flag=True, help="Keep every allocation in the report, for --export memory-viz.")
@flags.EXPLAIN_OPTION
@flags.EVERYTHING_OPTION
@flags.EXPORTER_OPTION
@flags.OUTPUT_OPTION
@flags.EXPORT_OPTION
@click.option(
    "--fail-on",
    type=flags.verdicts,
    metavar="VERDICT,…",
    help="Exit with 1 when an operator has one of these verdicts; 'advisory': when results are known to be wrong; "
    "'assumed': when a value was guessed, which is 'unknown' too; 'memory': when it raises for want of memory "
    "by every published figure, or takes more than the Mac has.",
)
@flags.ALLOW_OPTION
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
    showing = Showing.of_flags(asked)
    asked["allocations"] |= showing.asks("allocations")
    many = bool(files) or len(names) > 1 or flags.is_pattern(names[0])
    question = None if many else Question.of_command(ctx.command, names[0], asked, cached=not no_cache)
    answer = find(question, atlas) if question is not None else None
    if answer is not None and showing.at_once(answer):
        return

    from mpsprobe.progress import make_progress
    from mpsprobe_coverage.commands import judge, several

    registry = get_registry()
    wanted = several.names(names, files, registry) if many else [*names]
    judging = judge.Judging.of_flags(asked, flags.framework(wanted, registry), showing.fail_on)
    kind = "coverage-several" if many else "coverage" if len(judging.releases) == 1 else "coverage-matrix"
    for flag in ("vary", "allocations"):
        if asked[flag] and kind != "coverage":
            raise UsageError(f"--{flag} is about one workload on one torch release", "Name one of each.")
    showing.choose(kind, files[0].removesuffix(".txt") if files else names[0])
    report: Report | None = answer.report() if answer is not None else None
    with make_progress() as progress:
        if question is None:
            questions = [Question.of_command(ctx.command, name, asked, cached=not no_cache) for name in wanted]
            report = several.judge(questions, judging, atlas, jobs or several.usual_jobs(), timeout, progress)
        elif report is None:
            progress.start_loading(STEPS)
            report = judge.judged(names[0], judging, progress)
            keep(question, report)
    sys.exit(showing.exit_code(report, showing.show(report)))
