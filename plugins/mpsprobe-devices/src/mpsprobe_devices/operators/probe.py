"""The probe ``operators``: times of operators and modules, a trace, and observed fallbacks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mpsprobe.errors import MpsprobeError
from mpsprobe.schemas import ProbeReading
from mpsprobe_devices.operators import kineto
from mpsprobe_devices.operators.fallbacks import fallback_costs
from mpsprobe_devices.operators.kineto import KinetoRecorder
from mpsprobe_devices.operators.slow import SlowRecorder
from mpsprobe_devices.operators.timeline import make_trace
from mpsprobe_devices.operators.totals import module_times, operator_times

if TYPE_CHECKING:
    from mpsprobe.protocols import Device, Steps

STEPS = 3


class OperatorsProbe:
    """Satisfies ``mpsprobe.protocols.Probe``.

    Args:
        slow: synchronise after each operator instead of asking torch.profiler; ``None`` does so where torch.profiler
            cannot see the device, which is the case for MPS in every release.
    """

    name = "operators"
    disturbs = True
    steps = STEPS

    def __init__(self, slow: bool | None = None) -> None:
        self._slow = slow
        self._recorder: KinetoRecorder | SlowRecorder | None = None
        self._device: Device | None = None

    def unavailable(self, device: Device) -> str | None:
        """Where torch.profiler would be used and is running already."""
        if not self._is_slow(device) and kineto.running():
            return f"{kineto.RUNNING}: stop it first"
        return None

    def start(self, device: Device, steps: Steps) -> None:
        """Begin to record.

        Raises:
            RuntimeError: another profiler was started meanwhile.
        """
        self._device = device
        model = getattr(steps, "model", None)
        if self._is_slow(device):
            self._recorder = SlowRecorder(device, model, lambda: _allocated(device))
        else:
            self._recorder = KinetoRecorder(device.name, model)
        try:
            self._recorder.start()
        except BaseException:
            recorder, self._recorder = self._recorder, None
            recorder.stop()
            raise

    def sample(self) -> None:
        """A step is over."""
        if self._recorder is not None and self._device is not None:
            self._recorder.sample(_allocated(self._device))

    def stop(self) -> Mapping[str, Any]:
        """``operators``, ``modules``, ``fallbacks``, ``trace`` and ``profiled_steps``; nothing without a whole step.

        Raises:
            MpsprobeError: no operator of torch was seen in the steps.
        """
        recorder, self._recorder = self._recorder, None
        if recorder is None or self._device is None:
            return {}
        recording = recorder.stop()
        if not recording.complete_steps:
            return {}
        operators = operator_times(recording)
        if not operators:
            raise MpsprobeError("the steps call no operator of torch")
        trace = make_trace(recording, self._device.name)
        values: dict[str, float | str] = {
            "source": recording.source,
            "events": float(len(trace.start_ns) + trace.truncated),
        }
        return {
            "profiled_steps": recording.complete_steps,
            "operators": operators,
            "modules": module_times(recording),
            "fallbacks": fallback_costs(recording),
            "trace": trace,
            "readings": [ProbeReading(probe=self.name, values=values, caveats=recording.caveats)],
        }

    def _is_slow(self, device: Device) -> bool:
        return kineto.activity_of(device.name) is None if self._slow is None else self._slow


def _allocated(device: Device) -> int | None:
    """Bytes that tensors hold on ``device``; ``None`` where it does not tell."""
    memory = getattr(device, "memory", None)
    allocated = memory().allocated if memory is not None else None
    return None if allocated is None else int(allocated)
