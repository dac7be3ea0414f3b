"""A program whose calls on a device are computed again on the CPU, one by one, from the import of torch to its end."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import torch

from mpsprobe.schemas import DeviceInfo
from mpsprobe_coverage.devices.native.device import NativeDevice
from mpsprobe_coverage.programs.on_the_cpu import Roots
from mpsprobe_coverage.programs.program_device import chain_for
from mpsprobe_coverage.programs.session import failure_of, info_of
from mpsprobe_coverage.programs.settings import Settings
from mpsprobe_coverage.recording.attribution import Attribution
from mpsprobe_coverage.recording.phases import optimizers_followed
from mpsprobe_coverage.verifying.operators import Checking
from mpsprobe_coverage.verifying.verification import MPS, reported

ALONE = "operators were compared one by one; a program's own run on the CPU would draw other random numbers"


class Keeping(Checking):
    """The program keeps the numbers that its device draws: these are compared by distribution."""

    def _draw(self, func: Any, args: Any, kwargs: Any) -> Any:
        own = func(*args, **kwargs)
        if self.concerns(args, kwargs):
            self.compare_drawn(func, own, (args, kwargs))
        return own


class Verifying:
    """Compares from now on until ``end`` or ``close``."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._type = MPS if settings.device == "virtual" else settings.device
        self._attribution = Attribution()
        self._roots = Roots(self._attribution)
        self._attribution.follow_program(self._roots.called)
        self._checking = Keeping(self._type, torch.float32, self._attribution)
        self._open = ExitStack()
        if settings.device == "virtual":
            self._open.enter_context(NativeDevice(chain_for(settings), lines=False, with_bugs=settings.with_bugs))
        self._open.enter_context(optimizers_followed())
        self._open.enter_context(self._attribution)
        self._open.enter_context(self._checking)

    def end(self, seconds: float) -> str:
        """Stop comparing; the report as JSON, on a program that took ``seconds``."""
        self.close()
        return reported(
            self._checking,
            info_of(self._settings, [*self._roots], []),
            DeviceInfo(type=self._settings.device, name=self._settings.device),
            chain_for(self._settings).table.release if self._type == MPS else None,
            elapsed_ns=int(seconds * 1e9),
            failure=failure_of(self._attribution, self._checking.phase),
            notes=[ALONE],
        ).model_dump_json()

    def answers(self) -> str | None:
        """Every value is there."""
        return None

    def close(self) -> None:
        self._open.close()
