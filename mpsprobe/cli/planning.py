"""What ``mpsprobe profile`` was asked for, as a plan: devices, probes, runner, and every configuration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from mpsprobe.declarations import PHASES
from mpsprobe.errors import MissingPackage, UnknownName, UsageError
from mpsprobe.protocols import RunOptions

if TYPE_CHECKING:
    from mpsprobe.engine.profiling import Configuration, Plan
    from mpsprobe.protocols import Device, Probe, Runner, Workload
    from mpsprobe.registry import Registry

AUTO, BOTH, ALL, NONE, PLAIN = "auto", "both", "all", "none", "plain"
Sizes = tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Wishes:
    """The flags of ``mpsprobe profile`` that say what to measure. Sizes: see ``RunOptions``."""

    workloads: Sequence[str]
    device: str = AUTO
    baseline: str | None = None
    phase: str = "inference"
    dtype: str = "float32"
    autocast: str | None = None
    batch_sizes: Sizes = None
    seq_lens: Sizes = None
    steps: int = 20
    warmup: int | None = None
    grad_accum: int = 1
    compiled: bool = False
    runner: str = PLAIN
    probes: Sequence[str] | None = None
    processes: int = 1
    weights: bool = False
    trust_remote_code: bool = False

    @property
    def phases(self) -> tuple[str, ...]:
        """``inference``, ``training``, or one after the other."""
        return PHASES if self.phase == BOTH else (self.phase,)


def make_plan(registry: Registry, wishes: Wishes) -> Plan:
    """Everything that ``wishes`` names, found and ready.

    Raises:
        UsageError: names or flags that do not go together.
        MpsprobeError: something of it is not installed, or not usable here.
    """
    from mpsprobe.engine.profiling import Plan
    from mpsprobe.engine.session import Settings
    from mpsprobe.schemas.profile import ProfilePlan

    if "training" not in wishes.phases and wishes.grad_accum != 1:
        raise UsageError("--grad-accum makes sense with --phase training only")
    devices = [choose_device(registry, wishes.device)]
    if wishes.baseline is not None:
        devices.append(choose_device(registry, wishes.baseline))
        if devices[0].name == devices[1].name:
            raise UsageError(f"--baseline {wishes.baseline} is the device that is measured anyway", "Name another one.")
    runner = choose_runner(registry, wishes.runner, wishes.phases, devices)
    probes = choose_probes(registry, wishes.probes)
    workloads = [registry.workload(name) for name in dict.fromkeys(wishes.workloads)]
    asked = ProfilePlan(
        workloads=[one.name for one in workloads],
        phases=list(wishes.phases),
        devices=[device.name for device in devices],
        batch_sizes=list(wishes.batch_sizes or (None,)),
        seq_lens=list(wishes.seq_lens or (None,)),
        steps=wishes.steps,
        warmup=wishes.warmup,
        processes=wishes.processes,
        compile=wishes.compiled,
        runner=wishes.runner,
        baseline=wishes.baseline,
        probes=[probe.name for probe in probes],
    )
    return Plan(
        configurations=list(_configurations(wishes, workloads, devices, runner)),
        asked=asked,
        settings=Settings(steps=wishes.steps, warmup=wishes.warmup),
        probes=probes,
    )


def _configurations(
    wishes: Wishes, workloads: Sequence[Workload], devices: Sequence[Device], runner: Runner | None
) -> Iterator[Configuration]:
    """In the order of measurement: sizes grow within a device, phase and workload."""
    from mpsprobe.engine.profiling import Configuration

    each = product(workloads, wishes.phases, devices, wishes.seq_lens or (None,), wishes.batch_sizes or (None,))
    for workload, phase, device, seq_len, batch_size in each:
        options = RunOptions(
            phase=phase,
            dtype=wishes.dtype,
            autocast=wishes.autocast,
            batch_size=batch_size,
            seq_len=seq_len,
            grad_accum=wishes.grad_accum if phase == "training" else 1,
            weights=wishes.weights,
            trust_remote_code=wishes.trust_remote_code,
        )
        yield Configuration(workload, options, device, runner)


def choose_device(registry: Registry, name: str) -> Device:
    """The device called ``name``; for ``auto`` the first one that is there.

    Raises:
        UsageError: it is not there; says why, and which are.
        MissingPackage: no plugin with devices is installed.
    """
    declared = registry.devices()
    if not declared:
        raise MissingPackage("a device to run on", "mpsprobe-devices")
    if name != AUTO and name not in declared:
        raise UnknownName("device", name, [*declared, AUTO], f"There are: {', '.join(declared)}.")
    reasons = {}
    for candidate in declared if name == AUTO else [name]:
        device = registry.device(candidate)
        reason = device.unavailable()
        if reason is None:
            return device
        reasons[candidate] = reason
    usable = [other for other in declared if other not in reasons and registry.device(other).unavailable() is None]
    hint = f"There is: {', '.join(usable)}." if usable else None
    raise UsageError("; ".join(f"{one} cannot be used here: {reason}" for one, reason in reasons.items()), hint)


def choose_runner(registry: Registry, name: str, phases: Sequence[str], devices: Sequence[Device]) -> Runner | None:
    """The runner called ``name``; ``None`` for plain steps.

    Raises:
        UsageError: it does not run one of the phases, or not on one of the devices.
    """
    if name == PLAIN:
        return None
    declared = registry.runners()
    if name not in declared:
        if not declared:
            raise MissingPackage(f"the runner '{name}'", "mpsprobe-hf")
        raise UnknownName("runner", name, [*declared, PLAIN], f"There are: {PLAIN}, {', '.join(declared)}.")
    wrong = [phase for phase in phases if phase not in declared[name].phases]
    if wrong:
        raise UsageError(f"--runner {name} does not run {wrong[0]}", f"Say --phase {declared[name].phases[0]}.")
    runner = registry.runner(name)
    for device in devices:
        reason = runner.unavailable(device)
        if reason is not None:
            raise UsageError(f"--runner {name} cannot be used on {device.name} here: {reason}")
    return runner


def choose_probes(registry: Registry, names: Sequence[str] | None) -> list[Probe]:
    """The probes called ``names``; ``all``, ``none``, and for ``None`` those that run unasked.

    Raises:
        UnknownName: there is no such probe.
    """
    declared = registry.probes()
    if names is None:
        wanted = [name for name, one in declared.items() if one.default]
    elif list(names) in ([ALL], [NONE]):
        wanted = list(declared) if names[0] == ALL else []
    else:
        wanted = list(dict.fromkeys(names))
    for name in wanted:
        if name not in declared:
            shown = ", ".join([*declared, ALL, NONE])
            raise UnknownName("probe", name, [*declared, ALL, NONE], f"There are: {shown}.")
    return [registry.probe(name) for name in wanted]
