"""What ``mpsprobe run`` does, as functions of ``mpsprobe``: ``run_script``, and ``observe`` for a part of a program."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import torch as pytorch

from mpsprobe.environment import check_version
from mpsprobe.errors import MpsprobeError, UsageError
from mpsprobe.options import converted
from mpsprobe.schemas import CoverageReport
from mpsprobe_coverage.commands.functions import in_quotes
from mpsprobe_coverage.commands.run import ran
from mpsprobe_coverage.commands.run import run as command
from mpsprobe_coverage.devices.observed.observe import observe as observe_device
from mpsprobe_coverage.devices.virtual import device_now
from mpsprobe_coverage.knowledge.kernels.live import has_mps_build
from mpsprobe_coverage.programs.observing import Observed, ObservedVirtual

if TYPE_CHECKING:
    import torch


class ScriptOptions(TypedDict, total=False):
    """The flags of ``mpsprobe run``, whose help says more of each.

    Attributes:
        device: ``virtual``, or ``mps`` on a Mac.
        values: of tensors: ``real``, or ``none`` for what does not fit this machine.
        as_cuda: lead the CUDA device that the program's own lines ask for to the MPS device.
        torch: the release to judge, ``installed`` unless given.
        macos: the version to judge for.
        compile: let ``torch.compile`` make its Metal kernels, and run them here.
        with_bugs: compute known wrong results wrongly too, as the release does.
        chip: the Mac's: known wrong results of others are left out, and ``torch.mps`` answers as on it.
        keep_going: go on where a Mac refuses; ``False`` raises there.
        no_lines: do not look for the source lines of calls.
        explain: exporters show for each operator what its verdict rests on.
    """

    device: str
    values: str
    as_cuda: bool
    compile: bool
    with_bugs: bool
    torch: str
    macos: str | None
    chip: str | None
    keep_going: bool
    no_lines: bool
    explain: bool


def observe(device: str | torch.device | None = None, *, torch: str | None = None, lines: bool = True) -> Observed:
    """Watch what runs in ``with mpsprobe.observe() as run:``; numbers are what they are without it.

    Where torch has no MPS, ``observe("mps")`` watches the virtual device: that of ``mpsprobe run`` or of a marked test,
    else one that is open for as long as the ``with``, so that ``device="mps"`` works there. The CPU computes for it.

    Args:
        device: whose calls ``run.report()`` has: ``mps``, ``cuda``, ``cpu``; without it the accelerator that is there,
            else the CPU. ``run.calls()`` has those of all devices.
        torch: the release to judge, for the virtual device that is opened: ``2.13.0``, ``latest``.
        lines: find the module and the source line of each call, which takes some microseconds; a virtual device
            always does.

    Raises:
        UsageError: there is no such device here, or no such release; a release for a device that is not virtual; where
            the ``with`` begins: another release's device is open, or there is no compiler for the observer.
    """
    if torch is not None:
        in_quotes(torch)
    kind = observe_device(device, lines=lines).name
    if kind == "mps" and (not has_mps_build() or device_now() is not None):
        return ObservedVirtual(torch)
    backend: Any = getattr(pytorch, kind, None)
    if hasattr(backend, "is_available") and not backend.is_available():
        raise UsageError(
            f"torch {pytorch.__version__} finds no {kind} here",
            "Leave the device out: it is the accelerator that is there, else the CPU.",
        )
    if torch is not None:
        raise UsageError(
            f"what runs on {kind} runs on the installed torch, and is not judged for {torch}",
            'Leave torch= out, or observe("mps"), which is virtual where there is none.',
        )
    return Observed(kind, lines)


def run_script(
    script: str | PathLike[str],
    arguments: Sequence[str] = (),
    *,
    module: bool = False,
    **options: Unpack[ScriptOptions],
) -> CoverageReport:
    """Run the program ``script``, unchanged and in a process of its own, and judge what it calls.

    How it ended stands in ``report.program.exit_code`` and ``report.failure``.

    Args:
        script: its path; with ``module`` the name of a module, as after ``python -m``.
        arguments: the program's own.
        options: called as the flags of ``mpsprobe run`` are.

    Raises:
        UsageError: there is no such script, or options do not go together.
        MpsprobeError: the program ended without a report (``os._exit``, a signal), or did not import torch.
    """
    if threading.current_thread() is not threading.main_thread():
        raise UsageError("a program is run from the main thread, which gets its signals", "Call run_script there.")
    check_version("torch", "mpsprobe-coverage", "run_script")
    in_quotes(options.get("torch", "installed"))
    flags = converted(command, options)
    ended = ran((str(script), *arguments), module, **flags)
    if ended.report is None:
        raise MpsprobeError(f"no report: {ended.why}", "What the program printed says more.")
    return ended.report
