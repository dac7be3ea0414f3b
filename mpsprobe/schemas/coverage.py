"""What MPS does with each operator of a workload or a program: one release, or many; one workload, or several."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from mpsprobe.declarations import Verdict
from mpsprobe.schemas.memory import MemoryFigures, MemoryFit, MemoryPrediction
from mpsprobe.schemas.record import Exportable, First, Local, Record, Sum, Unite
from mpsprobe.schemas.run import AnyTarget, Environment, WorkloadInfo
from mpsprobe.schemas.time import TimePrediction

Method = Literal["predicted", "observed"]
"""``predicted``: traced on the virtual device. ``observed``: run on the device itself."""
Source = Literal["registration", "branch", "dtype", "device", "message", "metal", "stub", "list", "issue"]
"""What a verdict rests on: what the release registers; C++ that goes to MPS without a registration; a dtype that MPS
does not have; a tensor that is on the CPU; a guard's message in the binary; the names of the Metal kernels in it; a
DispatchStub that is never set; the lists of PyTorch's own tests; threads in which users report it."""
CompilesGraph = Literal["always", "may", "never"]
"""Whether a call with new shapes compiles an MPSGraph: every call, some calls, or none, which have ready kernels."""
FROM_A_RUN = "Where the answer was known already; `null`: it was worked out for this report."
"""What the field of a report says that has one."""


class Transfers(Record):
    """Tensors that are copied between the memory of the GPU and that of the CPU, over the whole run."""

    to_gpu: Sum[int] = Field(default=0, ge=0, description="Copies to the GPU.")
    to_gpu_bytes: Sum[int] = Field(default=0, ge=0, description="What they hold, as far as their shapes are known.")
    to_cpu: Sum[int] = Field(default=0, ge=0, description="Copies to the CPU.")
    to_cpu_bytes: Sum[int] = Field(default=0, ge=0, description="What they hold, as far as their shapes are known.")


class GraphCount(Record):
    """How many MPSGraphs are compiled: those of operators that always run one, and with those that may."""

    least: Sum[int] = Field(ge=0, description="Of operators whose every call runs one.")
    most: Sum[int] = Field(ge=0, description="Together with those of operators of which some calls need not run one.")


class ReservedGrowth(Record):
    """What the allocator asks Metal for over batches of many sizes: it may keep buffers of each."""

    batches: int = Field(ge=1, description="One after another: of sizes that were drawn, or the steps of a program.")
    sizes: int = Field(default=0, ge=0, description="That they have; 0: not counted.")
    complete: bool = Field(default=True, description="Whether all steps are in it; of a long program the first are.")
    in_use_bytes: int | None = Field(default=None, ge=0, description="Of tensors, at most at one time.")
    largest_bytes: int = Field(ge=0, description="Asked for by one of the largest size alone.")
    reserved_bytes: int = Field(ge=0, description="Asked for over all of them, at most.")
    padded_bytes: int | None = Field(
        default=None,
        ge=0,
        description="The same where they are padded: to `padded_to`, or to 8 of the program's sizes.",
    )
    emptied_bytes: int = Field(ge=0, description="The same with `torch.mps.empty_cache()` after each.")
    low_watermark: float | None = Field(
        default=None, description="`PYTORCH_MPS_LOW_WATERMARK_RATIO` that leaves room for the largest alone."
    )
    low_watermark_bytes: int | None = Field(default=None, ge=0, description="Asked for with it, on `machine`.")
    machine: str | None = Field(default=None, description="The Mac of whose memory that is a part.")


class GraphGrowth(Record):
    """How many MPSGraphs are compiled over many lengths: predicted from a few that were run."""

    varied: Literal["seq-len", "batch-size", "size", "new-tokens"] = Field(description="What has many values.")
    first: int = Field(description="The first value.")
    last: int = Field(description="The last value.")
    tried: list[int] = Field(description="The values that were run.")
    fixed: GraphCount = Field(description="Graphs that all values share.")
    each: GraphCount = Field(description="Further ones for each value.")
    total: GraphCount = Field(description="Over all values.")
    padded_to: int | None = Field(default=None, description="A multiple to which lengths may be padded.")
    padded: GraphCount | None = Field(default=None, description="Over all values, where they are padded so.")
    static: GraphCount | None = Field(default=None, description="Of a generation with a cache of one size.")
    memory: ReservedGrowth | None = Field(
        default=None, description="Of lengths and batches; `null`: of others, or the runs differ in more than sizes."
    )


