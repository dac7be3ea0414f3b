"""The probe ``operators``: times of operators and modules, a trace, and observed fallbacks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mpsprobe.errors import MpsprobeError
from mpsprobe.protocols import Device, Steps
from mpsprobe.schemas import ProbeReading
from mpsprobe_devices.operators import kineto
from mpsprobe_devices.operators.kineto import KinetoRecorder
from mpsprobe_devices.operators.slow import SlowRecorder
from mpsprobe_devices.traces.timeline import make_trace
from mpsprobe_devices.traces.totals import fallback_costs, operator_times

STEPS = 3  # of each kind


class OperatorsProbe:
    """Satisfies ``mpsprobe.protocols.Probe``.

    Under torch.profiler there are two kinds of steps: ``STEPS`` with shapes and marks, which give modules and the
    trace, then ``STEPS`` without, which give the times of operators. The profiler's own first start is in the former.
    ``slow``: synchronise after each operator instead; ``None`` does so where torch.profiler cannot see the device,
    which is the case for MPS in every release.
    """

    name = "operators"
    disturbs = True

    def __init__(self, slow: bool | None = None) -> None:
        self._slow = slow
        self._recorders: list[KinetoRecorder | SlowRecorder] = []  # the last one is running
        self._device: Device | None = None
        self._model: Any = None
        self._taken = 0
        self.steps = STEPS

    def unavailable(self, device: Device) -> str | None:
        if getattr(device, "framework", "torch") != "torch":
            return "it sees operators of torch alone: mpsprobe import reads what another framework's profiler wrote"
        if not self._is_slow(device) and kineto.running():
            return f"{kineto.RUNNING}: stop it first"
        return None

    def start(self, device: Device, steps: Steps) -> None:
        self._device, self._model, self._taken = device, getattr(steps, "model", None), 0
        if self._is_slow(device):
            self.steps = STEPS
            self._begin(SlowRecorder(device, self._model, self._allocated))
        else:
            self.steps = 2 * STEPS
            self._begin(KinetoRecorder(device.name, self._model, self._allocated))

    def sample(self) -> None:
        if not self._recorders or self._device is None:
            return
        self._recorders[-1].sample()
        self._taken += 1
        if self._taken == STEPS < self.steps:
            self._recorders[-1].stop()
            self._begin(KinetoRecorder(self._device.name, self._model, described=False))

    def stop(self) -> Mapping[str, Any]:
        """``operators``, ``modules``, ``fallbacks``, ``trace`` and ``profiled_steps``; nothing without a whole step."""
        recorders, self._recorders = self._recorders, []
        self._model = None
        if not recorders or self._device is None:
            return {}
        recorders[-1].stop()
        recording, *others = [recorder.read() for recorder in recorders]
        if not recording.complete_steps:
            return {}
        # Steps that came to an end before there were as many of both kinds: the times are those of the first kind.
        timed = next((rival for rival in others if rival.complete_steps == recording.complete_steps), recording)
        columns, names = recording.columns(self._device.name)
        described = recording.totals(columns)
        totals = described if timed is recording else timed.totals()
        operators = operator_times(totals, timed.source, timed.timed_device, described)
        if not operators:
            raise MpsprobeError("the steps call no operator of torch")
        trace = make_trace(columns, names)
        values: dict[str, float | str] = {"source": recording.source, "events": float(len(columns))}
        return {
            "profiled_steps": recording.complete_steps,
            "operators": operators,
            "modules": recording.module_times(described),
            "fallbacks": fallback_costs(described, recording.complete_steps),
            "trace": trace,
            "readings": [ProbeReading(probe=self.name, values=values, caveats=recording.caveats)],
        }

    def _begin(self, recorder: KinetoRecorder | SlowRecorder) -> None:
        self._recorders.append(recorder)  # before it starts: one that cannot is stopped too
        recorder.start()

    def _is_slow(self, device: Device) -> bool:
        return kineto.activity_of(device.name) is None if self._slow is None else self._slow

    def _allocated(self) -> int | None:
        memory = getattr(self._device, "memory", None)
        return memory().allocated if memory is not None else None
