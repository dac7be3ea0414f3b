"""The virtual device in Python, for programs: without a compiler, and for models that do not fit this machine."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Self

from mpsprobe_coverage.devices.virtual import VirtualDevice
from mpsprobe_coverage.knowledge.judging.chain import Chain
from mpsprobe_coverage.recording.attribution import Attribution
from mpsprobe_coverage.recording.phases import FORWARD, ProgramRecorder, optimizers_followed
from mpsprobe_coverage.recording.recorder import Recorder


class DeviceInPython:
    """Satisfies ``ProgramDevice``.

    Args:
        chain: the judges of the release.
        values: whether every tensor has its values; else shapes only, and what the program reads is assumed.

    Attributes:
        device: the one that it opens.
    """

    name = "virtual, in Python"

    def __init__(self, chain: Chain, values: bool) -> None:
        self.device = VirtualDevice(chain, keep_weights=values, data_on_cpu=values, recorder=ProgramRecorder())
        self._recording = ExitStack()

    @property
    def recorder(self) -> Recorder:
        return self.device.recorder

    @property
    def attribution(self) -> Attribution:
        return self.device.attribution

    def __enter__(self) -> Self:
        self.device.__enter__()
        self._recording.enter_context(optimizers_followed())
        self._recording.enter_context(self.device.recording(FORWARD))
        return self

    def __exit__(self, *error: object) -> None:
        self.device.__exit__(*error)

    def finish(self) -> None:
        self._recording.close()
