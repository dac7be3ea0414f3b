"""What Metal recommends to a process, and the largest buffer: published figures (``docs/explanation/chips.md``)."""

from __future__ import annotations

import functools
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from mpsprobe.errors import UsageError
from mpsprobe.protocols import MacOptions
from mpsprobe_coverage.knowledge.chips.store import GIB, Machine, load, machine_named, sizes

MIB = 2**20
Basis = Literal["published", "neighbours", "recommended"]


@dataclass(frozen=True, slots=True)
class Figure:
    """What somebody published of a Mac with ``memory_bytes``."""

    memory_bytes: int
    value: float  # in bytes; of a share, the share
    source: str
    as_printed: str | None = None  # as the thread has it, where `value` was converted
    chip: str | None = None
    macos: str | None = None
    date: str | None = None


@dataclass(frozen=True, slots=True)
class Range:
    """From ``low`` to ``high``, in bytes; the same where all figures agree.

    Attributes:
        basis: ``published``: of this size of memory. ``neighbours``: there is none; the shares of memory that were
            seen at the next smaller and larger size. ``recommended``: the share of what is recommended, from threads
            that have both of one Mac.
        figures: those that it is from.
    """

    low: int
    high: int
    basis: Basis
    figures: tuple[Figure, ...]


@dataclass(frozen=True, slots=True)
class Limits:
    """What a process may take on a Mac with ``memory_bytes``."""

    memory_bytes: int
    recommended: Range  # `MTLDevice.recommendedMaxWorkingSetSize`: `torch.mps.recommended_max_memory()`
    largest_buffer: Range  # `MTLDevice.maxBufferLength`; a tensor of that size or more raises "Invalid buffer size"


def limits_of(machine: str | int | Machine) -> Limits:
    """The limits of a Mac: a name such as ``m2-pro-16gb``, or bytes of memory.

    Both depend on macOS and on ``sysctl iogpu.wired_limit_mb``, so they are ranges: of the published figures.
    """
    return _limits(memory_of(machine))


def memory_of(machine: str | int | Machine) -> int:
    """The memory of ``machine`` in bytes; see ``limits_of``."""
    if isinstance(machine, int):
        return machine
    named = machine_named(machine) if isinstance(machine, str) else machine
    if named.memory_bytes is not None:
        return named.memory_bytes
    chip = named.chip
    if len(chip.memory_gib) == 1:
        return chip.memory_gib[0] * GIB
    sold = f"It was sold with {sizes(chip.memory_gib)}. " if chip.memory_gib else ""
    example = f"{chip.name}-{chip.memory_gib[0] if chip.memory_gib else 96}gb"
    raise UsageError(f"how much memory does the {chip.label} have?", f"{sold}Write for example {example}.")


@functools.cache
def figures(which: Literal["recommended", "largest_buffer", "share"]) -> tuple[Figure, ...]:
    """Every published figure, by size of memory; ``share``: the largest buffer's, of what is recommended."""
    return tuple(
        Figure(
            memory_bytes=int(entry["memory"] * GIB),
            value=entry["mib"] * MIB if "mib" in entry else entry["share"],
            **{name: entry[name] for name in ("source", "as_printed", "chip", "macos", "date") if name in entry},
        )
        for entry in load("limits.toml")[which]
    )


@functools.cache
def _limits(memory: int) -> Limits:
    recommended = _published(figures("recommended"), memory) or _between(figures("recommended"), memory)
    buffer = _published(figures("largest_buffer"), memory)
    if buffer is None:
        shares = figures("share")
        parts = [figure.value for figure in shares]
        buffer = Range(int(recommended.low * min(parts)), int(recommended.high * max(parts)), "recommended", shares)
    return Limits(memory, recommended, buffer)


def _published(known: Sequence[Figure], memory: int) -> Range | None:
    fitting = tuple(figure for figure in known if figure.memory_bytes == memory)
    values = [int(figure.value) for figure in fitting]
    return Range(min(values), max(values), "published", fitting) if fitting else None


def _between(known: Sequence[Figure], memory: int) -> Range:
    """Shares of the memory, as at the sizes on both sides; at the one side that there is, beyond the last size."""
    sizes = sorted({figure.memory_bytes for figure in known})
    place = bisect_left(sizes, memory)
    adjacent = sizes[max(place - 1, 0) : place + 1]
    used = tuple(figure for figure in known if figure.memory_bytes in adjacent)
    values = [int(memory * figure.value / figure.memory_bytes) for figure in used]
    return Range(min(values), max(values), "neighbours", used)


# -- the Mac that a run is judged for


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
    return [
        Mac(machine.name, memory_of(machine)) for machine in (Machine(chip, size * GIB) for size in chip.memory_gib)
    ]
