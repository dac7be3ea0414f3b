"""What a profile was asked for, and the runs that follow from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from mpsprobe.protocols import Device, Probe, Runner, RunOptions, Workload


@dataclass(frozen=True, slots=True)
class ProfileRequest:
    """What the user asked for, in names and numbers: nothing is looked up yet, and it can go to another process."""

    workloads: tuple[str, ...] = ()
    preset: str | None = None  # a name or a TOML file that names the workloads instead
    device: str = "auto"
    baseline: str | None = None  # another device to measure on; what is None is the preset's
    phase: str | None = None  # inference, training or both
    batch_sizes: tuple[int, ...] | None = None
    seq_lens: tuple[int, ...] | None = None
    options: RunOptions = field(default_factory=RunOptions)  # what all runs share: its phase and sizes are not read
    compiled: bool = False  # through torch.compile
    runner: str = "plain"  # whose training loop
    probes: tuple[str, ...] | None = None  # names, all or none; None for those that run unasked
    steps: int = 20  # timed ones, in each process
    warmup: int | None = None  # None goes on until they are stable
    clock: Literal["host", "device"] = "host"
    processes: int = 1
    fallbacks: bool = True  # predict which operators fall back on MPS


@dataclass(frozen=True, slots=True)
class Run:
    """One thing to measure."""

    workload: Workload
    options: RunOptions
    device: Device
    runner: Runner | None = None  # None steps the workload plainly
    named: bool = True  # the workload is what its name stands for, and no object that a program handed over


@dataclass(frozen=True, slots=True)
class Plan:
    """A request with everything that it names; the device of the first run is the one that was asked for."""

    request: ProfileRequest
    runs: Sequence[Run]
    probes: Sequence[Probe] = ()
    notes: Sequence[str] = ()  # what a reader of the report should know of the plan
