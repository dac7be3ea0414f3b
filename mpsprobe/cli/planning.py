"""From what ``mpsprobe profile`` was asked for to a plan: devices, probes, runner, and every run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

from mpsprobe.declarations import PHASES
from mpsprobe.engine.request import Plan, ProfileRequest, Run
from mpsprobe.errors import UsageError
from mpsprobe.options import check_training
from mpsprobe.plugins.registry import ALL, AUTO, NONE, PLAIN, Registry
from mpsprobe.protocols import Device, Probe, Runner, Workload
from mpsprobe.suggestions import printable

if TYPE_CHECKING:
    from mpsprobe.presets import Preset

BOTH, TORCH = "both", "torch"


def make_plan(registry: Registry, request: ProfileRequest, given: Workload | None = None) -> Plan:
    """Everything that ``request`` names, found and ready. The baseline follows upon what is compared with it.

    ``given``: the workload that the one name in the request stands for, where the registry does not know it.
    """
    preset = _preset(request)
    phases = PHASES if request.phase == BOTH else [request.phase] if request.phase is not None else preset.phases
    check_training(request.options, "training" in phases)
    notes = [f"{preset.summary} ({preset.source})"] if preset.source and preset.summary else []
    notes += preset.notes
    workloads = {workload.name: given or registry.workload(workload.name) for workload in preset.workloads}
    framework = _framework(workloads.values(), registry)
    devices = [choose_device(registry, request.device, framework)]
    baseline = request.baseline or preset.baseline
    if baseline is not None and baseline != devices[0].name:
        devices.append(choose_device(registry, baseline, framework))
    elif request.baseline is not None:
        raise UsageError(f"--baseline {baseline} is the device that is measured anyway", "Name another one.")
    elif baseline is not None:  # the preset's comparison cannot be made, its workloads can
        notes.append(f"there is no device to compare with the baseline {baseline}: it was measured alone")
    if framework != TORCH and request.runner != PLAIN:
        raise UsageError(f"--runner {request.runner} runs workloads of torch only", "Leave --runner out.")
    runner = choose_runner(registry, request.runner, phases, devices)
    probes = choose_probes(registry, request.probes)
    runs = []
    for workload in preset.workloads:
        seq_lens, batch_sizes = request.seq_lens or (workload.seq_len,), request.batch_sizes or (workload.batch_size,)
        for phase, seq_len, batch_size, device in product(phases, seq_lens, batch_sizes, devices):
            options = replace(request.options, phase=phase, batch_size=batch_size, seq_len=seq_len)
            if phase != "training":
                options = replace(options, grad_accum=1, lora=False)
            runs.append(Run(workloads[workload.name], options, device, runner, given is None))
    return Plan(request, runs, probes, notes)


def _preset(request: ProfileRequest) -> Preset:
    """The preset that was asked for, or the workloads that were named as one that says nothing else."""
    from mpsprobe.presets import Preset, PresetWorkload, load_preset

    if request.preset is None:
        if not request.workloads:
            raise UsageError("what should be run?", "Name a workload ('mpsprobe workloads list'), or say --preset.")
        named = [PresetWorkload.model_construct(name=name) for name in dict.fromkeys(request.workloads)]
        return Preset.model_construct(workloads=named)
    if request.workloads:
        raise UsageError("--preset names the workloads itself", "Leave out the workload, or --preset.")
    return load_preset(request.preset)


def _framework(workloads: Iterable[Workload], registry: Registry) -> str:
    """Whose devices run them: those of what they are written in, where that has devices of its own."""
    names = {workload.framework: workload.name for workload in workloads}
    if len(names) > 1:
        some = ", ".join(f"{printable(name)} ({framework})" for framework, name in names.items())
        raise UsageError(f"the workloads are of several frameworks: {some}", "Measure those of each by themselves.")
    framework = next(iter(names), TORCH)
    return framework if registry.devices(framework) else TORCH


def choose_device(registry: Registry, name: str, framework: str) -> Device:
    """The device called ``name`` for workloads of a framework; for ``auto`` the first one that is there."""
    declared = list(registry.devices(framework))
    problems = []
    candidates = declared if name == AUTO else [name]
    for candidate in candidates:
        device = registry.device(candidate, framework)
        if (reason := device.unavailable()) is None:
            return device
        problems.append(f"{candidate} cannot be used here: {reason}")
    if not problems:
        raise UsageError("there is no device to run on", registry.hint("device"))
    others = (other for other in declared if other not in candidates)
    usable = [other for other in others if registry.device(other, framework).unavailable() is None]
    raise UsageError("; ".join(problems), f"There is: {', '.join(usable)}." if usable else None)


def choose_runner(registry: Registry, name: str, phases: Sequence[str], devices: Sequence[Device]) -> Runner | None:
    """The runner called ``name``; ``None`` for plain steps."""
    if name == PLAIN:
        return None
    runner: Runner = registry.made("runner", name)
    able = registry.declared("runner")[name].phases
    if wrong := [phase for phase in phases if phase not in able]:
        raise UsageError(f"--runner {name} does not run {wrong[0]}", f"Say --phase {able[0]}.")
    for device in devices:
        if (reason := runner.unavailable(device)) is not None:
            raise UsageError(f"--runner {name} cannot be used on {device.name} here: {reason}")
    return runner


def choose_probes(registry: Registry, names: Sequence[str] | None) -> list[Probe]:
    """The probes called ``names``; ``all``, ``none``, and for ``None`` those that run unasked."""
    declared = registry.declared("probe")
    if names is None:
        names = [name for name, probe in declared.items() if probe.default]
    elif list(names) in ([ALL], [NONE]):
        names = list(declared) if names[0] == ALL else []
    return [registry.made("probe", name) for name in dict.fromkeys(names)]
