"""``mpsprobe fit WORKLOAD``."""

from __future__ import annotations

from typing import Any

import click

from mpsprobe.answers.lookup import find, keep
from mpsprobe.answers.question import Question, cache_option
from mpsprobe.errors import UsageError
from mpsprobe.options import Named, Positive, check_training
from mpsprobe.plugins.registry import get_registry
from mpsprobe.protocols import RunOptions
from mpsprobe_coverage.commands.options import (
    CHIP_OPTION,
    GENERATE,
    MEMORY_OPTION,
    PHASE_OPTION,
    MacosVersion,
    model_options,
    releases,
    torch_option,
)
from mpsprobe_coverage.commands.showing import Showing

VARIED = ("batch-size", "seq-len", "size")


@click.command()
@click.argument("name", metavar="WORKLOAD")
@CHIP_OPTION
@MEMORY_OPTION
@click.option("--vary", type=Named("size", VARIED), help="What grows [default: seq-len to generate, else batch-size].")
@PHASE_OPTION
@torch_option("installed", "The torch release whose allocator is asked.")
@model_options
@click.option("--grad-accum", type=Positive(), default=1, show_default=True, help="Backward passes for each update.")
@click.option("--lora", is_flag=True, help="Train LoRA adapters of all linear layers instead of the whole model.")
@click.option("--lora-rank", type=Positive(), default=16, show_default=True, help="Of these adapters.")
@click.option("--trust-remote-code", is_flag=True, help="Let a checkpoint run Python code of its own.")
@click.option("--new-tokens", type=Positive(), default=8, show_default=True, help="What --phase generate makes.")
@click.option("--macos", type=MacosVersion(), metavar="VERSION", help="The macOS to judge for [default: a new one].")
@click.option("--plain", is_flag=True, help="As it is only, without what saves memory.")
@click.option("--format", "format_name", metavar="NAME", help="An exporter [default: table, or by -o's extension].")
@click.option("-o", "--output", metavar="FILE", help="Write the report to FILE.")
@click.option("--export", "exports", multiple=True, metavar="NAME[=PATH]", help="Also write this format; repeatable.")
@cache_option("fit")
@click.pass_context
def fit(
    ctx: click.Context,
    /,
    name: str,
    format_name: str | None,
    output: str | None,
    exports: tuple[str, ...],
    no_cache: bool,
    **asked: Any,
) -> None:
    """The largest batch, sequence or image of WORKLOAD that fits on a Mac, and what would save memory.

    It is run on the virtual device with a few sizes, as it is and with each thing that needs less memory; nothing is
    downloaded for a name, and no Mac is needed. What Metal recommends to a process was published with different
    figures for the same memory, so that an answer may be a range.

    \b
    mpsprobe fit bert-base --phase training --chip m2-16gb
    mpsprobe fit llama-3-8b --phase generate --dtype float16 --chip m3-max-64gb
    mpsprobe fit resnet50 --vary size --memory 8GB
    """
    showing = Showing(format_name, output, exports)
    question = Question.of_command(ctx.command, name, asked, cached=not no_cache)
    answer = find(question)
    if answer is not None and showing.at_once(answer):
        return

    from mpsprobe.environment import check_version
    from mpsprobe.progress import make_progress
    from mpsprobe_coverage.knowledge.chips.mac import mac_asked
    from mpsprobe_coverage.knowledge.kernels.backends import family_named

    release, vary, plain = (asked.pop(flag) for flag in ("torch_release", "vary", "plain"))
    options = RunOptions(**asked)
    check_training(options, options.phase == "training")
    mac = mac_asked(options)
    if mac is None:
        raise UsageError("fit on which Mac?", "For example --chip m2-16gb ('mpsprobe chips list'), or --memory 16GB.")
    varied: Any = vary or ("seq-len" if options.phase == GENERATE else "batch-size")
    registry = get_registry()
    targets = releases(release, family_named(options.backend, registry))
    if len(targets) > 1:
        raise UsageError("fit is about one torch release", "Name one with --torch.")
    chosen = showing.choose("fit", name)
    report = answer.report() if answer is not None else None
    if report is None:
        check_version("torch", "mpsprobe-coverage", "fit")
        from mpsprobe_coverage.scanning.largest import fit_report

        with make_progress() as progress:
            workload = registry.workload(name)
            report = fit_report(workload, options, targets[0], mac, varied, progress, savings=not plain)
        keep(question, report)
    showing.show(report, chosen)
