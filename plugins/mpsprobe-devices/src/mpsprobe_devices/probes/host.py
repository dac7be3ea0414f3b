"""How busy the host's processor was while steps ran: the processor time of the process, all of its threads together."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from mpsprobe.errors import MpsprobeError
from mpsprobe.protocols import Device, Probe, Steps
from mpsprobe.schemas import ProbeReading

Clock = Callable[[], int]


class HostProbe(Probe):
    """An interval is a step and what mpsprobe does around it.

    ``processor``: ns of processor time, user and system, of the whole process.
    """

    name = "host"
    disturbs = False

    def __init__(self, wall: Clock = time.perf_counter_ns, processor: Clock = time.process_time_ns) -> None:
        self._wall, self._processor = wall, processor

    def start(self, device: Device, steps: Steps) -> None:
        self._device = device.name
        self._wall_ns = self._processor_ns = self._intervals = self._lost = 0
        self._before = self._wall(), self._processor()

    def sample(self) -> None:
        wall, processor = self._wall() - self._before[0], self._processor() - self._before[1]
        if wall > 0 and processor >= 0:
            self._wall_ns += wall
            self._processor_ns += processor
            self._intervals += 1
        else:
            self._lost += 1
        self._before = self._wall(), self._processor()

    def stop(self) -> Mapping[str, Any]:
        """``cpu_ns_per_step``, and how many cores that kept busy."""
        if not self._intervals:
            raise MpsprobeError("no step came to its end, or a clock went back during each")
        caveats = []
        if self._lost:
            caveats.append(f"a clock went back during {self._lost} of the steps: they are left out")
        if self._device == "cuda":
            caveats.append("waiting for the GPU keeps a core busy: CUDA spins")
        values: dict[str, float | str] = {
            "cpu_ns_per_step": self._processor_ns / self._intervals,
            "cores_busy": self._processor_ns / self._wall_ns,
            "steps": float(self._intervals),
        }
        return {"readings": [ProbeReading(probe=self.name, values=values, caveats=caveats)]}
