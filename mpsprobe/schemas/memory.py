"""The memory that a workload needs, as it was predicted from the lifetimes of its storages."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mpsprobe.schemas.record import Record


class MemoryPoint(Record):
    """A stretch of the run, on the curve of the memory that is alive."""

    phase: str = Field(description="Of the step; empty for what was there before.")
    bytes: int = Field(ge=0, description="The most in this stretch.")


class MemoryHolder(Record):
    """What is alive at the peak: storages of one category that one operator allocated at one line."""

    category: str = Field(
        description="`parameters`, `buffers`, `inputs`, `optimizer state`, `gradients`, `activations` (kept for the "
        "backward pass), `cache` (of generation), `temporary`, `inside kernels`."
    )
    bytes: int = Field(ge=0, description="Together.")
    storages: int = Field(ge=1, description="How many they are.")
    operator: str | None = Field(default=None, description="What allocated them; of activations and temporary ones.")
    modules: list[str] = Field(default=[], description="Where in the model, the one that holds most first.")
    call_site: str | None = Field(default=None, description="In the source, as `file:line`.")


class NotCounted(Record):
    """Memory that is in none of the figures."""

    what: str = Field(description="In words.")
    bytes: int | None = Field(default=None, ge=0, description="Of the call that makes most of it, where that is known.")


class MemoryEnd(Record):
    """Whether it fits where Metal allows one of the published figures: the smallest, or the largest."""

    answer: Literal["fits", "pressure", "raises"] = Field(description="`pressure`: it holds more than recommended.")
    recommended_bytes: int = Field(ge=0, description="What Metal recommends to a process.")
    largest_buffer_bytes: int = Field(ge=0, description="A tensor of that size or more raises.")
    collects_bytes: int | None = Field(default=None, ge=0, description="From here on caches are released; `null`: not.")
    allowed_bytes: int | None = Field(default=None, ge=0, description="Beyond it PyTorch raises; `null` for no limit.")
    margin_bytes: int | None = Field(default=None, description="Allowed, less `allocated_bytes`; negative: missing.")
    reserved_bytes: int = Field(ge=0, description="What the allocator has asked Metal for, at most.")
    message: str | None = Field(default=None, description="What PyTorch says where it raises.")
    refused: str | None = Field(default=None, description="What the memory was for: `parameters`, `activations`, …")
    refused_bytes: int = Field(default=0, ge=0, description="How much it was.")
    phase: str | None = Field(default=None, description="In which it raises.")
    first_step: bool = Field(default=True, description="Whether it is in the first step that it raises.")
    operator: str | None = Field(default=None, description="The call at which it raises, where it is one.")
    module: str | None = Field(default=None, description="Of that call.")
    call_site: str | None = Field(default=None, description="Of that call, as `file:line`.")


class MemoryFit(Record):
    """Whether a workload fits on a Mac, by what people published of Macs with that memory."""

    machine: str = Field(description="As it was asked for: `m2-pro-16gb`, or a size of memory.")
    memory_bytes: int = Field(ge=1, description="That the Mac has.")
    answer: Literal["fits", "pressure", "raises", "unclear"] = Field(
        description="The worse one of both ends; `unclear`: it raises at one of them alone."
    )
    low: MemoryEnd = Field(description="By the smallest published figures.")
    high: MemoryEnd = Field(description="By the largest ones.")
    basis: Literal["published", "neighbours"] = Field(description="Of Macs with this memory, or the sizes around it.")
    sources: list[str] = Field(default=[], description="Where the figures were published.")


class AllocatingCall(Record):
    """A call that allocated storages of an ``AllocationList``."""

    operator: str = Field(description="Its name.")
    module: str | None = Field(default=None, description="That called it.")
    call_site: str | None = Field(default=None, description="In the source, as `file:line`.")


class Allocation(Record):
    """One storage. Beginnings and ends of all of them are numbered from 0, in their order."""

    bytes: int = Field(ge=1, description="That the storage has.")
    category: str = Field(description="As that of a holder.")
    begins: int = Field(ge=0, description="The number of its beginning.")
    ends: int | None = Field(default=None, ge=0, description="The number of its end; `null`: alive after the step.")
    phase: str | None = Field(default=None, description="In which it begins; `null`: before the step.")
    call: int | None = Field(default=None, ge=0, description="What allocated it, as an index of `calls`.")
    module: str | None = Field(default=None, description="That owns it, where it has an owner.")
    segment: int = Field(ge=0, description="The heap that it lies in, as an index of `segments`.")
    offset: int = Field(ge=0, description="Where in that heap, in bytes.")
    size: int = Field(ge=1, description="What the allocator handed out for it.")


class AllocationList(Record):
    """Every storage of the step, as the allocator of the release places it; in a report where it was asked for."""

    storages: list[Allocation] = Field(description="In the order of their beginnings.")
    calls: list[AllocatingCall] = Field(description="Each once.")
    segments: list[int] = Field(description="Bytes of each heap, in the order in which Metal was asked for them.")


class MemoryRange(Record):
    """Between which peaks it is, where sizes depend on values that a prediction does not know."""

    low_bytes: int | None = Field(default=None, ge=0, description="With nothing found; `null`: it does not run so.")
    high_bytes: int = Field(ge=0, description="With the most that can be found: `peak_bytes`.")
    because: list[str] = Field(default=[], description="The operators whose results have unknown sizes, and where.")


class MemoryFigures(Record):
    """Peaks of one step; of a training, of any step but the first: what the optimizer keeps is there from the start.

    There are three figures: `peak_bytes` are those of live storages, `allocated_bytes` those that PyTorch's
    allocator has handed out for them (`torch.mps.current_allocated_memory`), and `reserved_bytes` those that it has
    asked Metal for (what it adds to `torch.mps.driver_allocated_memory`), each at its own peak.
    """

    peak_bytes: int = Field(ge=0, description="Of all live storages on the device.")
    allocated_bytes: int = Field(default=0, ge=0, description="Handed out by the allocator of the release.")
    reserved_bytes: int = Field(default=0, ge=0, description="What the allocator of the release has asked Metal for.")

    def figures(self) -> MemoryFigures:
        """These figures alone."""
        return MemoryFigures(**{name: getattr(self, name) for name in MemoryFigures.model_fields})


class MemoryPrediction(MemoryFigures):
    """These figures, and what they are made of."""

    phase: str | None = Field(default=None, description="In which the peak is.")
    by_category: dict[str, int] = Field(description="What is alive at the peak, the most first.")
    by_phase: dict[str, int] = Field(description="The peak of each phase.")
    by_module: dict[str, int] = Field(default={}, description="The same by the modules that hold most.")
    holders: list[MemoryHolder] = Field(default=[], description="What is alive at the peak, the most first.")
    curve: list[MemoryPoint] = Field(default=[], description="What is alive over the run, in order.")
    largest_bytes: int = Field(default=0, ge=0, description="The largest single storage: one buffer of Metal.")
    kernels_bytes: int = Field(default=0, ge=0, description="The most that a kernel allocates besides its results.")
    kept_output_bytes: int = Field(
        default=0,
        ge=0,
        description="By how much the peak is higher in a loop that keeps the model's output over the backward pass, "
        "until the next one; 0 up to 5 % of the peak.",
    )
    not_counted: list[NotCounted] = Field(default=[], description="What takes memory and is not in these figures.")
    allocations: AllocationList | None = Field(default=None, description="Every storage, where it was asked for.")
    range: MemoryRange | None = Field(default=None, description="Where sizes are not known; all else is its high end.")
    fit: MemoryFit | None = Field(default=None, description="Whether that fits on the Mac that was asked about.")
    fits: list[MemoryFit] = Field(
        default=[], description="The same with each memory that the chip was sold with, where none was named."
    )
