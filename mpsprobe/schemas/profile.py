"""What a workload costs on a device: times, memory, energy, operators. Durations are in ns, sizes in bytes."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mpsprobe.schemas.coverage import RunFailure, TableProvenance
from mpsprobe.schemas.environment import Environment
from mpsprobe.schemas.record import Record
from mpsprobe.schemas.trace import Trace
from mpsprobe.schemas.workload import WorkloadInfo

MemorySource = Literal["allocator", "sampled"]
PLAIN = "plain"


class DeviceInfo(Record):
    """What ran the workload. ``type`` is torch's name of it: ``mps``, ``cuda``, ``cpu``."""

    type: str
    name: str
    memory_bytes: int | None = Field(default=None, ge=0)
    capabilities: dict[str, str] = {}
    caveats: list[str] = []


class ProfilePlan(Record):
    """What was asked for. ``warmup`` ``None`` stands for: until the steps are stable. ``clock`` times the steps."""

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
    runner: str = PLAIN
    baseline: str | None = None
    probes: list[str] = []


class StepSample(Record):
    """One timed step, synchronised before and after. An outlier is marked and kept."""

    duration_ns: int = Field(ge=0)
    process: int = Field(default=0, ge=0)
    outlier: bool = False


class DurationStatistics(Record):
    """Samples of a duration in short.

    ``low_ns`` and ``high_ns`` are the ``confidence`` interval of the median (percentile bootstrap); ``spread`` is the
    scaled median absolute deviation as a share of the median.
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
    """The steps before the timed ones; the first call of all, with its compilations, is not among them."""

    durations_ns: list[int] = []
    stable: bool
    rule: str


class Throughput(Record):
    """How much goes through in a second, by the median step; the interval is that of the median."""

    unit: Literal["samples", "tokens"]
    per_second: float
    low: float
    high: float


class MemoryCurve(Record):
    """Memory over time; the columns have one value for each time, counted from the first timed step."""

    times_ns: list[int] = []
    allocated_bytes: list[int] = []
    reserved_bytes: list[int] = []
    process_bytes: list[int] = []


class MemoryUse(Record):
    """Memory over the timed steps.

    Allocated is what tensors hold, reserved what the allocator has taken from the system for them, process the whole
    footprint of the process. ``source`` tells whether the peaks are the allocator's own or the largest of samples,
    which can miss a short one; the process is sampled always. ``caveats`` says what stopped answering midway.
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
    """What a probe measured over the timed steps: values by name, with their unit in the name."""

    probe: str
    values: dict[str, float | str]
    caveats: list[str] = []
    process: int = Field(default=0, ge=0)


class UnavailableProbe(Record):
    """A probe that could not run, and why: never a zero."""

    probe: str
    reason: str


class OperatorTime(Record):
    """One operator over the ``profiled_steps`` of its cell, all calls together.

    ``device_ns`` is its kernels' time (``None`` where no clock of the device was read); ``self`` leaves out what the
    operator calls. ``source`` says what took the time: ``torch.profiler``, or ``slow mode`` (synchronised after each
    operator, so that host and device time are one), or ``trace`` for an imported one.
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
    """One module of the model over the ``profiled_steps`` of its cell, forward passes unless ``phase`` says otherwise.

    ``module`` is its path (``encoder.layer.0.attention``; empty for the model itself), ``type`` its class.
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
    """An operator of the model that leaves MPS. ``calls``, ``duration_ns`` and ``bytes`` are for one step.

    ``bytes`` is what is copied to the CPU and back. ``duration_ns`` is there where it was observed.
    """

    operator: str
    calls: int = Field(ge=1)
    method: Literal["predicted", "observed"]
    verdict: str
    duration_ns: int | None = None
    bytes: int | None = None
    native_since: str | None = None


class ProfileCell(Record):
    """One configuration on one device: everything that was measured of it.

    ``first_call_ns`` has one entry for each process. ``phases`` come from steps of their own, synchronised between the
    phases, so that the timed steps are not disturbed; so do ``operators``, ``modules`` and ``trace``, from
    ``profiled_steps`` steps. ``dtype`` is ``None`` where it is not known (an imported trace).
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


class ProfileReport(Record):
    """Workloads on one or more devices, in one or more configurations.

    ``workloads`` has each workload once for each phase; sizes that differ between its cells are in the cells alone.
    ``environment`` is ``None`` where it is not known (an imported trace). ``complete`` is false after an interruption:
    what was measured before is there. ``predicted_with`` is the kernel table that predicted fallbacks came from.
    """

    kind: Literal["profile"] = "profile"
    schema_version: Literal[1] = 1
    workloads: list[WorkloadInfo] = Field(min_length=1)
    environment: Environment | None
    devices: list[DeviceInfo]
    plan: ProfilePlan
    cells: list[ProfileCell]
    predicted_with: TableProvenance | None = None
    complete: bool = True
    notes: list[str] = []

    def workload_of(self, cell: ProfileCell) -> WorkloadInfo:
        """What ``cell`` ran; the first workload where the report does not say (a damaged one)."""
        same = (one for one in self.workloads if (one.name, one.phase) == (cell.workload, cell.phase))
        return next(same, self.workloads[0])
