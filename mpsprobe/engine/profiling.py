"""A profile: every configuration of a plan on every device, measured one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

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
from mpsprobe.protocols import Device, Probe, Progress, Runner, RunOptions, Workload
from mpsprobe.schemas.coverage import RunFailure
from mpsprobe.schemas.profile import ProfileCell, ProfilePlan, ProfileReport
from mpsprobe.schemas.workload import WorkloadInfo

OUT_OF_MEMORY = "no memory left on the device"


@dataclass(frozen=True, slots=True)
class Configuration:
    """One thing to measure. ``runner`` ``None`` steps the workload plainly."""

    workload: Workload
    options: RunOptions
    device: Device
    runner: Runner | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure.

    Attributes:
        configurations: in the order in which they are measured.
        asked: the same as the report tells it.
        notes: what a reader of the report should know of the plan.
    """

    configurations: Sequence[Configuration]
    asked: ProfilePlan
    settings: Settings = field(default_factory=Settings)
    probes: Sequence[Probe] = ()
    notes: Sequence[str] = ()


def profile(plan: Plan, progress: Progress) -> ProfileReport:
    """Measure ``plan``. Ctrl-C ends it with what there is; a configuration that fails does not keep the others back.

    Raises:
        MpsprobeError: a workload cannot be built as it was asked for.
        KeyboardInterrupt: nothing had been measured yet.
    """
    cells: list[ProfileCell] = []
    infos: list[WorkloadInfo] = []
    complete = True
    for configuration in plan.configurations:
        try:
            cell, info, interrupted = _measure(plan, configuration, progress)
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
    if not infos:
        first = plan.configurations[0]
        raise WorkloadError(
            f"'{first.workload.name}' does not fit into the memory of {first.device.name}",
            "Choose a smaller --batch-size, --seq-len or --dtype.",
        )
    devices = {one.device.name: one.device for one in plan.configurations}
    return ProfileReport(
        workloads=_common(infos),
        environment=collect_environment(),
        devices=[device.describe() for device in devices.values()],
        plan=plan.asked,
        cells=cells,
        complete=complete,
        notes=list(plan.notes),
    )


def _measure(
    plan: Plan, configuration: Configuration, progress: Progress
) -> tuple[ProfileCell, WorkloadInfo | None, bool]:
    device, options, workload = configuration.device, configuration.options, configuration.workload
    try:
        if configuration.runner is None:
            steps = device.open(workload, options, compiled=plan.asked.compile)
        else:
            steps = configuration.runner.open(workload, options, device, compiled=plan.asked.compile)
    except MpsprobeError:
        raise
    except Exception as error:
        if not device.is_out_of_memory(error):
            raise WorkloadError(
                f"'{workload.name}' cannot be built on {device.name}: {type(error).__name__}: {_first_line(error)}"
            ) from error
        failure = RunFailure(phase="build", error=type(error).__name__, message=OUT_OF_MEMORY)
        cell = ProfileCell.model_validate(
            {
                "workload": workload.name,
                "phase": options.phase,
                "device": device.name,
                "batch_size": options.batch_size,
                "seq_len": options.seq_len,
                "dtype": options.dtype,
                "autocast": options.autocast,
                "failure": failure,
            }
        )
        return cell, None, False
    try:
        measured = Session(device, plan.probes).measure(steps, plan.settings, progress)
        return _cell(device, steps.info, measured), steps.info, measured.interrupted
    finally:
        steps.close()


def _common(infos: list[WorkloadInfo]) -> list[WorkloadInfo]:
    """Each workload as it was built, once for each phase; sizes that differ between its cells are left to the cells."""
    found: dict[tuple[str, str], WorkloadInfo] = {}
    for info in infos:
        before = found.setdefault((info.name, info.phase), info)
        differing = [name for name in ("batch_size", "seq_len") if getattr(before, name) != getattr(info, name)]
        found[info.name, info.phase] = before.model_copy(update=dict.fromkeys(differing))
    return list(found.values())


def _cell(device: Device, info: WorkloadInfo, measured: Measured) -> ProfileCell:
    step = duration_statistics(measured.durations_ns)
    failure = None
    if measured.error is not None:
        text = OUT_OF_MEMORY if device.is_out_of_memory(measured.error) else _first_line(measured.error)
        failure = RunFailure(phase=measured.phase, error=type(measured.error).__name__, message=text)
    phases = {name: duration_statistics(durations) for name, durations in measured.phases_ns.items()}
    return ProfileCell(
        workload=info.name,
        phase=info.phase,
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
        phase_samples_ns=measured.phases_ns,
        throughput=throughput(info, step),
        unavailable=measured.unavailable,
        notes=measured.notes,
        failure=failure,
        **measured.found,
    )


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