class CoverageSummary(Record):
    """Counts. They do not include composite operators, but the operators that these are made of."""

    calls: Sum[int] = Field(ge=0, description="Of all operators.")
    operators: First[int] = Field(ge=0, description="Distinct ones.")
    calls_by_verdict: Sum[dict[Verdict, int]] = Field(description="A verdict that does not occur has no entry.")
    operators_by_verdict: First[dict[Verdict, int]] = Field(description="Likewise.")
    native_since: First[str | None] = Field(default=None, description="From it on, without a gap, all is native.")
    parameters_bytes: First[int | None] = Field(default=None, description="Memory of the parameters.")
    advisories: First[int] = Field(default=0, ge=0, description="Known wrong results that match what was called.")
    advisories_compared: First[int | None] = Field(
        default=None, ge=0, description="Known of the release, on the Mac in question; `null`: no list of them exists."
    )
    transfers: Sum[Transfers | None] = Field(default=None, description="What is copied; `None`: not found out.")
    graphs: Sum[GraphCount | None] = Field(default=None, description="MPSGraphs of this run; `null`: not read.")
    calls_registered_only: Sum[int] = Field(default=0, ge=0, description="Native, with dtypes that no test covers.")


class OperatorFinding(Record):
    """One operator under one verdict."""

    operator: str = Field(description="`namespace::name.overload`, without `.default`.")
    verdict: Verdict = Field(description="What becomes of it.")
    calls: Sum[int] = Field(ge=1, description="Over the whole run.")
    phases: Sum[dict[str, int]] = Field(description="Calls by phase: `forward`, `backward`, `prefill`, `decode`, …")
    dtypes: Unite[list[str]] = Field(description="Of its tensors.")
    shapes: Unite[list[str]] = Field(default=[], description="Distinct combinations of arguments, most frequent first.")
    modules: Unite[list[str]] = Field(default=[], description="Where in the model it is called, as paths of modules.")
    call_sites: Unite[list[str]] = Field(default=[], description="Where in the source, as `file:line`.")
    native_since: str | None = Field(default=None, description="From this release on, without a gap, it is native.")
    input_bytes: Sum[int] = Field(default=0, ge=0, description="What its tensor arguments hold, over the whole run.")
    output_bytes: Sum[int] = Field(default=0, ge=0, description="What its results hold, over the whole run.")
    transfers: Sum[Transfers | None] = Field(default=None, description="What is copied; `None`: nothing, or not known.")
    reason: str | None = Field(default=None, description="Why this verdict, in a sentence.")
    source: Source | None = Field(default=None, description="The kind of evidence that the verdict rests on.")
    evidence: str | None = Field(default=None, description="What was found there.")
    judges: First[list[str]] = Field(default=[], description="Those that were asked, in order; the last one answered.")
    needs_macos: str | None = Field(default=None, description="The first macOS on which the same release serves it.")
    ends_process: First[bool] = Field(default=False, description="A call ends the process: no `try` catches it.")
    advice: First[str | None] = Field(default=None, description="What the user can do about it.")
    only_if: str | None = Field(
        default=None,
        description="It is called only if this holds: `model.py:6 is true and model.py:9 is false`, of booleans that "
        "only values decide, by line, of both whose sides runs were made; `null`: it is always called.",
    )
    graph: First[CompilesGraph | None] = Field(default=None, description="If new shapes compile one; `null`: not read.")
    graphs: Sum[int] = Field(default=0, ge=0, description="MPSGraphs that its calls compile in this run, at most.")
    composed_by: Sum[dict[str, int]] = Field(
        default={},
        description="Composite operators and derivatives not known to be composed so in the release → their calls.",
    )
    examples: Unite[list[str]] = Field(
        default=[],
        description="Distinct calls of it as Python writes them, up to eight, where it is not native: "
        "`tensor(shape, strides, dtype)` stands for a tensor, `device` for the device.",
    )


