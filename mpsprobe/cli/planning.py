"""What ``mpsprobe profile`` was asked for, as a plan: devices, probes, runner, and every configuration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Literal

from mpsprobe.declarations import PHASES
from mpsprobe.errors import MissingPackage, UnknownName, UsageError
from mpsprobe.protocols import RunOptions

if TYPE_CHECKING:
    from mpsprobe.engine.profiling import Plan
    from mpsprobe.plugins.registry import Registry
    from mpsprobe.protocols import Device, Probe, Runner

AUTO, BOTH, ALL, NONE, PLAIN = "auto", "both", "all", "none", "plain"
Sizes = tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Wishes:
    """The flags of ``mpsprobe profile`` that say what to measure. Sizes: see ``RunOptions``."""

    workloads: Sequence[str] = ()
    preset: str | None = None
    device: str = AUTO
    baseline: str | None = None
    phase: str | None = None
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

    clock: Literal["host", "device"] = "host"
    fallbacks: bool = True


@dataclass(frozen=True, slots=True)
class _Asked:
    """Wishes and preset as one."""

    runs: Sequence[tuple[str, Sizes, Sizes]]
    phases: Sequence[str]
    baseline: str | None
    notes: Sequence[str] = ()


def make_plan(registry: Registry, wishes: Wishes) -> Plan:
    """Everything that ``wishes`` names, found and ready.

    Raises:
        UsageError: names or flags that do not go together.
        MpsprobeError: something of it is not installed, or not usable here.
    """
    from mpsprobe.engine.profiling import Configuration, Plan
    from mpsprobe.engine.session import Settings
    from mpsprobe.schemas.profile import ProfilePlan

    asked = _with_preset(wishes)
    if "training" not in asked.phases and wishes.grad_accum != 1:
        raise UsageError("--grad-accum makes sense with --phase training only")
    devices = [choose_device(registry, wishes.device)]
    notes = list(asked.notes)
    if asked.baseline is not None:
        if devices[0].name != asked.baseline:
            devices.append(choose_device(registry, asked.baseline))
        elif wishes.baseline is None:  # the preset's: its comparison cannot be made, its workloads can
            notes.append(f"there is no device to compare with the baseline {asked.baseline}: it was measured alone")
        else:
            raise UsageError(f"--baseline {asked.baseline} is the device that is measured anyway", "Name another one.")
    runner = choose_runner(registry, wishes.runner, asked.phases, devices)
    probes = choose_probes(registry, wishes.probes)
    workloads = {name: registry.workload(name) for name, _, _ in asked.runs}
    configurations = [
        Configuration(workloads[name], options, device, runner)
        for name, device, options in _options(wishes, asked, devices)
    ]
    return Plan(
        configurations=configurations,
        asked=ProfilePlan(
            workloads=[one.name for one in workloads.values()],
            phases=list(asked.phases),
            preset=wishes.preset,
            devices=[device.name for device in devices],
            batch_sizes=list(dict.fromkeys(one.options.batch_size for one in configurations)),
            seq_lens=list(dict.fromkeys(one.options.seq_len for one in configurations)),
            steps=wishes.steps,
            warmup=wishes.warmup,
            processes=wishes.processes,
            clock=wishes.clock,
            compile=wishes.compiled,
            runner=wishes.runner,
            baseline=asked.baseline if len(devices) > 1 else None,
            probes=[probe.name for probe in probes],
        ),
        settings=Settings(steps=wishes.steps, warmup=wishes.warmup, clock=wishes.clock),
        probes=probes,
        notes=notes,
    )


def _with_preset(wishes: Wishes) -> _Asked:
    """What to run: the flags', or the preset's with the flags before it."""
    phases = () if wishes.phase is None else PHASES if wishes.phase == BOTH else (wishes.phase,)
    if wishes.preset is None:
        if not wishes.workloads:
            raise UsageError("what should be run?", "Say --workload NAME ('mpsprobe workloads list'), or --preset.")
        runs = [(name, wishes.batch_sizes, wishes.seq_lens) for name in dict.fromkeys(wishes.workloads)]
        return _Asked(runs, phases or (PHASES[0],), wishes.baseline)
    if wishes.workloads:
        raise UsageError("--preset names the workloads itself", "Leave out --workload, or --preset.")
    from mpsprobe.presets import load_preset

    preset = load_preset(wishes.preset)
    runs = [
        (
            one.name,
            wishes.batch_sizes or (None if one.batch_size is None else (one.batch_size,)),
            wishes.seq_lens or (None if one.seq_len is None else (one.seq_len,)),
        )
        for one in preset.workloads
    ]
    notes = [f"{preset.summary} ({preset.source})"] if preset.source and preset.summary else []
    return _Asked(runs, phases or tuple(preset.phases), wishes.baseline or preset.baseline, [*notes, *preset.notes])


def _options(wishes: Wishes, asked: _Asked, devices: Sequence[Device]) -> Iterator[tuple[str, Device, RunOptions]]:
    """In the order of measurement: sizes grow within a device, phase and workload."""
    for name, batch_sizes, seq_lens in asked.runs:
        for phase, device, seq_len, batch_size in product(
            asked.phases, devices, seq_lens or (None,), batch_sizes or (None,)
        ):
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
            yield name, device, options


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
