"""Energy of steps through zeus: Apple's, NVIDIA's and Intel's (RAPL) cumulative counters.

Read in zeus 0.16.0: ``ZeusMonitor`` counts between ``begin_window`` and ``end_window``; GPUs, processor packages and
their memory in J, the parts of an Apple chip in mJ (``soc_energy``, a dataclass whose fields end in ``_mj``). What a
machine has no counter for is ``None`` there, and is named here as not measured; it is never a zero.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
import platform
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from mpsprobe.errors import MpsprobeError, install_command
from mpsprobe.protocols import Device, Steps
from mpsprobe.schemas import ProbeReading
from mpsprobe.suggestions import first_line, in_short

WINDOW = "mpsprobe"
SHORTEST_NS = 3_000_000_000  # counters are refreshed every so often; windows of less than a second are not to be had
PARTS = ("cpu", "gpu", "dram", "ane")  # what a total is made of; the other fields are parts of these
EVERYONE = "the counters are the machine's: what other programs used is in them, and what an idle machine uses"
NOT_INSTALLED = f"it needs zeus: {install_command('mpsprobe-devices[energy]')}"


def make_monitor(gpus: list[int]) -> Any:
    """A ``zeus.monitor.ZeusMonitor`` of these GPUs, by torch's index, and of everything else that there is."""
    return importlib.import_module("zeus.monitor").ZeusMonitor(gpu_indices=gpus)


class EnergyProbe:
    """Satisfies ``mpsprobe.protocols.Probe``. ``make``: makes the monitor, from the GPUs to watch."""

    name = "energy"
    disturbs = True
    shortest_ns = SHORTEST_NS

    def __init__(self, make: Callable[[list[int]], Any] = make_monitor) -> None:
        self._make = make
        self._monitor: Any = None
        self._missing: list[str] = []

    def unavailable(self, device: Device) -> str | None:
        self._missing = []
        try:
            self._monitor = self._open(device)
        except ImportError as error:
            return NOT_INSTALLED if (error.name or "").partition(".")[0] == "zeus" else f"zeus: {first_line(error)}"
        except Exception as error:  # noqa: BLE001 - zeus asks drivers, which fail in their own ways
            return f"zeus cannot be started: {in_short(error)}"
        monitor = self._monitor
        if monitor.gpu_indices or monitor.cpu_indices or monitor.soc_is_present:
            return None
        hint = "zeus-apple-silicon is needed on a Mac" if platform.system() == "Darwin" else "RAPL may need root"
        return f"zeus finds no energy counter of {device.name} here ({hint})"

    def _open(self, device: Device) -> Any:
        index = getattr(device, "index", None)
        if device.name != "cuda" or index is None:
            return self._make([])
        try:
            return self._make([int(index())])
        except ImportError:
            raise
        except Exception as error:  # noqa: BLE001 - a GPU that cannot be asked does not keep the rest back
            self._missing.append(f"the GPU was not measured: {first_line(error)}")
            return self._make([])

    def start(self, device: Device, steps: Steps) -> None:
        info = steps.info
        self._samples = None if info.batch_size is None else info.batch_size * info.grad_accum
        self._steps = 0
        # restart: a window that an error left open is no obstacle. The session has synchronised the device.
        self._monitor.begin_window(WINDOW, sync_execution=False, restart=True)

    def sample(self) -> None:
        self._steps += 1

    def stop(self) -> Mapping[str, Any]:
        """Energy of each part that has a counter, for the window, a step and a sample, and its mean power."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # zeus warns of zeros, which are left out below
            window = self._monitor.end_window(WINDOW, sync_execution=False)
        if not self._steps:
            raise MpsprobeError("no step came to its end")
        seconds = float(window.time)
        if not (math.isfinite(seconds) and seconds > 0):
            raise MpsprobeError(f"the window took {seconds} s by zeus's clock")
        caveats = [EVERYONE, *self._missing]
        parts = _sound(_parts(window), caveats)
        if not parts:
            raise MpsprobeError("; ".join(caveats[1:]) or "no counter gave anything")
        total = [name for name in PARTS if name in parts]
        if total:
            parts["total"] = sum(parts[name] for name in total)
            caveats.append(f"total: {' + '.join(total)}")
        if seconds < 1:
            caveats.append(f"a window of {seconds:.2f} s: counters are too coarse for less than a second")
        values: dict[str, float | str] = {"window_ns": seconds * 1e9, "steps": float(self._steps)}
        for name, energy in parts.items():
            values[f"{name}_mj"] = energy
            values[f"{name}_mj_per_step"] = energy / self._steps
            if self._samples:
                values[f"{name}_mj_per_sample"] = energy / self._steps / self._samples
            values[f"{name}_mw"] = energy / seconds
        return {"readings": [ProbeReading(probe=self.name, values=values, caveats=caveats)]}


def _parts(window: Any) -> dict[str, float | None]:
    """mJ by part; ``None`` where there is no counter."""
    parts: dict[str, float | None] = {}
    for field in dataclasses.fields(window.soc_energy) if window.soc_energy is not None else ():
        if field.name.endswith("_mj"):
            value = getattr(window.soc_energy, field.name)
            # Cores and clusters come one by one.
            parts[field.name.removesuffix("_mj")] = sum(value) if isinstance(value, list) else value
    if "cpu_total" in parts:
        parts["cpu"] = parts.pop("cpu_total")
    joules = {"gpu": window.gpu_energy, "cpu": window.cpu_energy, "dram": window.dram_energy}
    for name, energies in joules.items():
        if energies:
            parts[name] = (parts.get(name) or 0) + sum(energies.values()) * 1000
        else:
            parts.setdefault(name, None)
    return parts


def _sound(parts: Mapping[str, float | None], caveats: list[str]) -> dict[str, float]:
    """The parts whose figure can be believed; of the others ``caveats`` says so."""
    good: dict[str, float] = {}
    missing, idle = [], []
    for name, value in parts.items():
        if value is None:
            missing.append(name)
        elif not math.isfinite(value) or value < 0:
            caveats.append(f"{name} is left out: its counter moved by {value:g} mJ")
        elif value == 0:
            idle.append(name)
        else:
            good[name] = float(value)
    if missing:
        caveats.append(f"not measured, because there is no counter: {', '.join(sorted(missing))}")
    if idle:
        caveats.append(f"left out, because its counter did not move (idle, or absent): {', '.join(sorted(idle))}")
    return good