class Unjudged(Record):
    """An operator that no table covers, or something that could not be followed."""

    operator: str = Field(description="Its name, or what could not be followed.")
    reason: str = Field(description="Why, in words.")
    calls: Sum[int] = Field(default=1, description="Over the whole run.")
    call_sites: Unite[list[str]] = Field(default=[], description="Where in the source, as `file:line`.")


class DataDependence(Record):
    """A place where the model's control flow read a value that a prediction cannot know."""

    operator: str = Field(description="What read the value.")
    assumed: str = Field(description="The value that was taken instead.")
    calls: Sum[int] = Field(default=1, description="Over the whole run.")
    call_sites: Unite[list[str]] = Field(default=[], description="Where in the source, as `file:line`.")


class RefusedTensor(Record):
    """The first tensor of a dtype that MPS does not have: where it is made, a Mac raises."""

    dtype: str = Field(description="The one that MPS does not have.")
    operator: str = Field(description="What makes the tensor.")
    phase: str = Field(description="Of the step.")
    module: str | None = Field(default=None, description="Of the model, as a path.")
    call_site: str | None = Field(default=None, description="In the source, as `file:line`.")


class MacosCondition(Record):
    """Something that the release serves from ``macos`` on, while it runs on older systems too."""

    macos: str = Field(description="The first version that serves it.")
    what: str = Field(description="That it serves, in words.")
    operators: Unite[list[str]] = Field(description="Those that it concerns.")


class AffectedRange(Record):
    """Versions, of torch or of macOS, in which a known wrong result occurs."""

    since: str | None = Field(default=None, description="The first one; `None`: not established.")
    seen: list[str] = Field(default=[], description="Some that a source shows to have it, oldest first.")
    fixed: str | None = Field(default=None, description="The first one without it; `None`: none is known.")
    open: bool = Field(
        default=False,
        description="Nothing says that it was fixed. With neither `fixed` nor `open` it was, and where is not known.",
    )
    every: bool = Field(default=False, description="It does not depend on the version at all.")
    same_code_since: str | None = Field(
        default=None,
        description="Of torch: the first release with the code that kernels have in the first one seen; `None`: it.",
    )
    same_code_until: str | None = Field(
        default=None, description="The last one with the code that they have in the last one seen; `None`: it."
    )


class AffectedSystems(AffectedRange):
    """The same for macOS, where ``open`` means that all later versions have it."""


class AdvisoryMatch(Record):
    """A known wrong result of an operator, and where the workload makes such a call.

    ``condition``, ``symptom`` and ``workaround`` are about the operator, not about this workload.
    """

    id: str = Field(description="As `mpsprobe advisories show` takes it.")
    title: str = Field(description="The same in a line.")
    condition: str = Field(description="Which calls it concerns.")
    symptom: str = Field(description="What happens.")
    workaround: str = Field(description="What to do instead.")
    hardware: str | None = Field(default=None, description="The chips that have it, where it is not all of them.")
    chips: First[list[str]] = Field(default=[], description="For programs: `m1`, or names; empty: it may be any.")
    torch: AffectedRange = Field(description="The releases that have it, of torch or of a plugin's backend.")
    macos: AffectedSystems = Field(description="The systems that have it.")
    sources: First[list[str]] = Field(description="Addresses of what establishes it.")
    operators: Unite[list[str]] = Field(description="Those of this workload that match.")
    calls: Sum[int] = Field(ge=1, description="Of this workload that match.")
    phases: Sum[dict[str, int]] = Field(description="These calls by phase.")
    modules: Unite[list[str]] = Field(default=[], description="Where in the model they are, as paths of modules.")
    call_sites: Unite[list[str]] = Field(default=[], description="Where in the source, as `file:line`.")
    only_if: str | None = Field(default=None, description="As of operators: when it is made; `null`: always.")
    undecided: bool = Field(
        default=False, description="Whether `condition` is about values that are not known: it may apply to no call."
    )


class RunFailure(Record):
    """The exception that ended the run; the operators before it are in the report."""

    phase: str = Field(description="In which it was raised.")
    error: str = Field(description="The exception's class.")
    message: Local = Field(description="What it says.")
    module: str | None = Field(default=None, description="Of the model, as a path.")
    call_site: str | None = Field(default=None, description="In the source, as `file:line`.")


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


