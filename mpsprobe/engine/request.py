"""What a profile was asked for, and the runs that follow from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from mpsprobe.protocols import Device, Probe, Runner, RunOptions, Workload


@dataclass(frozen=True, slots=True)
class ProfileRequest:
    """What the user asked for, in names and numbers: nothing is looked up yet, and it can go to another process.

    Attributes:
        workloads: names, as they were typed.
        preset: a name or a TOML file that names the workloads instead.
        device: a name, or ``auto`` for the best.
        baseline: another device to measure on; ``None`` for the preset's.
        phase: ``inference``, ``training`` or ``both``; ``None`` for the preset's.
        batch_sizes: samples in a step; ``None`` for the preset's or the workload's own.
        seq_lens: tokens (frames, …) in a sample; likewise.
        options: what all runs share; its phase and sizes are not looked at.
        compiled: run the model through ``torch.compile``.
        runner: whose training loop; ``plain`` for mpsprobe's own.
        probes: names, ``all`` or ``none``; ``None`` for those that run unasked.
        steps: timed ones, in each process.
        warmup: steps before them; ``None`` goes on until they are stable.
        clock: ``device`` times steps by the device's own clock, where it has one that can be trusted.
        processes: fresh ones, one after the other.
        fallbacks: predict which operators fall back on MPS.
    """

    workloads: tuple[str, ...] = ()
    preset: str | None = None
    device: str = "auto"
    baseline: str | None = None
    phase: str | None = None
    batch_sizes: tuple[int, ...] | None = None
    seq_lens: tuple[int, ...] | None = None
    options: RunOptions = field(default_factory=RunOptions)
    compiled: bool = False
    runner: str = "plain"
    probes: tuple[str, ...] | None = None
    steps: int = 20
    warmup: int | None = None
    clock: Literal["host", "device"] = "host"
    processes: int = 1
    fallbacks: bool = True


@dataclass(frozen=True, slots=True)
class Run:
    """One thing to measure. ``runner`` ``None`` steps the workload plainly."""

    workload: Workload
    options: RunOptions
    device: Device
    runner: Runner | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """A request with everything that it names.

    Attributes:
        runs: in the order in which they are measured; the device of the first is the one that was asked for.
        notes: what a reader of the report should know of the plan.
    """

    request: ProfileRequest
    runs: Sequence[Run]
    probes: Sequence[Probe] = ()
    notes: Sequence[str] = ()
