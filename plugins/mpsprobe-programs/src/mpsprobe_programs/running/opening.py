"""Which device a program gets."""

from __future__ import annotations

from importlib.util import find_spec

from mpsprobe_coverage.judging.chain import Chain
from mpsprobe_coverage.kernels.mps import MPS_FAMILY
from mpsprobe_coverage.kernels.table import KernelTable
from mpsprobe_coverage.scanner.macos import check_macos
from mpsprobe_programs.running.device import ProgramDevice
from mpsprobe_programs.running.in_python import DeviceInPython
from mpsprobe_programs.running.settings import Settings


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


def open_program_device(settings: Settings, chain: Chain) -> ProgramDevice:
    """The device that ``settings`` asks for, not yet entered.

    Raises:
        UsageError: it is not there.
    """
    return DeviceInPython(chain, settings.values == "real")
