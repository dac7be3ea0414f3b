"""``mpsprobe coverage WORKLOAD``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from mpsprobe import options
from mpsprobe.answers.lookup import find, keep
from mpsprobe.answers.question import Question, cache_option
from mpsprobe.commands import Command
from mpsprobe.errors import UsageError
from mpsprobe.options import ANSWER, TRAINING, WHAT, Named, often, rare
from mpsprobe.plugins.registry import get_registry
from mpsprobe_coverage.commands import options as flags
from mpsprobe_coverage.commands.showing import Showing

if TYPE_CHECKING:
    from mpsprobe.schemas import Report

STEPS = 3  # to load torch, to build the workload, to run it
DECODINGS = ("greedy", "sampling", "beams")
CACHES = ("dynamic", "static")
GRAPHS = ("plain", "optimized", "eager")


@click.command(cls=Command)
@options.workloads_argument
@flags.PHASE_OPTION
@flags.model_options
@rare(WHAT, "--weights", is_flag=True, help="Compute with real weights, instead of predicting from shapes.")
@rare(
    WHAT, "--vary", type=flags.vary_range, metavar="WHAT=A..B",
    help="Count the MPSGraphs that many lengths compile: seq-len=1..512.",
)  # fmt: skip
@rare(WHAT, "--compile", "compiles", is_flag=True, help="Also run the step under torch.compile: breaks, kernels.")
@rare(
    WHAT, "--metal", type=click.Path(file_okay=False), metavar="FOLDER", help="Of --compile: write the kernels there."
)
@rare(WHAT, "--graph", type=Named("graph", GRAPHS), default="plain", help="TensorFlow: which operations.")
@flags.torch_option("installed", "PyTorch; also latest, all\f: the releases to judge, with commas between them.")
@flags.mac_options()
@flags.BACKEND_OPTION
@options.report_options
@flags.EXPLAIN_OPTION
@options.EVERYTHING_OPTION
@rare(ANSWER, "--allocations", is_flag=True, help="Keep every allocation, for --export memory-viz.")
@flags.ATLAS_OPTION
@cache_option("coverage")
@flags.gate_options(
    "'assumed': where a value was guessed, which is 'unknown' too",
    "'memory': where it raises for want of memory by every published figure, or takes more than the Mac has",
)
@often(ANSWER, "--watch", is_flag=True, help="Judge FILE:FUNCTION anew at each save, until Ctrl-C.")
@flags.several_options
@options.training_options
@rare(
    TRAINING,
    "--clip-norm",
    type=flags.gradient_norm,
    metavar="NUMBER",
    default=1.0,
    help="Gradient norm limit; 0: none.",
)
@flags.NEW_TOKENS_OPTION
@rare(
    flags.GENERATION, "--decoding", type=Named("decoding", DECODINGS), default="greedy", help="How tokens are chosen."
)
@rare(flags.GENERATION, "--cache", type=Named("cache", CACHES), default="dynamic", help="Of keys and values.")
@rare(flags.GENERATION, "--word-timestamps", is_flag=True, help="Whisper: when each generated word is spoken.")
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
    watch: bool,
    compiles: bool,
    metal: str | None,
    **asked: Any,
) -> None:
    """Which operators of WORKLOAD have no MPS kernel, where they are called, and which release fixes them.

    WORKLOAD is a name ('mpsprobe workloads list'), hf:TYPE, keras:NAME, a checkpoint folder, a Hub id, or
    path/to/file.py:function, which returns a model and its inputs. Several, or 'bert-*', give one table.

    \b
    mpsprobe coverage bert-base
    mpsprobe coverage llama-3-8b --dtype float16 --chip m2-pro-16gb
    mpsprobe coverage my_model.py:make --fail-on missing,unsupported
    \f
    mpsprobe coverage llama-3-8b --phase training --torch 2.6.0
    mpsprobe coverage llama-3-8b --phase generate --decoding beams
    mpsprobe coverage whisper-tiny --torch all
    mpsprobe coverage --workloads models.txt --jobs 4 --fail-on missing

    Nothing is downloaded for a name, and no Mac is needed. hf:TYPE is any model type of transformers.
    """
    if names and ctx.get_parameter_source("files") is not ParameterSource.COMMANDLINE:
        files = ()  # of a variable or a file: what is typed goes before
    if not (names or files):
        raise UsageError("what should be judged?", "Name a WORKLOAD of 'mpsprobe workloads list', or file.py:function.")
    if metal is not None and not compiles:
        raise UsageError("--metal writes the kernels that --compile generates", "Add --compile.")
    if compiles and asked["phase"] == flags.GENERATE:
        raise UsageError("--compile is about a step of the model", "Leave out --phase generate.")
    asked["compiles"] = compiles
    showing = Showing.of_flags(asked)
    if watch:
        if files or len(names) != 1 or showing.goes_elsewhere:
            raise UsageError("--watch shows one workload on the terminal", "Leave out what is about files and gates.")
        from mpsprobe_coverage.commands import judge, watching

        watching.watch(names[0], judge.Judging.of_flags(asked, flags.framework(names, get_registry())))
        return
    asked["allocations"] |= showing.asks("allocations")
    many = bool(files) or len(names) > 1 or flags.is_pattern(names[0])
    question = None if many else Question.of_command(ctx.command, names[0], asked, cached=not no_cache)
    answer = find(question, atlas) if question is not None and metal is None else None
    if answer is not None and showing.at_once(answer):
        return

    from mpsprobe.progress import make_progress
    from mpsprobe.schemas import CoverageReport
    from mpsprobe_coverage.commands import judge, several

    registry = get_registry()
    wanted = several.names(names, files, registry) if many else [*names]
    judging = judge.Judging.of_flags(asked, flags.framework(wanted, registry), showing.fail_on)
    kind = "coverage-several" if many else "coverage" if len(judging.releases) == 1 else "coverage-matrix"
    for name, flag in (("vary", "vary"), ("allocations", "allocations"), ("compiles", "compile")):
        if asked[name] and kind != "coverage":
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
            if isinstance(report, CoverageReport) and compiles:
                from mpsprobe_coverage.commands.compiling import with_compiled

                report = with_compiled(report, names[0], judging.options, timeout, judging.vary)
            if not compiles or getattr(report, "compiled", None) is not None:  # a compiler may come
                keep(question, report)
    if metal is not None and isinstance(report, CoverageReport) and report.compiled is not None:
        from mpsprobe_coverage.commands.compiling import write_kernels

        write_kernels(report.compiled, metal)
    sys.exit(showing.exit_code(report, showing.show(report)))
