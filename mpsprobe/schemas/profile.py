"""What a workload costs on a device: times, memory, energy, operators. Durations are in ns, sizes in bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from mpsprobe.schemas.coverage import RunFailure
from mpsprobe.schemas.record import Exportable, Local, Record
from mpsprobe.schemas.run import Environment, TableProvenance, WorkloadInfo
from mpsprobe.schemas.trace import Trace


class DeviceInfo(Record):
    """What ran the workload."""

    type: str = Field(description="Torch's name of it: `mps`, `cuda`, `cpu`.")
    name: str = Field(description="The maker's name of it.")
    memory_bytes: int | None = Field(default=None, ge=0, description="On MPS what Metal recommends to use at most.")
    capabilities: dict[str, str] = Field(default={}, description="What else is known of it, by name.")
    caveats: list[str] = Field(default=[], description="What to consider before its figures are quoted.")


class ProfilePlan(Record):
    """What was asked for."""

    workloads: list[Local] = Field(default=[], description="Names.")
    phases: list[str] = Field(default=[], description="`inference`, `training` or both.")
    preset: str | None = Field(default=None, description="The comparison that was asked for, if one was.")
    devices: list[str] = Field(description="Torch's names.")
    batch_sizes: list[int | None] = Field(description="`None` stands for the workload's own.")
    seq_lens: list[int | None] = Field(description="Likewise.")
    steps: int = Field(ge=1, description="Timed ones, in each process.")
    warmup: int | None = Field(default=None, ge=0, description="Steps before them; `None`: until they are stable.")
    processes: int = Field(default=1, ge=1, description="Fresh ones, one after the other.")
    clock: Literal["host", "device"] = Field(default="host", description="What timed the steps.")
    compile: bool = Field(default=False, description="Whether the model ran through `torch.compile`.")
    runner: str = Field(default="plain", description="Whose training loop; `plain` for mpsprobe's own.")
    baseline: str | None = Field(default=None, description="The device that the others are compared with.")
    probes: list[str] = Field(default=[], description="Names of what measured in addition to time.")


class StepSample(Record):
    """One timed step, synchronised before and after."""

    duration_ns: int = Field(ge=0, description="From synchronised to synchronised.")
    process: int = Field(default=0, ge=0, description="Which one, counted from 0.")
    outlier: bool = Field(default=False, description="Far from the others; marked and kept.")


class DurationStatistics(Record):
    """Samples of a duration in short."""

    count: int = Field(ge=1, description="Of samples.")
    median_ns: float = Field(description="Of the samples.")
    low_ns: float = Field(description="Lower end of the interval of the median (percentile bootstrap).")
    high_ns: float = Field(description="Its upper end.")
    confidence: float = Field(default=0.95, description="Of that interval.")
    spread: float = Field(description="The scaled median absolute deviation as a share of the median.")
    minimum_ns: float = Field(description="The shortest sample.")
    maximum_ns: float = Field(description="The longest one.")
    mean_ns: float = Field(description="Of all samples, outliers too.")
    outliers: int = Field(default=0, ge=0, description="How many samples are marked.")


class Warmup(Record):
    """The steps before the timed ones; the first call of all, with its compilations, is not among them."""

    durations_ns: list[int] = Field(default=[], description="Of each step.")
    stable: bool = Field(description="Whether the steps had settled.")
    rule: str = Field(description="How that was decided, in words.")


class Throughput(Record):
    """How much goes through in a second, by the median step; the interval is that of the median."""

    unit: Literal["samples", "tokens"] = Field(description="Of what.")
    per_second: float = Field(description="By the median step.")
    low: float = Field(description="Lower end of the interval.")
    high: float = Field(description="Its upper end.")


class MemoryCurve(Record):
    """Memory over time; the columns have one value for each time, counted from the first timed step."""

    times_ns: list[int] = Field(default=[], description="Counted from the first timed step.")
    allocated_bytes: list[int] = Field(default=[], description="What tensors hold, at each time.")
    reserved_bytes: list[int] = Field(default=[], description="What the allocator has from the system, at each time.")
    process_bytes: list[int] = Field(default=[], description="The footprint of the process, at each time.")


class MemoryUse(Record):
    """Memory over the timed steps.

    Allocated is what tensors hold, reserved what the allocator has taken from the system for them, process the whole
    footprint of the process, which is sampled always.
    """

    source: Literal["allocator", "sampled"] = Field(
        description="Whose the peaks are; the largest of samples can miss a short one."
    )
    allocated_bytes: int | None = Field(default=None, description="What tensors held at the last sample.")
    reserved_bytes: int | None = Field(default=None, description="What the allocator had from the system then.")
    peak_allocated_bytes: int | None = Field(default=None, description="The largest since the first timed step.")
    peak_reserved_bytes: int | None = Field(default=None, description="The largest since the first timed step.")
    peak_process_bytes: int | None = Field(default=None, description="The largest sample of the process's footprint.")
    curve: MemoryCurve = Field(default=MemoryCurve(), description="The samples.")
    caveats: list[str] = Field(default=[], description="What stopped answering midway, and what else to think of.")


class ProbeReading(Record):
    """What a probe measured over the timed steps: values by name, with their unit in the name."""

    probe: str = Field(description="Its name.")
    values: dict[str, float | str] = Field(description="By name, with the unit at the end of the name.")
    caveats: list[str] = Field(default=[], description="What to consider before they are quoted.")
    process: int = Field(default=0, ge=0, description="Which one, counted from 0.")


class UnavailableProbe(Record):
    """A probe that could not run, and why: never a zero."""

    probe: str = Field(description="Its name.")
    reason: str = Field(description="Why, in a sentence.")


class OperatorTime(Record):
    """One operator over the ``profiled_steps`` of its cell, all calls together."""

    operator: str = Field(description="`namespace::name.overload`, or a kernel that none of torch's operators started.")
    calls: int = Field(ge=1, description="Over all profiled steps.")
    host_ns: int = Field(ge=0, description="Of the host, with what the operator calls.")
    self_host_ns: int = Field(ge=0, description="Without what it calls.")
    device_ns: int | None = Field(default=None, ge=0, description="Of its kernels; `None`: no clock of the device.")
    self_device_ns: int | None = Field(default=None, ge=0, description="Without those of what it calls.")
    shapes: list[str] = Field(default=[], description="Of its tensors.")
    modules: list[str] = Field(default=[], description="Where in the model it is called, as paths of modules.")
    source: str = Field(description="`torch.profiler`, `slow mode` (synchronised after each operator) or `trace`.")


class ModuleTime(Record):
    """One module of the model over the ``profiled_steps`` of its cell."""

    module: str = Field(description="Its path (`encoder.layer.0.attention`); empty for the model itself.")
    type: str = Field(description="Its class.")
    calls: int = Field(ge=1, description="Over all profiled steps.")
    host_ns: int = Field(ge=0, description="Of the host, with the modules in it.")
    self_host_ns: int = Field(ge=0, description="Without the modules in it.")
    device_ns: int | None = Field(default=None, ge=0, description="Of the kernels; `None`: no clock of the device.")
    self_device_ns: int | None = Field(default=None, ge=0, description="Without those of the modules in it.")
    phase: str = Field(default="forward", description="`forward` or `backward`.")


class FallbackCost(Record):
    """An operator of the model that leaves MPS, or the report's other ``backend``."""

    operator: str = Field(description="`namespace::name.overload`.")
    calls: int = Field(ge=1, description="In one step.")
    method: Literal["predicted", "observed"] = Field(description="Seen on MPS, or from the kernel table.")
    verdict: str = Field(description="Why it leaves MPS.")
    duration_ns: int | None = Field(default=None, description="In one step, where it was observed.")
    bytes: int | None = Field(default=None, description="What is copied to the CPU and back in one step.")
    native_since: str | None = Field(default=None, description="From this release on, without a gap, it is native.")


