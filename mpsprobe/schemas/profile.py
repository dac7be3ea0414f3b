"""What a workload costs on a device: times, memory, energy, operators. Durations are in ns, sizes in bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from mpsprobe.schemas.coverage import RunFailure
from mpsprobe.schemas.environment import Environment
from mpsprobe.schemas.record import Exportable, Record
from mpsprobe.schemas.target import TableProvenance
from mpsprobe.schemas.trace import Trace
from mpsprobe.schemas.workload import WorkloadInfo

MemorySource = Literal["allocator", "sampled"]
"""Who tells a peak: the allocator, which misses none, or the largest of samples."""


class DeviceInfo(Record):
    """What ran the workload.

    Attributes:
        type: torch's name of it: ``mps``, ``cuda``, ``cpu``.
        name: the maker's name of it.
        memory_bytes: how much it has; on MPS what Metal recommends to use at most.
        capabilities: what else is known of it, by name.
        caveats: what to consider before its figures are quoted.
    """

    type: str
    name: str
    memory_bytes: int | None = Field(default=None, ge=0)
    capabilities: dict[str, str] = {}
    caveats: list[str] = []


class ProfilePlan(Record):
    """What was asked for.

    Attributes:
        workloads: names.
        phases: ``inference``, ``training`` or both.
        preset: the comparison that was asked for, if one was.
        devices: torch's names.
        batch_sizes: ``None`` stands for the workload's own.
        seq_lens: likewise.
        steps: timed ones, in each process.
        warmup: steps before them; ``None`` stands for: until they are stable.
        processes: fresh ones, one after the other.
        clock: what timed the steps.
        compile: whether the model ran through ``torch.compile``.
        runner: whose training loop; ``plain`` for mpsprobe's own.
        baseline: the device that the others are compared with.
        probes: names of what measured in addition to time.
    """

    workloads: list[str] = []
    phases: list[str] = []
    preset: str | None = None
    devices: list[str]
    batch_sizes: list[int | None]
    seq_lens: list[int | None]
    steps: int = Field(ge=1)
    warmup: int | None = Field(default=None, ge=0)
    processes: int = Field(default=1, ge=1)
    clock: Literal["host", "device"] = "host"
    compile: bool = False
    runner: str = "plain"
    baseline: str | None = None
    probes: list[str] = []


class StepSample(Record):
    """One timed step, synchronised before and after.

    Attributes:
        duration_ns: from synchronised to synchronised.
        process: which one, counted from 0.
        outlier: far from the others; marked and kept.
    """

    duration_ns: int = Field(ge=0)
    process: int = Field(default=0, ge=0)
    outlier: bool = False


class DurationStatistics(Record):
    """Samples of a duration in short.

    Attributes:
        count: of samples.
        median_ns: of the samples.
        low_ns: lower end of the interval of the median (percentile bootstrap).
        high_ns: its upper end.
        confidence: of that interval.
        spread: the scaled median absolute deviation as a share of the median.
        minimum_ns: the shortest sample.
        maximum_ns: the longest one.
        mean_ns: of all samples, outliers too.
        outliers: how many samples are marked.
    """

    count: int = Field(ge=1)
    median_ns: float
    low_ns: float
    high_ns: float
    confidence: float = 0.95
    spread: float
    minimum_ns: float
    maximum_ns: float
    mean_ns: float
    outliers: int = Field(default=0, ge=0)


class Warmup(Record):
    """The steps before the timed ones; the first call of all, with its compilations, is not among them.

    Attributes:
        durations_ns: of each step.
        stable: whether the steps had settled.
        rule: how that was decided, in words.
    """

    durations_ns: list[int] = []
    stable: bool
    rule: str


class Throughput(Record):
    """How much goes through in a second, by the median step; the interval is that of the median.

    Attributes:
        unit: of what.
        per_second: by the median step.
        low: lower end of the interval.
        high: its upper end.
    """

    unit: Literal["samples", "tokens"]
    per_second: float
    low: float
    high: float


class MemoryCurve(Record):
    """Memory over time; the columns have one value for each time, counted from the first timed step.

    Attributes:
        times_ns: counted from the first timed step.
        allocated_bytes: what tensors hold, at each time.
        reserved_bytes: what the allocator has from the system, at each time.
        process_bytes: the footprint of the process, at each time.
    """

    times_ns: list[int] = []
    allocated_bytes: list[int] = []
    reserved_bytes: list[int] = []
    process_bytes: list[int] = []


class MemoryUse(Record):
    """Memory over the timed steps.

    Allocated is what tensors hold, reserved what the allocator has taken from the system for them, process the whole
    footprint of the process, which is sampled always.

    Attributes:
        source: whether the peaks are the allocator's own, or the largest of samples, which can miss a short one.
        allocated_bytes: what tensors held at the last sample.
        reserved_bytes: what the allocator had taken from the system for them then.
        peak_allocated_bytes: the largest since the first timed step.
        peak_reserved_bytes: the largest since the first timed step.
        peak_process_bytes: the largest sample of the footprint of the process.
        curve: the samples.
        caveats: what stopped answering midway, and what else to think of.
    """

    source: MemorySource
    allocated_bytes: int | None = None
    reserved_bytes: int | None = None
    peak_allocated_bytes: int | None = None
    peak_reserved_bytes: int | None = None
    peak_process_bytes: int | None = None
    curve: MemoryCurve = MemoryCurve()
    caveats: list[str] = []


class ProbeReading(Record):
    """What a probe measured over the timed steps: values by name, with their unit in the name.

    Attributes:
        probe: its name.
        values: by name, with the unit at the end of the name.
        caveats: what to consider before they are quoted.
        process: which one, counted from 0.
    """

    probe: str
    values: dict[str, float | str]
    caveats: list[str] = []
    process: int = Field(default=0, ge=0)


class UnavailableProbe(Record):
    """A probe that could not run, and why: never a zero.

    Attributes:
        probe: its name.
        reason: why, in a sentence.
    """

    probe: str
    reason: str


class OperatorTime(Record):
    """One operator over the ``profiled_steps`` of its cell, all calls together.

    Attributes:
        operator: ``namespace::name.overload``, or the name of a kernel that none of torch's operators started.
        calls: over all profiled steps.
        host_ns: of the host, with what the operator calls.
        self_host_ns: without what it calls.
        device_ns: of its kernels; ``None`` where no clock of the device was read.
        self_device_ns: without those of what it calls.
        shapes: of its tensors.
        modules: where in the model it is called, as paths of modules.
        source: what took the time: ``torch.profiler``, ``slow mode`` (synchronised after each operator),
            ``trace`` (imported).
    """

    operator: str
    calls: int = Field(ge=1)
    host_ns: int = Field(ge=0)
    self_host_ns: int = Field(ge=0)
    device_ns: int | None = Field(default=None, ge=0)
    self_device_ns: int | None = Field(default=None, ge=0)
    shapes: list[str] = []
    modules: list[str] = []
    source: str


class ModuleTime(Record):
    """One module of the model over the ``profiled_steps`` of its cell.

    Attributes:
        module: its path (``encoder.layer.0.attention``); empty for the model itself.
        type: its class.
        calls: over all profiled steps.
        host_ns: of the host, with the modules in it.
        self_host_ns: without the modules in it.
        device_ns: of the kernels; ``None`` where no clock of the device was read.
        self_device_ns: without those of the modules in it.
        phase: ``forward`` or ``backward``.
    """

    module: str
    type: str
    calls: int = Field(ge=1)
    host_ns: int = Field(ge=0)
    self_host_ns: int = Field(ge=0)
    device_ns: int | None = Field(default=None, ge=0)
    self_device_ns: int | None = Field(default=None, ge=0)
    phase: str = "forward"


class FallbackCost(Record):
    """An operator of the model that leaves MPS, or the report's other ``backend``.

    Attributes:
        operator: ``namespace::name.overload``.
        calls: in one step.
        method: whether it was seen on MPS, or follows from the kernel table.
        verdict: why it leaves MPS.
        duration_ns: in one step, where it was observed.
        bytes: what is copied to the CPU and back in one step.
        native_since: the first release from which on, without a gap up to the newest, it is native.
    """

    operator: str
    calls: int = Field(ge=1)
    method: Literal["predicted", "observed"]
    verdict: str
    duration_ns: int | None = None
    bytes: int | None = None
    native_since: str | None = None


class ProfileCell(Record):
    """One configuration on one device: everything that was measured.

    ``phases`` come from steps of their own, synchronised between the phases, so that the timed steps are not disturbed;
    so do ``operators``, ``modules`` and ``trace``.

    Attributes:
        workload: its name.
        phase: what ran.
        device: torch's name of it.
        batch_size: samples in a step.
        seq_len: tokens or frames in a sample.
        dtype: of the parameters; ``None`` where it is not known (an imported trace).
        autocast: the dtype of autocast; ``None`` without.
        first_call_ns: with its compilations; one entry for each process.
        warmup: the steps before the timed ones.
        steps: the timed ones.
        step: those in short.
        phases: forward, backward and optimizer, from steps of their own.
        phase_samples_ns: what ``phases`` was computed from.
        throughput: samples and tokens in a second.
        memory: over the timed steps.
        readings: what probes measured.
        unavailable: probes that could not.
        profiled_steps: how many steps ``operators``, ``modules`` and ``trace`` are of, each.
        operators: time by operator.
        modules: time by module.
        fallbacks: operators that leave MPS.
        trace: the profiled steps as a time line.
        notes: what else a reader should know.
        failure: set if it ended with an exception; what was measured before is there.
    """

    workload: str
    phase: Literal["inference", "training"]
    device: str
    batch_size: int | None = None
    seq_len: int | None = None
    dtype: str | None = None
    autocast: str | None = None
    first_call_ns: list[int] = []
    warmup: Warmup | None = None
    steps: list[StepSample] = []
    step: DurationStatistics | None = None
    phases: dict[str, DurationStatistics] = {}
    phase_samples_ns: dict[str, list[int]] = {}
    throughput: list[Throughput] = []
    memory: MemoryUse | None = None
    readings: list[ProbeReading] = []
    unavailable: list[UnavailableProbe] = []
    profiled_steps: int = Field(default=0, ge=0)
    operators: list[OperatorTime] = []
    modules: list[ModuleTime] = []
    fallbacks: list[FallbackCost] = []
    trace: Trace | None = None
    notes: list[str] = []
    failure: RunFailure | None = None


class ProfileReport(Exportable):
    """Workloads on one or more devices, in one or more configurations.

    Attributes:
        workloads: each once for each phase; sizes that differ between cells are in the cells alone.
        environment: ``None`` where it is not known (an imported trace).
        devices: what ran.
        plan: what was asked for.
        cells: one for each configuration on each device.
        backend: which one ``fallbacks`` leave: ``mps``, or the one of another framework (``tensorflow-metal``).
        predicted_with: the kernel table that predicted fallbacks come from.
        complete: false after an interruption; what was measured before is there.
        notes: what else a reader should know.
    """

    kind: Literal["profile"] = "profile"
    schema_version: Literal[1] = 1
    workloads: list[WorkloadInfo] = Field(min_length=1)
    environment: Environment | None
    devices: list[DeviceInfo]
    plan: ProfilePlan
    cells: list[ProfileCell]
    backend: str = "mps"
    predicted_with: TableProvenance | None = None
    complete: bool = True
    notes: list[str] = []

    def __iter__(self) -> Iterator[ProfileCell]:  # type: ignore[override]  # pydantic's own gives fields
        """Its configurations, on each device."""
        return iter(self.cells)

    def workload_of(self, cell: ProfileCell) -> WorkloadInfo:
        """What ``cell`` ran; the first workload where the report does not say (a damaged one)."""
        same = (one for one in self.workloads if (one.name, one.phase) == (cell.workload, cell.phase))
        return next(same, self.workloads[0])
