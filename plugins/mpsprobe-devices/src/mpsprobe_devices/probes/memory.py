"""Memory over the timed steps: the allocator's own peaks where it keeps them, samples where not, and the process.

Samples are taken between steps, where no clock runs, and by a thread while steps run. The thread measures what a sample
costs it and waits a thousand times as long until the next one, so that it stays out of the steps' times.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeGuard, runtime_checkable

from mpsprobe.protocols import Device, Probe, Steps
from mpsprobe.schemas import MemoryCurve, MemoryUse
from mpsprobe.suggestions import in_short
from mpsprobe_devices.machine import Memory, footprint_reader

SHORTEST_WAIT_S = 0.01
COST_SHARE = 0.001  # of the time, at most, goes into sampling
MOST_POINTS = 2000  # of the curve; then every second one goes, and the thread waits twice as long
ALLOCATED, RESERVED, PROCESS = "allocated_bytes", "reserved_bytes", "process_bytes"


@runtime_checkable
class CountsMemory(Protocol):
    """A device whose allocator counts."""

    def memory(self) -> Memory: ...
    def reset_peak(self) -> bool: ...  # False where the allocator keeps no peaks
    def peak(self) -> Memory: ...  # since then


class MemoryProbe(Probe):
    """``threaded``: take samples while steps run, too."""

    name = "memory"
    disturbs = False

    def __init__(
        self,
        process: Callable[[], int] | None = None,
        clock: Callable[[], int] = time.perf_counter_ns,
        *,
        threaded: bool = True,
    ) -> None:
        self._process = process if process is not None else footprint_reader()
        self._clock = clock
        self._threaded = threaded
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()

    def start(self, device: Device, steps: Steps) -> None:
        self._device = device if isinstance(device, CountsMemory) else None
        self._columns: dict[str, list[int]] = {ALLOCATED: [], RESERVED: [], PROCESS: []}
        self._times: list[int] = []
        self._largest: dict[str, int] = {}
        self._last: dict[str, int] = {}
        self._caveats: list[str] = []
        self._slower = 1
        self._keeps_peaks = self._device is not None and self._device.reset_peak()
        self._started = self._clock()
        self.sample()
        self._ended.clear()
        if self._threaded:
            self._thread = threading.Thread(target=self._go_on, name="mpsprobe-memory", daemon=True)
            self._thread.start()

    def stop(self) -> Mapping[str, Any]:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self.sample()
        peak, source = self._peak()
        return {
            "memory": MemoryUse(
                source=source,
                allocated_bytes=self._last.get(ALLOCATED),
                reserved_bytes=self._last.get(RESERVED),
                peak_allocated_bytes=peak.allocated,
                peak_reserved_bytes=peak.reserved,
                peak_process_bytes=self._largest.get(PROCESS),
                curve=MemoryCurve(times_ns=self._times, **self._columns),
                caveats=self._caveats,
            )
        }

    def _peak(self) -> tuple[Memory, Any]:
        sampled = Memory(self._largest.get(ALLOCATED), self._largest.get(RESERVED))
        if not self._keeps_peaks or self._device is None:
            return sampled, "sampled"
        try:
            peak = self._device.peak()
            if _is_size(peak.allocated):
                return Memory(
                    peak.allocated, peak.reserved if _is_size(peak.reserved) else sampled.reserved
                ), "allocator"
            why = f"gave {peak.allocated!r}"
        except Exception as error:  # noqa: BLE001 - whatever the allocator raises, there are the samples
            why = f"raised {in_short(error)}"
        self._caveats.append(f"the allocator, asked for its peak, {why}: the largest sample is shown instead")
        return sampled, "sampled"

    def _go_on(self) -> None:
        wait = SHORTEST_WAIT_S
        while not self._ended.wait(wait):
            before = time.thread_time_ns()
            self.sample()
            cost = (time.thread_time_ns() - before) / 1e9
            wait = max(SHORTEST_WAIT_S * self._slower, cost / COST_SHARE)

    def sample(self) -> None:
        with self._lock:
            sizes = self._read()
            moment = self._clock() - self._started
            if self._times and moment < self._times[-1]:  # the clock went back: no place on the curve
                return
            for name, column in self._columns.items():
                column.append(sizes[name])
            self._times.append(moment)
            if len(self._times) >= MOST_POINTS:
                self._slower *= 2
                self._times = self._times[::2]
                self._columns = {name: column[::2] for name, column in self._columns.items()}

    def _read(self) -> dict[str, int]:
        """The value of each column now. A source that fails is not asked again, and its column goes."""
        values: dict[str, int | None] = {}
        try:
            values[PROCESS] = self._process() if PROCESS in self._columns else None
        except Exception as error:  # noqa: BLE001 - whatever the system's function raises
            self._give_up(PROCESS, f"raised {in_short(error)}")
        if self._device is not None and (ALLOCATED in self._columns or RESERVED in self._columns):
            try:
                memory = self._device.memory()
                values |= {ALLOCATED: memory.allocated, RESERVED: memory.reserved}
            except Exception as error:  # noqa: BLE001 - likewise
                self._give_up(ALLOCATED, f"raised {in_short(error)}")
                self._columns.pop(RESERVED, None)
        sizes = {}
        for name in list(self._columns):
            value = values.get(name)
            if _is_size(value):
                sizes[name] = value
                self._largest[name] = max(value, self._largest.get(name, 0))
            elif value is not None:
                self._give_up(name, f"was {value!r}")
            elif self._times:
                self._give_up(name, "stopped")
            else:
                del self._columns[name]
        self._last |= sizes
        return sizes

    def _give_up(self, name: str, why: str) -> None:
        if self._columns.pop(name, None) is not None:
            what = name.removesuffix("_bytes")
            self._caveats.append(f"{what} {why} after {len(self._times)} samples: its curve is left out")


def _is_size(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and value >= 0
