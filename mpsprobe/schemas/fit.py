"""The largest batch, length or image of a workload that fits on a Mac."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mpsprobe.schemas.coverage import FROM_A_RUN, DataDependence, Recalled
from mpsprobe.schemas.memory import MemoryFit
from mpsprobe.schemas.record import Exportable, Record
from mpsprobe.schemas.run import Environment, Target, WorkloadInfo

Varied = Literal["batch-size", "seq-len", "size"]
"""What ``fit`` makes larger; ``size``: images."""


class SizeRange(Record):
    """By the smallest and by the largest published figures of such Macs; 0: not even 1."""

    low: int = Field(ge=0, description="By the smallest ones: it fits for certain.")
    high: int = Field(ge=0, description="By the largest ones: beyond it, it does not.")


class FitRow(Record):
    """A way to run the workload, what it needs, and how large it may be."""

    what: str = Field(description="`as it is`, or what is done differently.")
    size: int | None = Field(default=None, ge=1, description="With which `peak_bytes` was found.")
    peak_bytes: int | None = Field(default=None, ge=0, description="Of live storages; `null` where it was not run.")
    allocated_bytes: int | None = Field(default=None, ge=0, description="Handed out by the allocator, at the peak.")
    largest: SizeRange | None = Field(default=None, description="The largest with which PyTorch does not raise.")
    without_pressure: SizeRange | None = Field(default=None, description="Staying below what Metal recommends.")
    bound: str | None = Field(default=None, description="Why it is not larger, where memory is not the reason.")
    runs: int = Field(default=0, ge=0, description="How often it was run for that.")
    note: str | None = Field(default=None, description="Why there are no figures, or what to know of them.")


class FitReport(Exportable):
    """How large a workload may be on a Mac, as it is and with what saves memory; each was run on the virtual device."""

    kind: Literal["fit"] = "fit"
    workload: WorkloadInfo = Field(description="As it is, with the sizes at which it was run first.")
    target: Target = Field(description="What it was judged for.")
    environment: Environment = Field(description="Where it was run.")
    vary: Varied = Field(description="What was varied.")
    new_tokens: int | None = Field(default=None, description="Generated after the context, of a generation.")
    fit: MemoryFit = Field(description="Whether it fits as it is, and the limits of the Mac.")
    rows: list[FitRow] = Field(description="As it is first.")
    high_end: list[str] = Field(default=[], description="Operators that find an unknown number of things: the most.")
    data_dependence: list[DataDependence] = Field(
        default=[],
        description="Values that were not known: where the program takes another course, it needs more or less.",
    )
    recalled: Recalled | None = Field(default=None, description=FROM_A_RUN)
