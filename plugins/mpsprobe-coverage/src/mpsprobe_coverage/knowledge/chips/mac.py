"""The Mac that a run is judged for, with its memory."""

from __future__ import annotations

from dataclasses import dataclass

from mpsprobe.errors import UsageError
from mpsprobe.protocols import MacOptions
from mpsprobe_coverage.knowledge.chips.limits import memory_of
from mpsprobe_coverage.knowledge.chips.store import GIB, Machine, machine_named


@dataclass(frozen=True, slots=True)
class Mac:
    name: str
    memory: int  # in bytes


def mac_asked(options: MacOptions) -> Mac | None:
    """The Mac that ``options`` name with its memory; None where it has no name, or the chip had several memories."""
    if options.chip is None:
        if options.memory is None:
            return None
        size = f"{options.memory / GIB:.4g} GB" if options.memory >= GIB else f"{options.memory / 2**20:.4g} MB"
        return Mac(f"a Mac with {size}", options.memory)
    named = machine_named(options.chip)
    if options.memory is None:
        is_sold_with_one = named.memory_bytes is not None or len(named.chip.memory_gib) == 1
        return Mac(named.name, memory_of(named)) if is_sold_with_one else None
    if named.memory_bytes not in (None, options.memory):
        differs = f"--chip {named.name} has another memory than --memory {options.memory / GIB:g}GB"
        raise UsageError(differs, "Leave one of them out.")
    return Mac(f"{named.chip.name} with {options.memory / GIB:.4g} GB", options.memory)


def macs_asked(options: MacOptions) -> list[Mac]:
    """That Mac; where the chip had several memories, and none is named, one with each."""
    mac = mac_asked(options)
    if mac is not None or options.chip is None:
        return [mac] if mac is not None else []
    chip = machine_named(options.chip).chip
    return [Mac(one.name, memory_of(one)) for one in (Machine(chip, size * GIB) for size in chip.memory_gib)]
