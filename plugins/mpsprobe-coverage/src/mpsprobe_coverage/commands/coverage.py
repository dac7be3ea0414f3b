"""``mpsprobe coverage WORKLOAD``."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from mpsprobe.errors import UsageError
from mpsprobe.options import Named, Names, Positive
from mpsprobe.plugins.registry import get_registry
from mpsprobe.protocols import RunOptions
from mpsprobe_coverage.commands import known
from mpsprobe_coverage.commands.instant import Question, cache_option
from mpsprobe_coverage.commands.options import (
    BACKEND_OPTION,
    CHIP_OPTION,
    MEMORY_OPTION,
    PHASE_OPTION,
    TORCH,
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

if TYPE_CHECKING:
    from mpsprobe.schemas import Report
    from mpsprobe_coverage.scanning.vary import Vary

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
    atlas: bool | None,
    no_cache: bool,
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
    many = bool(files) or len(names) > 1 or is_pattern(names[0])
    asks = {**run_options, "torch_release": torch_release, "method": method, "explain": explain, "vary": vary}
    asks["atlas"] = atlas
    question = None if many else Question("coverage", names[0], asks, cached=not no_cache)
    how = (everything, fail_on, allow)
    if question is not None and (code := question.written(format_name, output, exports, how)) is not None:
        sys.exit(code)
    plain = RunOptions(**{name: run_options[name] for name in ("phase", "dtype", "size")}) == RunOptions(**run_options)
    plain = plain and not any((method == "observed", explain, vary, fail_on, allow, exports, output not in (None, "-")))
    if plain and question is not None and known.written(question, atlas, format_name, everything):
        sys.exit(0)

    from pathlib import PurePath

    from mpsprobe import exporting
    from mpsprobe.progress import make_progress
    from mpsprobe_coverage.commands import judge, several

    registry = get_registry()
    wanted = several.names(names, files, registry) if many else [*names]
    of_torch = (written_in := framework(wanted, registry)) == TORCH
    options, targets = judge.asked(torch_release, method, explain, run_options, written_in)
    judge.check_memory(options, fail_on or ())
    if vary is not None and (many or len(targets) > 1):
        raise UsageError("--vary is about one workload on one torch release", "Name one of each.")
    kind = "coverage-several" if many else "coverage" if len(targets) == 1 else "coverage-matrix"
    name = exporting.choose(registry, format_name, output, kind)
    stem = PurePath(files[0]).stem if files else PurePath(names[0]).name
    others = [exporting.further(registry, text, stem, kind) for text in exports]
    report: Report
    kept: Report | None = None
    if any("allocations" in registry.exporter_declaration(made).asks for made in (name, *dict(others))):
        options, asks["allocations"] = replace(options, allocations=True), True
        question = None if many else Question("coverage", names[0], asks, cached=not no_cache)
    if options.allocations and kind != "coverage":
        raise UsageError("--allocations is about one workload on one torch release", "Name one of each.")
    with make_progress() as progress:
        if question is None:
            questions = several.questions(wanted, asks, cached=not no_cache)
            found = several.Work(options, targets, explain, of_torch, atlas)
            report = several.judge(questions, found, jobs or several.usual_jobs(), timeout, progress)
        elif (known_report := question.recalled() or known.known(question, atlas, of_torch)) is not None:
            report = kept = known_report
        else:
            progress.start_loading(STEPS)
            with question.watched() as watch:
                found_report = judge.judged(names[0], options, targets, explain, progress)
                if vary is not None:
                    found_report = judge.grown(found_report, names[0], options, vary, progress)
            report, kept = found_report, question.keep(found_report, watch)
    report = judge.with_allowed(report, allow or ())
    try:
        for other, path in others:
            click.echo(f"{other}: {exporting.write(registry, other, report, path)}", err=True)
    finally:  # the report is not lost with an export that fails
        written = exporting.write(registry, name, report, output, everything)
    judge.say_written(report, written)
    shown = name == "table" and written is None
    code = judge.exit_code(report, fail_on or (), allow or (), name=name, written=written)
    if kept is not None and question is not None and shown:
        drawn = judge.with_allowed(kept, allow or ())
        question.keep_text(how, lambda: exporting.on_terminal(registry, name, drawn, everything), code)
    sys.exit(code)