class ClassAgainst(Record):
    """One class of kernels: what it took, and what it was likely to take on the chip. Of one step."""

    kind: str = Field(description="As `by_class` of a predicted time has it.")
    operators: list[str] = Field(default=[], description="Of it; one of several classes counts where most of it is.")
    measured_ms: float = Field(ge=0, description="Of the device.")
    predicted_ms: float = Field(ge=0, description="Likely, with the wait for each call where that was measured too.")


class OperatorAgainst(Record):
    """An operator that took much longer than its chip was likely to take. Of one step."""

    operator: str = Field(description="`namespace::name.overload`.")
    measured_ms: float = Field(ge=0, description="Of the device.")
    predicted_ms: float = Field(ge=0, description="Likely.")
    share: float = Field(ge=0, description="Of what all operators took.")
    remedy: str | None = Field(default=None, description="What an advisory or a finding about it says to do.")


class ChipTimes(Record):
    """What was predicted of the chip that ran it, next to what it took."""

    chip: str = Field(description="As `mpsprobe chips list` has it.")
    gpu_cores: int | None = Field(default=None, description="Of its GPU; `null`: they are not known.")
    step_ms: list[float] = Field(description="Predicted milliseconds of a step: low, likely, high.")
    by_class: list[ClassAgainst] = Field(default=[], description="What took most first.")
    slow: list[OperatorAgainst] = Field(default=[], description="Operators that took more than twice as long.")


