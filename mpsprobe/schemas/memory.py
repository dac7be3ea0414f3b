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

    answer: Literal["fits", "pressure", "raises"] = Field(
        description="`pressure`: the allocator holds more than Metal recommends. `raises`: PyTorch raises."
    )
    recommended_bytes: int = Field(ge=0, description="What Metal recommends to a process.")
    largest_buffer_bytes: int = Field(ge=0, description="A tensor of that size or more raises.")
    collects_bytes: int | None = Field(
        default=None, ge=0, description="From here on the allocator releases what it caches; `null` for never."
    )
    allowed_bytes: int | None = Field(default=None, ge=0, description="Beyond it PyTorch raises; `null` for no limit.")
    margin_bytes: int | None = Field(
        default=None, description="What is allowed, less what the allocator hands out at the peak; negative: missing."
    )
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
    basis: Literal["published", "neighbours"] = Field(
        description="`published`: of Macs with this memory; `neighbours`: with the next smaller and larger one."
    )
    sources: list[str] = Field(default=[], description="Where the figures were published.")


class MemoryPrediction(Record):
    """Peaks of one step; of a training, of any step but the first: what the optimizer keeps is there from the start.

    There are three figures: `peak_bytes` are those of live storages, `allocated_bytes` those that PyTorch's
    allocator has handed out for them (`torch.mps.current_allocated_memory`), and `reserved_bytes` those that it has
    asked Metal for (what it adds to `torch.mps.driver_allocated_memory`), each at its own peak.
    """

    peak_bytes: int = Field(ge=0, description="Of all live storages on the device.")
    phase: str | None = Field(default=None, description="In which the peak is.")
    by_category: dict[str, int] = Field(description="What is alive at the peak, the most first.")
    by_phase: dict[str, int] = Field(description="The peak of each phase.")
    by_module: dict[str, int] = Field(
        default={}, description="What is alive at the peak, by the modules that hold most."
    )
    holders: list[MemoryHolder] = Field(default=[], description="What is alive at the peak, the most first.")
    curve: list[MemoryPoint] = Field(default=[], description="What is alive over the run, in order.")
    largest_bytes: int = Field(default=0, ge=0, description="The largest single storage: one buffer of Metal.")
    allocated_bytes: int = Field(default=0, ge=0, description="Handed out by the allocator of the release.")
    reserved_bytes: int = Field(default=0, ge=0, description="What the allocator of the release has asked Metal for.")
    kernels_bytes: int = Field(default=0, ge=0, description="The most that a kernel allocates besides its results.")
    not_counted: list[NotCounted] = Field(default=[], description="What takes memory and is not in these figures.")
    fit: MemoryFit | None = Field(default=None, description="Whether that fits on the Mac that was asked about.")
