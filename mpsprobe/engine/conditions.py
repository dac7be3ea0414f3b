"""What differs about two runs themselves: a comparison across machines or releases says so before anything else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mpsprobe.schemas.comparison import ChangedCondition, ComparedSide
from mpsprobe.schemas.coverage import CoverageReport, MatrixReport
from mpsprobe.schemas.profile import DeviceInfo, ProfileCell, ProfileReport
from mpsprobe.schemas.run import Environment, WorkloadInfo

UNKNOWN = "not known"
_ENVIRONMENT = (
    "platform", "torch", "torch_build", "transformers", "torchvision", "tensorflow", "keras", "python", "mpsprobe",
)  # fmt: skip
_PLAN = ("runner", "compile", "steps", "warmup", "processes")
_WORKLOAD = ("architecture", "parameters", "optimizer", "lora_rank", "grad_accum", "weights")
_TARGET = ("backend", "torch", "release", "macos")
Pair = tuple[str, object, object]


def side(report: ProfileReport | CoverageReport | MatrixReport, source: str) -> ComparedSide:
    environment = report.environment
    if isinstance(report, ProfileReport):
        names = list(dict.fromkeys(workload.name for workload in report.workloads))
        torch, devices = environment.torch if environment is not None else None, report.devices
    else:
        names, devices = [report.workload.name], []
        torch = report.target.torch if isinstance(report, CoverageReport) else None
    complete = not isinstance(report, ProfileReport) or report.complete
    return ComparedSide(
        source=source, workloads=names, environment=environment, devices=devices, torch=torch, complete=complete
    )


def profile_conditions(
    old: ProfileReport, new: ProfileReport, paired: Sequence[tuple[ProfileCell, ProfileCell]]
) -> list[ChangedCondition]:
    pairs: list[Pair] = []
    for kind in dict.fromkeys(cell.device for _, cell in paired):
        nothing = DeviceInfo(type=kind, name="")
        older, other = (next((info for info in part.devices if info.type == kind), nothing) for part in (old, new))
        pairs.append((f"device {kind}", older.name or UNKNOWN, other.name or UNKNOWN))
        names = dict.fromkeys([*older.capabilities, *other.capabilities])
        pairs += [(f"{kind} {name}", older.capabilities.get(name), other.capabilities.get(name)) for name in names]
    pairs += _environments(old.environment, new.environment)
    pairs += [(name, getattr(old.plan, name), getattr(new.plan, name)) for name in _PLAN]
    for before, after in paired:
        info, later = old.workload_of(before), new.workload_of(after)
        pairs += [(f"{after.workload}: {name}", getattr(info, name), getattr(later, name)) for name in _WORKLOAD]
        if before.operators and after.operators:
            old_timers, new_timers = ({operator.source for operator in cell.operators} for cell in (before, after))
            pairs.append(("what timed the operators", ", ".join(sorted(old_timers)), ", ".join(sorted(new_timers))))
    if old.predicted_with and new.predicted_with:
        pairs += [("kernel table of predicted fallbacks", old.predicted_with.wheel, new.predicted_with.wheel)]
    pairs += [("measured to its end", old.complete, new.complete)]
    return _changed(pairs)


def coverage_conditions(
    old: CoverageReport | MatrixReport, new: CoverageReport | MatrixReport
) -> list[ChangedCondition]:
    pairs: list[Pair] = [
        (f"workload: {name}", getattr(old.workload, name), getattr(new.workload, name))
        for name in WorkloadInfo.model_fields
        if name != "notes"
    ]
    if isinstance(old, CoverageReport) and isinstance(new, CoverageReport):
        target, later = old.target, new.target
        pairs += [(f"judged: {name}", getattr(target, name, None), getattr(later, name, None)) for name in _TARGET]
    pairs += [("method", old.method, new.method), *_environments(old.environment, new.environment)]
    return _changed(pairs)


def _environments(old: Environment | None, new: Environment | None) -> list[Pair]:
    if old is None or new is None:
        return [("environment", UNKNOWN if old is None else "known", UNKNOWN if new is None else "known")]
    return [(name.replace("_", " "), getattr(old, name), getattr(new, name)) for name in _ENVIRONMENT]


def _changed(pairs: Iterable[Pair]) -> list[ChangedCondition]:
    changed = [ChangedCondition(what=what, old=_words(old), new=_words(new)) for what, old, new in pairs if old != new]
    return list({(condition.what, condition.old, condition.new): condition for condition in changed}.values())


def _words(value: object) -> str:
    return UNKNOWN if value is None else {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
