"""The device that a program gets: the native one, the one in Python, or the real one, observed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Self

import torch

from mpsprobe.errors import UsageError
from mpsprobe_coverage.devices.compiling import DEVICE
from mpsprobe_coverage.devices.native.device import NativeDevice
from mpsprobe_coverage.devices.observed.observe import Observation, observe
from mpsprobe_coverage.devices.virtual import VirtualDevice
from mpsprobe_coverage.knowledge.judging.chain import Chain
from mpsprobe_coverage.knowledge.kernels.mps import MPS_FAMILY
from mpsprobe_coverage.programs.settings import VARIABLE, Settings
from mpsprobe_coverage.recording.branches import Branches, Site
from mpsprobe_coverage.recording.phases import FORWARD, ProgramRecorder, optimizers_followed
from mpsprobe_coverage.reporting.findings import site
from mpsprobe_coverage.reporting.reports import check_macos

if TYPE_CHECKING:
    from mpsprobe_coverage.verifying.kernels import Kernels


class DeviceInPython:
    """The virtual device in Python, for whole programs: without a compiler, or for what does not fit this machine.

    Without ``values`` there are shapes only: what the program reads is assumed, and ``branches`` where values decide.
    """

    name = "virtual, in Python"

    def __init__(self, chain: Chain, values: bool, branches: Branches | None = None) -> None:
        self.branches = branches
        self.device = VirtualDevice(
            chain, keep_weights=values, data_on_cpu=values, recorder=ProgramRecorder(), branches=branches
        )
        self.recorder, self.attribution = self.device.recorder, self.device.attribution
        self._recording = ExitStack()

    def __enter__(self) -> Self:
        self.device.__enter__()
        self._recording.enter_context(optimizers_followed())
        self._recording.enter_context(self.device.recording(FORWARD))
        return self

    def __exit__(self, *error: object) -> None:
        self.device.__exit__(*error)

    def finish(self) -> None:
        self._recording.close()


ProgramDevice = NativeDevice | DeviceInPython | Observation


def chain_for(settings: Settings) -> Chain:
    """The judges of the release and the macOS that are judged, also for libraries that the program may import later."""
    table = MPS_FAMILY.target(settings.torch)
    installed = (name for name in MPS_FAMILY.libraries if find_spec(name) is not None)
    libraries = {name: MPS_FAMILY.library(name, table.release) for name in installed}
    return Chain(
        table,
        {name: library for name, library in libraries.items() if library is not None},
        macos=check_macos(settings.macos, table) if settings.macos else None,
    )


def open_program_device(settings: Settings, chain: Chain) -> tuple[ProgramDevice, list[str]]:
    """The device that ``settings`` asks for, not yet entered, and notes on it."""
    if settings.device == "mps":
        return _mps(settings), []
    if settings.values == "none":
        return _in_python(settings, chain, "--values none")
    if MPS_FAMILY.running() is not None:
        return _in_python(settings, chain, "this torch has the real MPS")
    if not DEVICE.is_there:
        print("mpsprobe: building the native device, once for this torch (half a minute)", file=sys.stderr)  # noqa: T201
    try:
        with _no_program():
            return NativeDevice(
                chain,
                keep_going=settings.keep_going,
                lines=settings.lines,
                cpu=settings.lines,
                chip=settings.chip,
                shader=_checked_kernels() if settings.compiles else None,
                with_bugs=settings.with_bugs,
            ), []
    except UsageError as error:
        return _in_python(settings, chain, error.message)


def _checked_kernels() -> Kernels:
    from mpsprobe_coverage.verifying.kernels import Kernels  # takes as long as torch itself

    return Kernels()


def _in_python(settings: Settings, chain: Chain, why: str) -> tuple[ProgramDevice, list[str]]:
    for flag, given in (("--no-keep-going", not settings.keep_going), ("--with-bugs", settings.with_bugs)):
        if given:
            raise UsageError(f"{flag} needs the native device: {why}", "Leave it out.")
    values = settings.values == "real"
    branches = Branches(site, {Site(line, column): answer for line, column, answer in settings.chosen})
    if values:
        makes = "; so --compile makes no kernels" if settings.compiles else ""
        return DeviceInPython(chain, values), [f"The native device was not used{makes}: {why}"]
    return DeviceInPython(chain, values, branches), []


def _mps(settings: Settings) -> Observation:
    if not torch.backends.mps.is_available():
        built = "is built without MPS" if not torch.backends.mps.is_built() else "finds no MPS device"
        raise UsageError(
            f"there is no MPS here: torch {torch.__version__} {built}",
            "--device virtual runs the program on this machine, computed by the CPU, and says what MPS would do.",
        )
    return observe("mps", lines=settings.lines)


@contextmanager
def _no_program() -> Iterator[None]:
    """Inside, processes that are started (the build) are none of the program's."""
    value = os.environ.pop(VARIABLE, None)
    try:
        yield
    finally:
        if value is not None:
            os.environ[VARIABLE] = value