class CompiledStep(Record):
    """A step with its model compiled, without values where that is enough; or what a program compiles, with them.

    It is the installed torch that compiles.
    """

    torch: str = Field(description="The installed release, whose generator it is.")
    values: bool = Field(default=False, description="Whether tensors had values, with which the kernels ran.")
    graphs: int = Field(ge=0, description="That Inductor got.")
    breaks: list[GraphBreak] = Field(default=[], description="By place, the most frequent first.")
    recompiled: list[Recompilation] = Field(
        default=[], description="By reason, as they came; also for the sizes of `growth`."
    )
    refused: list[RefusedGraph] = Field(default=[], description="They were run operator by operator here.")
    not_run: str | None = Field(default=None, description="Why no kernel could be run here; operators were.")
    kernels: list[MetalKernel] = Field(default=[], description="In the order in which they were generated.")
    operators: list[OperatorFinding] = Field(
        default=[], description="Those that a step still calls, by verdict; a program's are the report's."
    )
    eager: StepCost | None = Field(default=None, description="Of a step without `torch.compile`; of a program `null`.")
    compiled: StepCost | None = Field(default=None, description="Of a step with it.")
    step_ms: list[float] | None = Field(
        default=None, description="With it, predicted for the chip asked about: low, likely, high milliseconds."
    )
    failure: RunFailure | None = Field(default=None, description="What ended the step.")


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

    arguments: First[list[Local]] = Field(default=[], description="Its own, after the script.")
    exit_code: First[int] = Field(default=0, description="Its own; the negative number of the signal that ended it.")
    device: str = Field(description="What it ran on.")
    values: str = Field(description="`real`: each tensor had its values; `none`: shapes only.")
    as_cuda: bool = Field(
        default=False, description="Whether its own lines saw a CUDA device, which was the MPS device."
    )
    seconds: First[float] = Field(ge=0, description="From its start to its end, without what opening the device took.")
    processes: First[int] = Field(default=0, ge=0, description="That it started, and that had the device.")
    processes_unreported: First[int] = Field(default=0, ge=0, description="Those of them that are not in the report.")
    threads: Sum[int] = Field(default=0, ge=0, description="Its own that called operators there; 0: not counted.")
    stayed_on_cpu: Unite[list[OnTheCpu]] = Field(default=[], description="Models that were never moved to the device.")
    computed_on_cpu: Unite[list[ComputedOnCpu]] = Field(default=[], description="Where it did, the largest first.")
    cuda: Unite[list[CudaHint]] = Field(default=[], description="What is written for CUDA, in the order of the run.")
    memory: First[ReservedGrowth | None] = Field(
        default=None, description="Over its steps, if they have several sizes; `null`: one, or it was not followed."
    )
    notes: Unite[list[str]] = Field(default=[], description="What else to know of the run.")


class Recalled(Record):
    """Where the report comes from, instead of a run; its `environment` says with which versions it was worked out."""

    source: str = Field(description="`cache`, the user's own, or the distribution that knew it (`mpsprobe-atlas`).")
    made: str = Field(description="When it was worked out, in UTC: `2026-11-22T19:30:00Z`.")
    notes: list[str] = Field(default=[], description="How it may differ from what a run here would say.")


class CoverageReport(Exportable):
    """What one torch release does with one workload."""

    kind: Literal["coverage"] = "coverage"
    method: Method = Field(description="How the verdicts were found.")
    workload: Unite[WorkloadInfo] = Field(description="What was run.")
    target: First[AnyTarget] = Field(description="What was judged.")
    environment: First[Environment] = Field(description="Where it was traced.")
    summary: Unite[CoverageSummary] = Field(description="Counts.")
    operators: Unite[list[OperatorFinding]] = Field(description="Every operator, by verdict.")
    not_judged: Unite[list[Unjudged]] = Field(default=[], description="What has no verdict.")
    data_dependence: Unite[list[DataDependence]] = Field(default=[], description="Where the model read unknown values.")
    first_refused_tensor: RefusedTensor | None = Field(default=None, description="Of a dtype that the backend lacks.")
    macos_conditions: Unite[list[MacosCondition]] = Field(default=[], description="What only a newer macOS serves.")
    advisories: Unite[list[AdvisoryMatch]] = Field(default=[], description="Calls whose results are known to be wrong.")
    memory: First[MemoryPrediction | None] = Field(default=None, description="What the step needs; programs have none.")
    time: First[TimePrediction | None] = Field(
        default=None, description="How long a step takes on the chip asked about."
    )
    growth: First[GraphGrowth | None] = Field(default=None, description="What --vary asked for.")
    compiled: First[CompiledStep | None] = Field(default=None, description="What --compile asked for.")
    explained: bool = Field(default=False, description="Whether --explain asked for the evidence to be shown.")
    failure: RunFailure | None = Field(default=None, description="What ended the run, and the report.")
    program: Unite[ProgramInfo | None] = Field(default=None, description="What a whole program has besides.")
    allowed: Unite[list[str]] = Field(default=[], description="Operators with findings that `--allow` named.")
    recalled: Recalled | None = Field(default=None, description=FROM_A_RUN)

    @property
    def findings(self) -> list[OperatorFinding]:
        """The operators that are not native."""
        return [operator for operator in self.operators if operator.verdict != "native"]

    def __iter__(self) -> Iterator[OperatorFinding]:  # type: ignore[override]  # pydantic's own gives fields
        """Its operators, the worst verdicts first."""
        return iter(self.operators)


