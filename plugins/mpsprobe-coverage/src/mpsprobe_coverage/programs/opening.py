"""Which device a program gets."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

import torch

from mpsprobe.errors import UsageError
from mpsprobe_coverage.devices.compiling import DEVICE
from mpsprobe_coverage.devices.native.device import NativeDevice
from mpsprobe_coverage.devices.observed.observe import observe
from mpsprobe_coverage.knowledge.judging.chain import Chain
from mpsprobe_coverage.knowledge.kernels.mps import MPS_FAMILY
from mpsprobe_coverage.knowledge.kernels.table import KernelTable
from mpsprobe_coverage.programs.in_python import DeviceInPython
from mpsprobe_coverage.programs.program_device import ProgramDevice
from mpsprobe_coverage.programs.settings import VARIABLE, Settings
from mpsprobe_coverage.reporting.reports import check_macos


def chain_for(settings: Settings) -> Chain:
    """The judges of the release and the macOS that are judged, also for libraries that the program may import later.

    Raises:
        UsageError: there is no such release, or it does not run on that macOS.
    """
    table: KernelTable = MPS_FAMILY.target(settings.torch)
    installed = (name for name in MPS_FAMILY.libraries if find_spec(name) is not None)
    libraries = {name: MPS_FAMILY.library(name, table.release) for name in installed}
    return Chain(
        table,
        {name: known for name, known in libraries.items() if known is not None},
        macos=check_macos(settings.macos, table) if settings.macos else None,
    )


def open_program_device(settings: Settings, chain: Chain) -> tuple[ProgramDevice, list[str]]:
    """The device that ``settings`` asks for, not yet entered, and what to know of it.

    Raises:
        UsageError: it is not there.
    """
    if settings.device == "mps":
        return _mps(settings)
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
            ), []
    except UsageError as error:
        return _in_python(settings, chain, error.message)


def _in_python(settings: Settings, chain: Chain, why: str) -> tuple[ProgramDevice, list[str]]:
    if not settings.keep_going:
        raise UsageError(f"--no-keep-going needs the native device: {why}", "Leave it out.")
    values = settings.values == "real"
    return DeviceInPython(chain, values), [f"The native device was not used: {why}"] if values else []


def _mps(settings: Settings) -> tuple[ProgramDevice, list[str]]:
    if not torch.backends.mps.is_available():
        built = "is built without MPS" if not torch.backends.mps.is_built() else "finds no MPS device"
        raise UsageError(
            f"there is no MPS here: torch {torch.__version__} {built}",
            "--device virtual runs the program on this machine, computed by the CPU, and says what MPS would do.",
        )
    return observe("mps", lines=settings.lines), []


@contextmanager
def _no_program() -> Iterator[None]:
    """Inside, processes that are started (the build) are none of the program's."""
    value = os.environ.pop(VARIABLE, None)
    try:
        yield
    finally:
        if value is not None:
            os.environ[VARIABLE] = value
