"""``mpsprobe chips list | show | compare``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from mpsprobe import options
from mpsprobe.commands import OpenGroup
from mpsprobe.options import ANSWER, FORMAT_OPTION, check_training, often
from mpsprobe_coverage.commands import options as flags
from mpsprobe_coverage.commands.coverage import STEPS
from mpsprobe_coverage.commands.kernels import write
from mpsprobe_coverage.knowledge.chips.limits import limits_of
from mpsprobe_coverage.knowledge.chips.store import GIB, all_chips, machine_named


@click.group(cls=OpenGroup, default="list")
def chips() -> None:
    """Apple's chips of the M series: GPU family, cores, bandwidth, memory, and what Metal lets a process take of it.

    The facts come from Apple's tables and from what people published, with their sources; what none was found for is
    empty. A name may end in the memory: m2-pro-16gb. Nothing is downloaded, and neither a Mac nor torch is needed.
    """


@chips.command("list", short_help="Every chip.")
@FORMAT_OPTION
def list_command(format_name: str) -> None:
    """Every chip, oldest first.

    \b
    mpsprobe chips list
    mpsprobe chips list --format json
    """
    listed = all_chips().values()
    write(format_name, lambda: [asdict(chip) for chip in listed], "chips_output:print_list", listed)


@chips.command(short_help="What is known of one, and the limits that Metal sets, with sources.")
@click.argument("name", metavar="NAME")
@FORMAT_OPTION
def show(name: str, format_name: str) -> None:
    """What is known of a chip, and for each of its memories what Metal recommends to a process and the largest buffer.

    \b
    mpsprobe chips show m1
    mpsprobe chips show m3-max-64gb --format json
    """
    machine = machine_named(name)
    chip = machine.chip
    memories = [machine.memory_bytes] if machine.memory_bytes else [size * GIB for size in chip.memory_gib]

    def document() -> dict[str, Any]:
        return {**asdict(chip), "limits": [asdict(limits_of(memory)) for memory in memories]}

    write(format_name, document, "chips_output:print_details", chip, memories)


@chips.command(short_help="One workload on every Mac: whether it fits, and how fast it was predicted to be.")
@click.argument("name", metavar="WORKLOAD", shell_complete=options.complete_workload)
@flags.PHASE_OPTION
@flags.model_options
@flags.torch_option("installed", "PyTorch; also latest\f: the release whose speed is predicted.", "VERSION")
@options.training_options
@flags.NEW_TOKENS_OPTION
@often(ANSWER, "--at-least", metavar="SPEED", help="What it shall do: 20tok/s, 5samples/s, 2steps/s.")
@often(ANSWER, "--within", metavar="TIME", help="How long a step may take: 2s, 500ms.")
@FORMAT_OPTION
def compare(name: str, format_name: str, at_least: str | None, within: str | None, **asked: Any) -> None:
    """Every Mac: the memory in which WORKLOAD fits, the predicted time of a step, samples or tokens a second.

    With --at-least or --within, also the smallest Mac that does that. The times are predicted by a model that was
    fitted to published figures, and are not measured; they are ranges where they are shown as such.

    \b
    mpsprobe chips compare bert-base --phase training --batch-size 16
    mpsprobe chips compare llama-3-8b --dtype float16 --phase generate --at-least 20tok/s
    """
    from mpsprobe.environment import check_version
    from mpsprobe.errors import UsageError
    from mpsprobe.plugins.registry import get_registry
    from mpsprobe.progress import make_progress
    from mpsprobe.protocols import RunOptions
    from mpsprobe_coverage.knowledge.kernels.backends import family_named

    check_version("torch", "mpsprobe-coverage", "chips compare")
    release = asked.pop("torch_release")
    run = RunOptions(**asked)
    check_training(run, run.phase == "training")
    registry = get_registry()
    targets = flags.releases(release, family_named(run.backend))
    if len(targets) > 1:
        raise UsageError("chips compare is about one torch release", "Name one with --torch.")
    with make_progress() as progress:
        progress.start_loading(STEPS)
        from mpsprobe_coverage.scanning.choosing import Wish, choices, smallest

        wish = Wish.of_flags(at_least, within)
        info, judged, choice = choices(registry.workload(name), run, targets[0], wish, progress)
    enough = smallest(choice, wish)

    def document() -> dict[str, Any]:
        return {
            "workload": info.model_dump(mode="json"),
            "torch": judged,
            "predicted": True,
            "smallest": enough and enough.document(),
            "chips": [machine.document() for machine in choice],
        }

    write(format_name, document, "chips_output:print_compared", info, judged, choice, enough)
