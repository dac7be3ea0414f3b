"""What was run."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mpsprobe.schemas.record import First, Record, Unite


class WorkloadInfo(Record):
    """One workload as it was run.

    Attributes:
        name: as the user typed it.
        architecture: the model's class.
        phase: what was run.
        dtype: of the parameters.
        parameters: each shared one counted once.
        batch_size: samples in a step; ``None`` where there is no such thing.
        seq_len: tokens or frames in a sample; ``None`` where there is no such thing.
        autocast: the dtype of autocast; ``None`` without.
        grad_accum: backward passes for each update.
        optimizer: its class, in training.
        trained: the parameters that it updates, where those are not all.
        lora_rank: of the LoRA adapters that the model has; ``None`` without.
        weights: whether real weights were loaded.
        notes: what a reader should know, for example of the inputs.
    """

    name: str
    architecture: Unite[str]
    phase: Literal["inference", "training", "generate", "program"]
    dtype: Unite[str]
    parameters: First[int] = Field(ge=0)
    batch_size: First[int | None] = None
    seq_len: First[int | None] = None
    autocast: str | None = None
    grad_accum: First[int] = 1
    optimizer: str | None = None
    trained: First[int | None] = None
    lora_rank: First[int | None] = None
    weights: bool = False
    notes: Unite[list[str]] = []
