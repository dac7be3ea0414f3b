"""How the ``chips`` commands look, on a terminal as wide as it is, and in a pipe."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mpsprobe_coverage.knowledge.chips.limits import limits_of
from mpsprobe_coverage.knowledge.chips.store import GIB, Chip, sizes
from mpsprobe_exporters.document import Column, Document, Paragraph, Row, Section, Table
from mpsprobe_exporters.terminal.drawing import show

if TYPE_CHECKING:
    from mpsprobe.schemas import WorkloadInfo
    from mpsprobe_coverage.knowledge.chips.limits import Figure, Range
    from mpsprobe_coverage.scanning.choosing import Choice

PIPE_WIDTH = 100
COLUMNS = ("GPU family", "GPU cores", "GB/s", "memory in GB", "bfloat16 in")
FACTS = ("title", "GPU", "bandwidth", "memory", "bfloat16", "macOS", "sources")
LIMITS = ("", "recommended", "published", "largest buffer", "published")
BASES = {
    "published": "",
    "neighbours": " (no figure for this size: shares of the sizes next to it)",
    "recommended": " (no figure for this size: the share of what is recommended on other Macs)",
}


def print_list(chips: Iterable[Chip]) -> None:
    rows = [
        (chip.name, f"Apple{chip.family}", *_cores(chip), ", ".join(map(str, chip.memory_gib)) or "-", chip.bf16)
        for chip in chips
    ]
    table = Table((Column("chip", "name"), *map(Column, COLUMNS)), rows)
    more = Paragraph("More about one: mpsprobe chips show NAME")
    show(Document("Chips", sections=[Section("", [table]), Section("", [more])]), PIPE_WIDTH)


def print_details(chip: Chip, memories: list[int]) -> None:
    """All that is known of one, and its limits with each of ``memories``, in bytes."""
    facts = Table((Column("chip", "name"), *map(Column, FACTS)), [_facts(chip)], entries=True)
    limits = Table((Column("memory"), *map(Column, LIMITS)), list(map(_limits, memories)), entries=True)
    show(Document("Chips", sections=[Section("", [facts]), Section("", [limits] if memories else [])]), PIPE_WIDTH)


def print_compared(info: WorkloadInfo, release: str, choices: Iterable[Choice], enough: Choice | None) -> None:
    """Every Mac, and the smallest that is enough, if one was asked for."""
    choices = [*choices]
    rate = "tokens/s" if choices and choices[0].time.tokens_per_s else "samples/s"
    columns = ("cores", "memory", "ms a step", rate, "bound by", "x fastest")
    table = Table((Column("chip", "name"), *map(Column, columns)), [*map(_compared, choices)])
    sizes_of = [f"batch {info.batch_size}" if info.batch_size else "", f"{info.seq_len} long" if info.seq_len else ""]
    ran = ", ".join(filter(None, [info.name, info.phase, info.dtype, *sizes_of, f"torch {release}"]))
    said = [Paragraph(f"{ran}. Predicted, not measured: how well that holds is in docs/explanation/time.md.")]
    if enough is not None and enough.memory_bytes is not None:
        with_memory = f"{enough.chip.label} with {enough.time.gpu_cores} GPU cores and {enough.memory_bytes / GIB:g} GB"
        said.append(Paragraph(f"The smallest that is likely enough: {with_memory}."))
    show(Document("Chips", sections=[Section("", [table]), Section("", said)]), PIPE_WIDTH)


def _compared(choice: Choice) -> Row:
    time = choice.time
    return (
        choice.chip.name,
        str(time.gpu_cores),
        "-" if choice.memory_bytes is None else f"{choice.memory_bytes / GIB:g} GB",
        _between(time.step_ms),
        _between(time.tokens_per_s or time.samples_per_s),
        time.bound_by,
        f"{choice.relative:.2f}",
    )


def _between(values: list[float] | None) -> str:
    """``18-30``: three digits of the low and the high end."""
    if values is None:
        return "-"
    digits = ",.3g" if values[2] < 1e3 else ",.0f"
    return f"{values[0]:{digits}}-{values[2]:{digits}}"


def gib(low: int, high: int | None = None) -> str:
    """``10.67 GiB``, or ``10.67-11.84 GiB``."""
    first, last = f"{low / GIB:.2f}", f"{(high or low) / GIB:.2f}"
    return f"{first} GiB" if first == last else f"{first}-{last} GiB"


def _cores(chip: Chip) -> tuple[str, str]:
    return " or ".join(map(str, chip.gpu_cores)), " or ".join(f"{bandwidth:g}" for bandwidth in chip.bandwidth_gb_per_s)


def _facts(chip: Chip) -> Row:
    cores, bandwidth = _cores(chip)
    return (
        chip.name,
        chip.label,
        f"family Apple{chip.family}, {cores} cores",
        f"{bandwidth} GB/s",
        sizes(chip.memory_gib) if chip.memory_gib else "no source with all sizes was found",
        "in software: Metal emulates it" if chip.bf16 == "software" else "in hardware",
        f"from {chip.macos}" if chip.macos else "no source for the first one was found",
        ", ".join(chip.sources),
    )


def _limits(memory: int) -> Row:
    limits = limits_of(memory)
    return f"with {memory / GIB:g} GB", "", *_range(limits.recommended), *_range(limits.largest_buffer)


def _range(limit: Range) -> tuple[str, str]:
    return f"{gib(limit.low, limit.high)}{BASES[limit.basis]}", "; ".join(map(_figure, limit.figures))


def _figure(figure: Figure) -> str:
    value = f"{figure.value:g} of it" if figure.value < 1 else gib(int(figure.value))
    about = [figure.chip, f"{figure.memory_bytes / GIB:g} GB", figure.macos and f"macOS {figure.macos}", figure.date]
    return f"{value} ({', '.join(filter(None, about))}: {figure.source})"
