"""What this plugin offers. Thin: it does not import torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mpsprobe import hookimpl
from mpsprobe.declarations import CommandDeclaration, DeviceDeclaration, DoctorFinding, ProbeDeclaration


@hookimpl
def mpsprobe_commands() -> list[CommandDeclaration]:
    target = "mpsprobe_devices.traces.command:import_trace"
    return [CommandDeclaration("import", target, "Make a report of a trace that torch.profiler wrote, on any device.")]


@hookimpl
def mpsprobe_devices() -> list[DeviceDeclaration]:
    """The best first: ``--device auto`` takes the first one that is there."""
    return [
        DeviceDeclaration("mps", "mpsprobe_devices.mps:MpsDevice", "The GPU of Apple silicon, through Metal."),
        DeviceDeclaration("cuda", "mpsprobe_devices.cuda:CudaDevice", "An NVIDIA GPU (or an AMD one with ROCm)."),
        DeviceDeclaration("cpu", "mpsprobe_devices.cpu:CpuDevice", "The processor."),
    ]


@hookimpl
def mpsprobe_probes() -> list[ProbeDeclaration]:
    """In the order in which they measure; those that run unasked cost the steps nothing that can be measured."""
    return [
        ProbeDeclaration("memory", "mpsprobe_devices.probes.memory:MemoryProbe", "Memory and its peaks, over time."),
        ProbeDeclaration("host", "mpsprobe_devices.probes.host:HostProbe", "How busy the host's processor is."),
        ProbeDeclaration(
            "thermal",
            "mpsprobe_devices.probes.thermal:ThermalProbe",
            "Heat, power source and clocks, before and after.",
        ),
        ProbeDeclaration(
            "energy",
            "mpsprobe_devices.probes.energy:EnergyProbe",
            "Energy by zeus, in steps of its own.",
            default=False,
        ),
        ProbeDeclaration(
            "operators",
            "mpsprobe_devices.operators.probe:OperatorsProbe",
            "Operators, modules, fallbacks and a trace, in steps of their own.",
            default=False,
        ),
    ]


@hookimpl
def mpsprobe_doctor(environment: Mapping[str, Any]) -> list[DoctorFinding]:
    """The GPU, and the variables that PyTorch reads."""
    from mpsprobe_devices.doctor import findings

    return findings(environment)
