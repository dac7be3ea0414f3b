"""The data file of chips, and names such as ``m2-pro-16gb`` and ``m1-max-32core-64gb``."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from mpsprobe.errors import UnknownName, UsageError
from mpsprobe.suggestions import printable

GIB = 2**30
SIZE = re.compile(r"(?P<number>\d{1,9}(\.\d{1,9})?)\s*(?P<unit>gb|gib|g|tb|tib|mb|mib)", re.IGNORECASE | re.ASCII)
CHIP = re.compile(r"\b(m\d{1,2})(?: ?(pro|max|ultra))?\b", re.ASCII)
CORES = re.compile(r"\b(\d{1,3}) ?cores?\b(?: gpu)?", re.ASCII)
OF_CPU = re.compile(r"\b\d{1,3} ?cores? cpu\b", re.ASCII)
DISK = re.compile(rf"{SIZE.pattern} ?(ssd|storage|disk)\b", re.IGNORECASE | re.ASCII)
MEMORY = re.compile(rf"\b{SIZE.pattern}(?!\w)", re.IGNORECASE | re.ASCII)
SCREEN_OR_YEAR = re.compile(
    r"\b(1[3-6]|24) ?(\"|”|''|inch\b|in\b)|\b1[345]\b|(?<=macbook pro )16\b|(?<=imac )24\b|\b20[2-9]\d\b", re.ASCII
)
AS_WRITTEN = "For example m2-pro, or M2 Air 16GB."
OF_PRODUCTS = frozenset({
    "air", "apple", "book", "chip", "imac", "mac", "macbook", "memory", "mini", "pro", "ram", "silicon", "studio",
    "unified", "with",
})  # fmt: skip
UNITS = {"g": GIB, "t": 2**40, "m": 2**20}
LARGEST = 2**50  # bytes; far above any Mac, and sums with it stay below 64 bits
EXAMPLES = "For example 16GB or 64GiB; a GB of a Mac's memory is 2**30 bytes."


@dataclass(frozen=True, slots=True)
class Chip:
    name: str  # m2-pro
    family: int  # the Apple GPU family: 8 for Metal's Apple8
    gpu_cores: tuple[int, ...]  # the counts that were sold
    bandwidth_gb_per_s: tuple[float, ...]  # of the memory; as many as `gpu_cores` where it depends on them
    memory_gib: tuple[int, ...]  # sizes that were sold; empty where no source with all of them was found
    bf16: str  # `software` where Metal emulates bfloat16, else `hardware`
    macos: str | None  # the first version that runs on it, None where no source was found
    sources: tuple[str, ...]  # addresses, and threads as owner/repository#number

    @property
    def generation(self) -> str:
        """``m2`` of an M2 Pro."""
        return self.name.partition("-")[0]

    @property
    def label(self) -> str:
        """As Metal and Apple write it: ``Apple M2 Pro``."""
        return "Apple " + " ".join(map(str.capitalize, self.name.split("-")))

    @property
    def smallest_memory(self) -> int:
        """In bytes; of a chip whose sizes are not known, that of the smallest Mac of all."""
        return min(self.memory_gib or all_chips()["m1"].memory_gib) * GIB


@dataclass(frozen=True, slots=True)
class Machine:
    """A chip with its memory and the cores of its GPU, each ``None`` where the name left it open."""

    chip: Chip
    memory_bytes: int | None = None
    gpu_cores: int | None = None

    @property
    def name(self) -> str:
        """``m2-pro-16gb``, ``m1-max-32core-64gb``."""
        cores = f"-{self.gpu_cores}core" if self.gpu_cores else ""
        return self.chip.name + cores + (f"-{self.memory_bytes // GIB}gb" if self.memory_bytes else "")


def load(name: str) -> dict[str, Any]:
    return tomllib.loads((files("mpsprobe_coverage.knowledge.chips") / "data" / name).read_text(encoding="utf-8"))


@functools.cache
def all_chips() -> dict[str, Chip]:
    document = load("chips.toml")
    return {
        name: Chip(
            name=name,
            family=fields["family"],
            gpu_cores=tuple(fields["gpu_cores"]),
            bandwidth_gb_per_s=tuple(fields["bandwidth"]),
            memory_gib=tuple(fields.get("memory", ())),
            bf16=fields["bf16"],
            macos=fields.get("macos"),
            sources=tuple(document["sources"][key] for key in fields["sources"]),
        )
        for name, fields in document["chips"].items()
    }


def machine_names() -> list[str]:
    """Every chip with and without its sizes."""
    chips = all_chips().values()
    return [name for chip in chips for name in (chip.name, *(f"{chip.name}-{size}gb" for size in chip.memory_gib))]


def machine_named(text: str) -> Machine:
    """The Mac called ``text``: by its chip, with or without cores of the GPU and memory, as people write it.

    ``m1``, ``M2 Pro``, ``m1-max-32core-64gb``, ``M2 Air 16GB``, ``MacBook Pro (14-inch) M3 Max, 36 GB``. A "Pro" that
    is no part of the chip's name stands before the M; a size of an SSD is none of memory.
    """
    chips, words = all_chips(), re.sub(r"[\s_,()-]+", " ", text.lower())
    match = CHIP.search(words)
    chip = chips.get("-".join(filter(None, match.groups()))) if match else None
    rest = SCREEN_OR_YEAR.sub(" ", DISK.sub(" ", OF_CPU.sub(" ", CHIP.sub(" ", words, count=1))))
    counts = [int(digits) for digits in CORES.findall(rest)]
    rest = CORES.sub(" ", rest)
    memories = [size[0] for size in MEMORY.finditer(rest)]
    others = set(MEMORY.sub(" ", rest).split()) - OF_PRODUCTS
    if chip is None or len(memories) > 1 or len(counts) > 1 or others:
        raise UnknownName("chip", text, machine_names(), f"{AS_WRITTEN} mpsprobe chips list shows them all.")
    cores = counts[0] if counts else None
    if cores is not None and cores not in chip.gpu_cores:
        sold = " or ".join(map(str, chip.gpu_cores))
        raise UsageError(
            f"there is no {chip.label} with {cores} GPU cores",
            f"{sold} are known. Write for example {chip.name}-{chip.gpu_cores[-1]}core.",
        )
    last = memories[0].replace(" ", "") if memories else None
    memory = memory_size(last) if last else None
    if last and chip.memory_gib and memory not in {size * GIB for size in chip.memory_gib}:
        raise UsageError(
            f"there is no {chip.label} with {printable(last)}",
            f"It was sold with {sizes(chip.memory_gib)}. Any other memory: --memory, for example --memory {last}.",
        )
    return Machine(chip, memory, cores)


def memory_size(text: str) -> int:
    """``16GB``, ``16 GiB``, ``0.5TB`` in bytes. A GB of memory is 2**30 bytes, as in what Apple sells."""
    parts = SIZE.fullmatch(text.strip())
    size = int(float(parts["number"]) * UNITS[parts["unit"][0].lower()]) if parts else 0
    if not 0 < size <= LARGEST:
        raise UsageError(f"'{printable(text)[:40]}' is no size of memory", EXAMPLES)
    return size


def sizes(memory: Iterable[int]) -> str:
    """``16 or 32 GB``."""
    *others, last = map(str, memory)
    return f"{', '.join(others)} or {last} GB" if others else f"{last} GB"
