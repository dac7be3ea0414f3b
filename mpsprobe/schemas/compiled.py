"""What ``torch.compile`` makes of a step on MPS; ``CompiledStep`` of ``coverage.py`` has it all."""

from __future__ import annotations

from pydantic import Field

from mpsprobe.schemas.record import Record


class GraphBreak(Record):
    """A place where TorchDynamo ends one graph and begins another."""

    reason: str = Field(description="What TorchDynamo says.")
    times: int = Field(ge=1, description="How often it came there.")
    call_site: str | None = Field(default=None, description="In the source, as `file:line`.")


class Recompilation(Record):
    """A function that TorchDynamo compiles again, because what it had compiled holds for other arguments."""

    reason: str = Field(description="What no longer holds, as TorchDynamo says it.")
    times: int = Field(ge=1, description="How often that was so.")
    call_site: str | None = Field(default=None, description="Where the function begins, as `file:line`.")


class RefusedGraph(Record):
    """A graph for which Inductor raises: on a Mac the call ends with that error."""

    reason: str = Field(description="What it raises, or what its generator lacks.")
    operator: str | None = Field(default=None, description="That it was about.")
    call_site: str | None = Field(default=None, description="In the source, as `file:line`.")


class MetalKernel(Record):
    """A kernel that Inductor generates."""

    name: str = Field(description="Of its graph and its own: `graph_0/generated_kernel_2`.")
    launches: int = Field(ge=0, description="In the step.")
    phases: dict[str, int] = Field(default={}, description="Launches by phase.")
    moved_bytes: int = Field(ge=0, description="What the tensors that it gets hold, over the step.")
    operators: list[str] = Field(default=[], description="That it computes, of the graph before it was lowered.")
    call_sites: list[str] = Field(default=[], description="Their places in the source, as `file:line`.")
    compared: int = Field(default=0, ge=0, description="Launches whose results were computed again by its operators.")
    faults: list[str] = Field(default=[], description="What was wrong in a launch.")
    source: str = Field(default="", description="In the Metal shading language, with the includes of its graph.")


class StepCost(Record):
    """What the GPU is given in a step. Views and empty tensors are not counted."""

    launches: int = Field(ge=0, description="Metal kernels of Inductor, and calls of operators.")
    moved_bytes: int = Field(ge=0, description="What the tensors that these read and write hold, over the step.")
