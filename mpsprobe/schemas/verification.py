"""Whether a device computed a step of a workload rightly, and what half precision does to one."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mpsprobe.schemas.coverage import RunFailure
from mpsprobe.schemas.profile import DeviceInfo
from mpsprobe.schemas.record import Exportable, Record
from mpsprobe.schemas.run import Environment, WorkloadInfo


class KnownWrong(Record):
    """An advisory that the call of a wrong operator matches."""

    id: str = Field(description="As `mpsprobe advisories show` takes it.")
    title: str = Field(description="The same in a line.")
    fixed: str | None = Field(default=None, description="The first release of torch without it; `null`: none is known.")
    undecided: bool = Field(default=False, description="Whether it depends on values, which were not asked.")


class OperatorCall(Record):
    """A call of an operator, and where it was made."""

    operator: str = Field(description="As `namespace::name.overload`.")
    phase: str = Field(description="`forward`, `backward` or `optimizer`.")
    module: str | None = Field(default=None, description="Of the model, as a path.")
    call_site: str | None = Field(default=None, description="In the source, as `file:line`.")
    inputs: list[str] = Field(description="Dtype and sizes of its tensors.")
    layouts: list[str] = Field(default=[], description="Those that are not contiguous, with their strides.")
    example: str | None = Field(default=None, description="The call, `tensor(shape, strides, dtype)` for its tensors.")


class WrongOperator(OperatorCall):
    """Calls of one kind whose result is wrong on the device, though their inputs are those of the device's own run."""

    dtype: str = Field(description="Of the result.")
    result: int = Field(ge=0, description="Which of its results, then of the arguments that it writes.")
    rtol: float = Field(description="What is allowed, relative to an element.")
    atol: float = Field(description="What is allowed, relative to the root of the mean square of the result.")
    source: str = Field(description="Where these tolerances are PyTorch's own.")
    excess: float | None = Field(description="The largest error, as a multiple of that; `null`: not a finite number.")
    error: float | None = Field(description="The largest distance from float64; `null`: not a finite number.")
    cpu_error: float | None = Field(description="The same of the CPU in that dtype, from the same inputs.")
    elements: int = Field(ge=0, description="That are wrong, of the first such call.")
    of_elements: int = Field(ge=0, description="That it has.")
    at: list[int] = Field(default=[], description="The indices of the worst.")
    got: float | None = Field(default=None, description="What the device has there; `null`: not a finite number.")
    expected: float | None = Field(default=None, description="What float64 has there.")
    why: str = Field(default="", description="What is wrong, where that is no element.")
    calls: int = Field(ge=1, description="That were wrong.")
    seen: int = Field(ge=1, description="At which call of this operator it was seen first.")
    times: int = Field(ge=1, description="How often it was wrong when it was run with the same inputs.")
    of_times: int = Field(ge=1, description="How often that was.")
    advisories: list[KnownWrong] = Field(default=[], description="Known wrong results that it matches.")


class NonfiniteOrigin(OperatorCall):
    """Where NaN or infinity came out of finite numbers."""

    what: Literal["NaN", "infinity"] = Field(description="What came out.")
    cpu_too: bool = Field(description="Whether the CPU in the same dtype has it too.")


class ComparedTensor(Record):
    """A tensor of the step, on the device and on the CPU, each as far from float64 as its own run brought it.

    Where both are so near to each other that neither can be wrong, float64 is not asked.
    """

    what: Literal["output", "loss", "gradient", "parameter"] = Field(description="What it is.")
    name: str = Field(description="The module or parameter.")
    call: int = Field(default=0, ge=0, description="The number of the module's output, over all of its calls.")
    error: float | None = Field(
        description="Norm of the difference from float64, or from the CPU, relative; `null`: not finite."
    )
    cpu_error: float | None = Field(default=None, description="The same of the CPU; `null`: float64 was not asked.")
    nonfinite: int = Field(default=0, ge=0, description="Elements that are not finite, where those of float64 are.")
    wrong: bool = Field(default=False, description="Beyond tolerance, and farther than four times as far as the CPU.")


class VerificationReport(Exportable):
    """A step on a device and on the CPU, operator by operator and as a whole, with float64 as the judge of both."""

    kind: Literal["verification"] = "verification"
    workload: WorkloadInfo = Field(description="What was run.")
    device: DeviceInfo = Field(description="What was compared with the CPU.")
    environment: Environment = Field(description="Where.")
    calls: int = Field(ge=0, description="Of operators, that were compared.")
    operators: dict[str, int] = Field(default={}, description="These by name.")
    wrong: list[WrongOperator] = Field(default=[], description="In the order in which they were first called.")
    tensors: list[ComparedTensor] = Field(default=[], description="In the order of the run; empty: not compared.")
    nonfinite: list[NonfiniteOrigin] = Field(default=[], description="In the order in which they began.")
    parted: str | None = Field(default=None, description="Where control flow took another course than on the CPU.")
    skipped: dict[str, str] = Field(default={}, description="Operators that were not compared, and why.")
    failure: RunFailure | None = Field(
        default=None, description="What ended the run; the rest is what was found so far."
    )
    interrupted: bool = Field(default=False, description="Whether it was stopped: the rest is what was found so far.")
    elapsed_ns: int = Field(ge=0, description="What all of it took, after the model was built.")
    notes: list[str] = Field(default=[], description="What was changed so that runs can be compared.")


class ModuleRange(Record):
    """What a module puts out in half precision."""

    name: str = Field(description="The module, as a path.")
    type: str = Field(description="Its class.")
    largest: float | None = Field(description="The largest magnitude in float32; `null`: not finite there.")
    of_range: float | None = Field(description="The same, relative to the largest number of the dtype.")
    overflowed: int = Field(ge=0, description="Elements that are not finite, and are in float32.")
    underflowed: float = Field(ge=0, description="Elements that are zero and are not in float32, as a share of 1.")
    error: float | None = Field(description="Norm of the difference to float32, relative to that; `null`: not finite.")
    own_error: float | None = Field(description="The same of this module alone, with its float32 inputs rounded.")


class PrecisionReport(Exportable):
    """A model on the CPU in half precision next to float32: what overflows, and what has to stay in float32."""

    kind: Literal["precision"] = "precision"
    workload: WorkloadInfo = Field(description="What was run; its dtype is the one that was asked about.")
    environment: Environment = Field(description="Where.")
    largest_of_dtype: float = Field(description="The largest number of the dtype.")
    modules: list[ModuleRange] = Field(description="Those that overflow or lose most first.")
    begins: str | None = Field(default=None, description="The first module that puts out NaN or infinity.")
    error: float | None = Field(description="Of the model's output, relative to float32; `null`: not finite.")
    allowed: float = Field(description="What counts as holding.")
    holds: bool = Field(description="Whether the result holds with everything in the dtype.")
    keep: list[str] = Field(default=[], description="Modules with which in float32 the result holds, as was tried.")
    error_with_keep: float | None = Field(default=None, description="What the output's error then is.")
    snippet: str | None = Field(default=None, description="What puts them into float32.")
    loss_scale: float | None = Field(
        default=None, description="At which a `GradScaler` settles; `null`: none was asked."
    )
    notes: list[str] = Field(default=[], description="What to know of it.")
