"""What a report says about a whole program, in addition to the operators that it called."""

from __future__ import annotations

from pydantic import Field

from mpsprobe.schemas.record import First, Record, Sum, Unite


class CudaHint(Record):
    """Something in a program that is written for CUDA, and that a Mac does not have."""

    what: str = Field(description="As the program writes it.")
    instead: str = Field(description="What to write.")
    calls: Sum[int] = Field(ge=1, description="How often the program came there.")
    call_sites: Unite[list[str]] = Field(default=[], description="Where in the source, as `file:line`.")


class OnTheCpu(Record):
    """A model that a program called and never moved to the device."""

    module: str = Field(description="Its class.")
    calls: Sum[int] = Field(ge=1, description="Of the model, all of them on the CPU.")
    parameters_bytes: First[int] = Field(ge=0, description="Memory of its parameters.")
    call_site: str | None = Field(default=None, description="Where it was called first, as `file:line`.")


class ComputedOnCpu(Record):
    """A line of a program that computed with tensors of the CPU, and not to prepare what the device works on."""

    call_site: str | None = Field(default=None, description="As `file:line`.")
    operators: Unite[list[str]] = Field(min_length=1, description="That it called, the largest first.")
    calls: Sum[int] = Field(ge=1, description="Of these, on more than a few numbers.")
    data_bytes: Sum[int] = Field(ge=0, description="That they read and wrote.")
    share: First[float] = Field(ge=0, description="Of what all operators read and wrote, on the device too.")


class ProgramInfo(Record):
    """A program as it was run."""

    arguments: First[list[str]] = Field(default=[], description="Its own, after the script.")
    exit_code: First[int] = Field(default=0, description="Its own; the negative number of the signal that ended it.")
    device: str = Field(description="What it ran on.")
    values: str = Field(description="`real`: each tensor had its values; `none`: shapes only.")
    seconds: First[float] = Field(ge=0, description="From its start to its end, without what opening the device took.")
    processes: First[int] = Field(default=0, ge=0, description="That it started, and that had the device.")
    processes_unreported: First[int] = Field(default=0, ge=0, description="Those of them that are not in the report.")
    threads: Sum[int] = Field(default=0, ge=0, description="Its own that called operators there; 0: not counted.")
    stayed_on_cpu: Unite[list[OnTheCpu]] = Field(default=[], description="Models that were never moved to the device.")
    computed_on_cpu: Unite[list[ComputedOnCpu]] = Field(default=[], description="Where it did, the largest first.")
    cuda: Unite[list[CudaHint]] = Field(default=[], description="What is written for CUDA, in the order of the run.")
    notes: Unite[list[str]] = Field(default=[], description="What else to know of the run.")
