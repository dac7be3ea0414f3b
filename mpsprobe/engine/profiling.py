"""A profile: every configuration of a plan on every device, measured one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from mpsprobe.engine.session import (
    Measured,
    Session,
    Settings,
    duration_statistics,
    step_samples,
    throughput,
    warmup_record,
)
from mpsprobe.environment import collect_environment
from mpsprobe.errors import MpsprobeError, WorkloadError
from mpsprobe.protocols import Device, Probe, Progress, RunOptions, Workload
from mpsprobe.schemas.coverage import RunFailure
from mpsprobe.schemas.profile import ProfileCell, ProfilePlan, ProfileReport
from mpsprobe.schemas.workload import WorkloadInfo

OUT_OF_MEMORY = "no memory left on the device"


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure.

    Attributes:
        options: what every configuration shares; its sizes are replaced by those below.
        devices: in the order in which they are measured.
        batch_sizes, seq_lens: each with each; ``None`` for the workload's own.
        baseline: the name of the device that the others are compared with.
    """

    workload: Workload
    options: RunOptions
    devices: Sequence[Device]
    batch_sizes: Sequence[int | None] = (None,)
    seq_lens: Sequence[int | None] = (None,)
    settings: Settings = field(default_factory=Settings)
    compiled: bool = False
    baseline: str | None = None
    probes: Sequence[Probe] = ()

    def configurations(self) -> Iterator[tuple[Device, RunOptions]]:
        """Device and options of each configuration, in the order of measurement: sizes grow within a device."""
        for device, seq_len, batch_size in product(self.devices, self.seq_lens, self.batch_sizes):
            yield device, replace(self.options, batch_size=batch_size, seq_len=seq_len)


def profile(plan: Plan, progress: Progress) -> ProfileReport:
    """Measure ``plan``. Ctrl-C ends it with what there is; a configuration that fails does not keep the others back.

    Raises:
        MpsprobeError: a workload cannot be built as it was asked for.
        KeyboardInterrupt: nothing had been measured yet.
    """
    cells: list[ProfileCell] = []
    infos: list[WorkloadInfo] = []
    complete = True
    for device, options in plan.configurations():
        try:
            cell, info, interrupted = _measure(plan, device, options, progress)
        except KeyboardInterrupt:
            if not cells:
                raise
            complete = False
            break
        cells.append(cell)
        infos += [info] if info is not None else []
        if interrupted:
            complete = False
            break
    return ProfileReport(
        workload=_common(plan, infos),
        environment=collect_environment(),
        devices=[device.describe() for device in plan.devices],
        plan=_asked(plan),
        cells=cells,
        complete=complete,
    )


def _measure(
    plan: Plan, device: Device, options: RunOptions, progress: Progress
) -> tuple[ProfileCell, WorkloadInfo | None, bool]:
    try:
        steps = device.open(plan.workload, options, compiled=plan.compiled)
    except MpsprobeError:
        raise
    except Exception as error:
        if not device.is_out_of_memory(error):
            raise WorkloadError(
                f"'{plan.workload.name}' cannot be built on {device.name}: {type(error).__name__}: {_first_line(error)}"
            ) from error
        failure = RunFailure(phase="build", error=type(error).__name__, message=OUT_OF_MEMORY)
        cell = ProfileCell(
            device=device.name,
            batch_size=options.batch_size,
            seq_len=options.seq_len,
            dtype=options.dtype,
            autocast=options.autocast,
            failure=failure,
        )
        return cell, None, False
    try:
        measured = Session(device, plan.probes).measure(steps, plan.settings, progress)
        return _cell(device, steps.info, measured), steps.info, measured.interrupted
    finally:
        steps.close()


def _common(plan: Plan, infos: list[WorkloadInfo]) -> WorkloadInfo:
    """The workload as it was built; sizes that differ between the configurations are in the cells alone."""
    if not infos:
        raise WorkloadError(
            f"'{plan.workload.name}' does not fit into the memory of {plan.devices[0].name}",
            "Choose a smaller --batch-size, --seq-len or --dtype.",
        )
    differing = {name: None for name in ("batch_size", "seq_len") if len({getattr(one, name) for one in infos}) > 1}
    return infos[0].model_copy(update=differing)


def _cell(device: Device, info: WorkloadInfo, measured: Measured) -> ProfileCell:
    step = duration_statistics(measured.durations_ns)
    failure = None
    if measured.error is not None:
        text = OUT_OF_MEMORY if device.is_out_of_memory(measured.error) else _first_line(measured.error)
        failure = RunFailure(phase=measured.phase, error=type(measured.error).__name__, message=text)
    phases = {name: duration_statistics(durations) for name, durations in measured.phases_ns.items()}
    return ProfileCell(
        device=device.name,
        batch_size=info.batch_size,
        seq_len=info.seq_len,
        dtype=info.dtype,
        autocast=info.autocast,
        first_call_ns=[] if measured.first_call_ns is None else [measured.first_call_ns],
        warmup=warmup_record(measured),
        steps=step_samples(measured.durations_ns),
        step=step,
        phases={name: found for name, found in phases.items() if found is not None},
        throughput=throughput(info, step),
        unavailable=measured.unavailable,
        notes=measured.notes,
        failure=failure,
        **measured.found,
    )


def _asked(plan: Plan) -> ProfilePlan:
    return ProfilePlan(
        devices=[device.name for device in plan.devices],
        batch_sizes=list(plan.batch_sizes),
        seq_lens=list(plan.seq_lens),
        steps=plan.settings.steps,
        warmup=plan.settings.warmup,
        compile=plan.compiled,
        baseline=plan.baseline,
        probes=[probe.name for probe in plan.probes],
    )


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
