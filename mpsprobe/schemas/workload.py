"""What was run."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mpsprobe.schemas.record import First, Record, Unite


class WorkloadInfo(Record):
    """One workload as it was run."""

    name: str = Field(description="As the user typed it.")
    architecture: Unite[str] = Field(description="The model's class.")
    phase: Literal["inference", "training", "generate", "program"] = Field(description="What was run.")
    dtype: Unite[str] = Field(description="Of the parameters.")
    parameters: First[int] = Field(ge=0, description="Each shared one counted once.")
    batch_size: First[int | None] = Field(default=None, description="Samples in a step; `None`: it has no such thing.")
    seq_len: First[int | None] = Field(default=None, description="Tokens or frames in a sample; `None`: it has none.")
    autocast: str | None = Field(default=None, description="The dtype of autocast; `None` without.")
    grad_accum: First[int] = Field(default=1, description="Backward passes for each update.")
    optimizer: str | None = Field(default=None, description="Its class, in training.")
    trained: First[int | None] = Field(default=None, description="The parameters that it updates, where not all.")
    lora_rank: First[int | None] = Field(default=None, description="Of the model's LoRA adapters; `None` without.")
    weights: bool = Field(default=False, description="Whether real weights were loaded.")
    notes: Unite[list[str]] = Field(default=[], description="What a reader should know, for example of the inputs.")