class MatrixCell(Record):
    """One release in a matrix: counts, and the verdict of each operator that is not native."""

    target: AnyTarget = Field(description="What was judged.")
    summary: CoverageSummary = Field(description="Counts.")
    memory: MemoryFigures | None = Field(default=None, description="What a whole run needs, where it was found out.")
    fit: MemoryFit | None = Field(default=None, description="Whether it fits on the Mac that was asked about.")
    findings: dict[str, Verdict] = Field(default={}, description="The verdict of each operator that is not native.")
    advisories: list[str] = Field(default=[], description="Identifiers; the matrix has the advisories themselves.")
    failure: RunFailure | None = Field(default=None, description="Set if this run ended with an exception.")


class MatrixReport(Exportable):
    """One workload on many releases."""

    kind: Literal["coverage-matrix"] = "coverage-matrix"
    method: Method = Field(description="How the verdicts were found.")
    workload: WorkloadInfo = Field(description="What was run.")
    environment: Environment = Field(description="Where it was traced.")
    native_since: str | None = Field(description="The first of `releases` from which on, without a gap, all is native.")
    releases: list[MatrixCell] = Field(description="One for each, oldest first.")
    operators: list[OperatorFinding] = Field(description="The findings of the newest release.")
    not_judged: list[Unjudged] = Field(default=[], description="Of the newest release.")
    data_dependence: list[DataDependence] = Field(default=[], description="Of the newest release.")
    advisories: list[AdvisoryMatch] = Field(default=[], description="Each once, with the calls of the newest release.")
    allowed: list[str] = Field(default=[], description="Operators with findings that `--allow` named.")
    recalled: Recalled | None = Field(default=None, description=FROM_A_RUN)

    @property
    def findings(self) -> list[OperatorFinding]:
        """The operators that are not native on the newest of the releases; each of ``releases`` has its own."""
        return [operator for operator in self.operators if operator.verdict != "native"]

    def __iter__(self) -> Iterator[MatrixCell]:  # type: ignore[override]  # pydantic's own gives fields
        """Its releases, the oldest first."""
        return iter(self.releases)


class JudgedWorkload(Record):
    """One of several workloads: its report, or why there is none."""

    name: Local = Field(description="As it was asked for.")
    seconds: float = Field(default=0.0, ge=0, description="That it took.")
    report: Annotated[CoverageReport | MatrixReport, Field(discriminator="kind")] | None = Field(
        default=None, description="`null` where there is none."
    )
    error: Local | None = Field(default=None, description="Why there is none, in a sentence.")
    hint: str | None = Field(default=None, description="What to do about that.")


class SeveralReport(Exportable):
    """What one torch release, or each of many, does with several workloads."""

    kind: Literal["coverage-several"] = "coverage-several"
    environment: Environment = Field(description="Where they were traced.")
    workloads: list[JudgedWorkload] = Field(description="In the order in which they were asked for.")
    complete: bool = Field(default=True, description="Whether each of them was judged: Ctrl-C ends it before.")

    def __iter__(self) -> Iterator[JudgedWorkload]:  # type: ignore[override]  # pydantic's own gives fields
        """Its workloads."""
        return iter(self.workloads)
