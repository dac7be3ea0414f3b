"""What an allocator counts. Imports nothing heavy: devices of every framework have it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes: what tensors hold, and what the allocator has taken for them; ``None`` where that is not told."""

    allocated: int | None
    reserved: int | None
