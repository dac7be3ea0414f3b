"""How long a step was predicted to take on a chip."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mpsprobe.schemas.record import Record


class ClassTime(Record):
    """What one class of kernels takes of a step."""

    kind: str = Field(description="`matmul`, `convolution`, `elementwise`, …; `cpu`: what is left to the CPU.")
    ms: float = Field(ge=0, description="Likely milliseconds.")
    share: float = Field(ge=0, description="Of all classes together.")


class OperatorTimeShare(Record):
    """What one operator takes of a step."""

    operator: str = Field(description="Its name.")
    kind: str = Field(description="The class of kernels that takes most of it.")
    calls: int = Field(ge=1, description="In the step.")
    ms: float = Field(ge=0, description="Likely milliseconds.")
    alone_ms: float = Field(ge=0, description="The same where the program waits for each call, as a profile does.")


class Faster(Record):
    """A change that would make it faster, each looked at alone."""

    kind: Literal["attention", "batch", "compile", "dtype", "layout", "release"] = Field(description="Of the change.")
    change: str = Field(description="In words: `float16`, `batch 16`, `torch 2.8.0`.")
    gain: float = Field(ge=1, description="How many times as many samples a second, or steps where no batch is known.")
    step_ms: list[float] = Field(description="Milliseconds of a step with it: low, likely, high.")


class TimePrediction(Record):
    """How long a step takes: predicted by a model that was fitted to published figures, and never measured."""

    chip: str = Field(description="As `mpsprobe chips list` has it.")
    gpu_cores: int | None = Field(default=None, description="Of its GPU; `null`: the range covers all that were sold.")
    step_ms: list[float] = Field(description="Milliseconds of a step: low, likely, high.")
    bound_by: Literal["arithmetic", "bandwidth", "launches", "cpu"] = Field(
        description="What most of it waits for: the GPU's arithmetic, its memory, the CPU that launches kernels, or "
        "operators that are left to the CPU."
    )
    samples_per_s: list[float] | None = Field(default=None, description="Low, likely, high; `null`: no batch is known.")
    tokens_per_s: list[float] | None = Field(
        default=None, description="Likewise; of a generation those that are made, the prompt's time included."
    )
    launch_ms: float = Field(default=0.0, ge=0, description="What the CPU takes to launch all kernels.")
    by_class: list[ClassTime] = Field(default=[], description="Of the GPU, by class of kernel, the most first.")
    by_operator: list[OperatorTimeShare] = Field(default=[], description="Every operator, the most first.")
    by_module: dict[str, float] = Field(default={}, description="Milliseconds of the modules that take most.")
    faster: list[Faster] = Field(default=[], description="What would make it faster by 5 % or more, the most first.")
    why_wide: str | None = Field(default=None, description="Why the range is wider than usual, where it is.")
