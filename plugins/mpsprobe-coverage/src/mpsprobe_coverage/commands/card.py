"""``mpsprobe card WORKLOAD --mac "M2 Air 16GB"``: the question of ``mpsprobe coverage``, answered on a card."""

from __future__ import annotations

from typing import Any

import click

from mpsprobe import options
from mpsprobe.answers.lookup import find, keep
from mpsprobe.answers.question import Question, cache_option
from mpsprobe.commands import Command
from mpsprobe.errors import UsageError
from mpsprobe.options import ANSWER, JSON, OUTPUT_OPTION, QUIET_OPTION, completing, often
from mpsprobe.plugins.registry import Registry, get_registry
from mpsprobe.progress import make_progress
from mpsprobe.streams import note
from mpsprobe_coverage.commands import options as flags
from mpsprobe_coverage.commands.coverage import STEPS, coverage
from mpsprobe_coverage.commands.judge import Judging, judged

EXPORTER = "card"
OF_CARDS = ".card"
"""How the extensions of cards begin; here they go without it, so that ``.svg`` is a card."""


@click.command(cls=Command)
@click.argument("name", metavar="WORKLOAD", shell_complete=options.complete_workload)
@often(
    flags.MAC, "--mac", "chip", type=flags.chip_name, metavar="NAME", required=True,
    shell_complete=completing(flags.chips), help="As people write it: 'M2 Air 16GB', 'mac mini m4', m3-max-36gb.",
)  # fmt: skip
@flags.PHASE_OPTION
@flags.model_options
@flags.torch_option("installed", "PyTorch; also latest\f: the release to judge.", "VERSION")
@often(
    ANSWER, "--format", "format_name", metavar="NAME", shortcuts={**JSON, "--badge": "card-badge"},
    help="An exporter of coverage reports [default: card, or by -o's extension].",
)  # fmt: skip
@OUTPUT_OPTION
@QUIET_OPTION
@cache_option("card")
def card(name: str, format_name: str | None, output: str | None, no_cache: bool, **asked: Any) -> None:
    """Will WORKLOAD run on that Mac? Operators, memory, known wrong numbers, speed; one sentence, the next command.

    The answer is that of 'mpsprobe coverage', and so is the file of --json. Without a memory, --mac means each that
    the chip was sold with. Nothing is downloaded, and no Mac is needed.

    \b
    mpsprobe card qwen3-8b --mac "M2 Air 16GB" --dtype float16
    mpsprobe card my_model.py:make --mac "mac mini m4" -o card.svg
    mpsprobe card bert-base --mac m1 -o card.png
    mpsprobe card bert-base --mac m1 --badge -o mps.svg
    """
    from mpsprobe import exporting

    registry = get_registry()
    format_name = format_name or (EXPORTER if output in (None, "-") else _of_card(registry, str(output)))
    exporter = exporting.choose(registry, format_name, output, "coverage")
    judging = Judging.of_flags(asked, flags.framework([name], registry))
    if len(judging.releases) > 1:
        raise UsageError("a card is about one torch release", "Name one with --torch.")
    question = Question.of_command(coverage, name, asked, cached=not no_cache)
    answer = find(question)
    report = answer.report() if answer is not None else None
    if report is None:
        with make_progress() as progress:
            progress.start_loading(STEPS)
            report = judged(name, judging, progress)
        keep(question, report)
    if (written := exporting.write(registry, exporter, report, output)) is not None:
        note(f"wrote {written}")


def _of_card(registry: Registry, output: str) -> str | None:
    """The exporter of cards that writes files like ``output``; ``None`` where it is another one, or none."""
    declared = {name: exporter.extension for name, exporter in registry.exporters().items()}
    ends = {name: end.removeprefix(OF_CARDS) for name, end in declared.items() if end.startswith(OF_CARDS)}
    fitting = [name for name, end in ends.items() if output.lower().endswith(end)]
    return max(fitting, key=lambda name: len(ends[name]), default=None)
