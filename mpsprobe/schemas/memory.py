"""The memory that a workload needs, as it was predicted from the lifetimes of its storages."""

from __future__ import annotations

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
