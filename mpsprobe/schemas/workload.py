"""What was run."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mpsprobe.schemas.record import Record


class WorkloadInfo(Record):
    """One workload as it was run; ``parameters`` counts each shared parameter once."""

    name: str
    architecture: str
    phase: Literal["inference", "training"]
    dtype: str
    parameters: int = Field(ge=0)
    batch_size: int | None = None
    seq_len: int | None = None
    autocast: str | None = None
    grad_accum: int = 1
    optimizer: str | None = None
    weights: bool = False
    notes: list[str] = []
