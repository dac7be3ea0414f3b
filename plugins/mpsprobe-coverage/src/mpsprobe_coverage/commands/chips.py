"""``mpsprobe chips list | show``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from mpsprobe.commands import OpenGroup
from mpsprobe.options import FORMAT_OPTION
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