class ConfigurationKey(Record):
    """What distinguishes the configurations of a profile."""

    workload: Local = Field(description="Its name.")
    phase: str = Field(description="`inference` or `training`.")
    device: str = Field(description="Torch's name of it.")
    batch_size: int | None = Field(default=None, description="Samples in a step; `None`: the workload's own.")
    seq_len: int | None = Field(default=None, description="Tokens or frames in a sample; `None`: the workload's own.")
    dtype: str | None = Field(default=None, description="Of the parameters; `None` where it is not known.")
    autocast: str | None = Field(default=None, description="The dtype of autocast; `None` without.")


class ProfileCell(ConfigurationKey):
    """One configuration on one device: everything that was measured.

    ``phases`` come from steps of their own, synchronised between the phases, so that the timed steps are not disturbed;
    so do ``operators``, ``modules`` and ``trace``.
    """

    phase: Literal["inference", "training"] = Field(description="What ran.")
    first_call_ns: list[int] = Field(default=[], description="With its compilations; one entry for each process.")
    warmup: Warmup | None = Field(default=None, description="The steps before the timed ones.")
    steps: list[StepSample] = Field(default=[], description="The timed ones.")
    step: DurationStatistics | None = Field(default=None, description="Those in short.")
    phases: dict[str, DurationStatistics] = Field(default={}, description="Those of a step, from steps of their own.")
    phase_samples_ns: dict[str, list[int]] = Field(default={}, description="What `phases` was computed from.")
    throughput: list[Throughput] = Field(default=[], description="Samples and tokens in a second.")
    memory: MemoryUse | None = Field(default=None, description="Over the timed steps.")
    readings: list[ProbeReading] = Field(default=[], description="What probes measured.")
    unavailable: list[UnavailableProbe] = Field(default=[], description="Probes that could not.")
    profiled_steps: int = Field(default=0, ge=0, description="Those of `operators`, `modules` and `trace`, each.")
    operators: list[OperatorTime] = Field(default=[], description="Time by operator.")
    modules: list[ModuleTime] = Field(default=[], description="Time by module.")
    fallbacks: list[FallbackCost] = Field(default=[], description="Operators that leave MPS.")
    trace: Trace | None = Field(default=None, description="The profiled steps as a time line.")
    chip: ChipTimes | None = Field(default=None, description="Against what was predicted of the chip; `null`: nothing.")
    notes: list[str] = Field(default=[], description="What else a reader should know.")
    failure: RunFailure | None = Field(default=None, description="What ended it; what was measured before is there.")


class ProfileReport(Exportable):
    """Workloads on one or more devices, in one or more configurations."""

    kind: Literal["profile"] = "profile"
    workloads: list[WorkloadInfo] = Field(min_length=1, description="Once for each phase; cells have further sizes.")
    environment: Environment | None = Field(description="`None` where it is not known (an imported trace).")
    devices: list[DeviceInfo] = Field(description="What ran.")
    plan: ProfilePlan = Field(description="What was asked for.")
    cells: list[ProfileCell] = Field(description="One for each configuration on each device.")
    backend: str = Field(default="mps", description="Whose `fallbacks`: `mps`, or a plugin's (`tensorflow-metal`).")
    predicted_with: TableProvenance | None = Field(default=None, description="That predicted fallbacks come from.")
    complete: bool = Field(default=True, description="False after an interruption; what was measured before is there.")
    notes: list[str] = Field(default=[], description="What else a reader should know.")

    def __iter__(self) -> Iterator[ProfileCell]:  # type: ignore[override]  # pydantic's own gives fields
        """Its configurations, on each device."""
        return iter(self.cells)

    def workload_of(self, cell: ProfileCell) -> WorkloadInfo:
        """What ``cell`` ran; the first workload where the report does not say (a damaged one)."""
        same = (
            workload for workload in self.workloads if (workload.name, workload.phase) == (cell.workload, cell.phase)
        )
        return next(same, self.workloads[0])
