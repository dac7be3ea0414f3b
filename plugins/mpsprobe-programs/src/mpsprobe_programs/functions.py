"""What ``mpsprobe run`` does, as functions of ``mpsprobe``: ``run_script``, and ``observe`` for a part of a program."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, TypedDict, Unpack

from mpsprobe.environment import check_version
from mpsprobe.errors import MpsprobeError, UsageError
from mpsprobe.options import converted
from mpsprobe.schemas import CoverageReport
from mpsprobe_programs.commands.run import ran
from mpsprobe_programs.commands.run import run as command
from mpsprobe_programs.observing import observe as observing

if TYPE_CHECKING:
    import torch


class ScriptOptions(TypedDict, total=False):
    """The flags of ``mpsprobe run``, whose help says more of each.

    Attributes:
        device: ``virtual``, or ``mps`` on a Mac.
        values: of tensors: ``real``, or ``none`` for what does not fit this machine.
        torch: the release to judge, ``installed`` unless given.
        macos: the version to judge for.
        keep_going: go on where a Mac refuses; ``False`` raises there.
        no_lines: do not look for the source lines of calls.
        explain: exporters show for each operator what its verdict rests on.
    """

    device: str
    values: str
    torch: str
    macos: str | None
    keep_going: bool
    no_lines: bool
    explain: bool


class Observed(observing.Observation):
    """What ``observe`` sees while it is open; it can be opened again, nested, and opened on several threads."""

    def report(self, name: str = "observed") -> CoverageReport:
        """What was seen up to now; ``method`` is ``observed``, durations are not in it, bytes are those of tensors.

        Args:
            name: what the report calls it.

        Raises:
            UsageError: it is about MPS, and there is none.
        """
        from mpsprobe_programs.observing.reporting import report

        self.finish()
        return report(self, name)


def observe(device: str | torch.device | None = None, *, lines: bool = True) -> Observed:
    """Watch what runs in ``with mpsprobe.observe() as run:``; numbers are what they are without it.

    Args:
        device: whose calls ``run.report()`` has: ``mps``, ``cuda``, ``cpu``; without it the accelerator that is there,
            else the CPU. ``run.calls()`` has those of all devices.
        lines: find the module and the source line of each call, which takes some microseconds.

    Raises:
        UsageError: torch knows no such device.
    """
    return Observed(observing.observe(device, lines=lines).name, lines)


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
    check_version("torch", "mpsprobe-programs", "run_script")
    flags = converted(command, options)
    ended = ran((str(script), *arguments), module, **flags)
    if ended.report is None:
        raise MpsprobeError(f"no report: {ended.why}", "What the program printed says more.")
    return ended.report
