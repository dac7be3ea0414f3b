"""``mpsprobe fit WORKLOAD``."""

from __future__ import annotations

from typing import Any

import click

from mpsprobe import options
from mpsprobe.answers.lookup import find, keep
from mpsprobe.answers.question import Question, cache_option
from mpsprobe.commands import Command
from mpsprobe.errors import UsageError
from mpsprobe.options import WHAT, Named, check_training, often, rare
from mpsprobe.plugins.registry import get_registry
from mpsprobe.protocols import RunOptions
from mpsprobe_coverage.commands import options as flags
from mpsprobe_coverage.commands.showing import Showing

VARIED = ("batch-size", "seq-len", "size")


@click.command(cls=Command)
@click.argument("name", metavar="WORKLOAD", shell_complete=options.complete_workload)
@flags.PHASE_OPTION
@often(
    WHAT, "--vary", type=Named("size", VARIED), metavar="WHAT",
    help="What grows: batch-size, seq-len, size\f [default: seq-len to generate, else batch-size].",
)  # fmt: skip
@flags.model_options
@rare(WHAT, "--plain", is_flag=True, help="As it is only, without what saves memory.")
@flags.mac_options()
@flags.torch_option("installed", "PyTorch; also latest\f: the release whose allocator is asked.", "VERSION")
@options.report_options
@cache_option("fit")
@options.training_options
@flags.NEW_TOKENS_OPTION
@click.pass_context
def fit(
    ctx: click.Context,
    /,
    name: str,
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
    showing = Showing.of_flags(asked)
    question = Question.of_command(ctx.command, name, asked, cached=not no_cache)
    answer = find(question)
    if answer is not None and showing.at_once(answer):
        return

    from mpsprobe.environment import check_version
    from mpsprobe.progress import make_progress
    from mpsprobe_coverage.knowledge.chips.limits import mac_asked
    from mpsprobe_coverage.knowledge.kernels.backends import family_named

    release, vary, plain = (asked.pop(flag) for flag in ("torch_release", "vary", "plain"))
    options = RunOptions(**asked)
    check_training(options, options.phase == "training")
    mac = mac_asked(options)
    if mac is None:
        raise UsageError("fit on which Mac?", "For example --chip m2-16gb ('mpsprobe chips list'), or --memory 16GB.")
    varied: Any = vary or ("seq-len" if options.phase == flags.GENERATE else "batch-size")
    registry = get_registry()
    targets = flags.releases(release, family_named(options.backend))
    if len(targets) > 1:
        raise UsageError("fit is about one torch release", "Name one with --torch.")
    showing.choose("fit", name)
    report = answer.report() if answer is not None else None
    if report is None:
        check_version("torch", "mpsprobe-coverage", "fit")
        with make_progress() as progress:
            progress.start_loading(1)
            from mpsprobe_coverage.scanning.largest_size import fit_report

            workload = registry.workload(name)
            report = fit_report(workload, options, targets[0], mac, varied, progress, savings=not plain)
        keep(question, report)
    showing.show(report)
