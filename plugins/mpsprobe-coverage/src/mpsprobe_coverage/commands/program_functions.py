"""What ``mpsprobe run`` does, as functions of ``mpsprobe``: ``run_script``, and ``observe`` for a part of a program."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Self, TypedDict, Unpack

import torch as pytorch

from mpsprobe.environment import check_version
from mpsprobe.errors import MpsprobeError, UsageError
from mpsprobe.options import converted
from mpsprobe.schemas import CoverageReport
from mpsprobe_coverage.commands.functions import in_quotes
from mpsprobe_coverage.commands.run import ran
from mpsprobe_coverage.commands.run import run as command
from mpsprobe_coverage.devices.observed import observe as observing
from mpsprobe_coverage.devices.virtual import device_now
from mpsprobe_coverage.knowledge.kernels.live import has_mps_build

if TYPE_CHECKING:
    import torch

    from mpsprobe_coverage.programs.observe_virtual import OnVirtual


class ScriptOptions(TypedDict, total=False):
    """The flags of ``mpsprobe run``, whose help says more of each.

    Attributes:
        device: ``virtual``, or ``mps`` on a Mac.
        values: of tensors: ``real``, or ``none`` for what does not fit this machine.
        torch: the release to judge, ``installed`` unless given.
        macos: the version to judge for.
        chip: the Mac's: known wrong results of others are left out, and ``torch.mps`` answers as on it.
        keep_going: go on where a Mac refuses; ``False`` raises there.
        no_lines: do not look for the source lines of calls.
        explain: exporters show for each operator what its verdict rests on.
    """

    device: str
    values: str
    torch: str
    macos: str | None
    chip: str | None
    keep_going: bool
    no_lines: bool
    explain: bool


class Observed(observing.Observation):
    """What ``observe`` sees while it is open; it can be opened again, nested, and opened on several threads.

    Args:
        virtual: watches a virtual device in place of a real one.
    """

    def __init__(self, device: str, lines: bool, virtual: OnVirtual | None = None) -> None:
        super().__init__(device, lines)
        self._virtual = virtual
        if virtual is not None:
            self.recorder = virtual.recorder

    def __enter__(self) -> Self:
        if self._virtual is None:
            return super().__enter__()
        self._virtual.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        if self._virtual is None:
            super().__exit__(*error)
        else:
            self._virtual.__exit__(*error)

    def finish(self) -> None:
        """Bring what was counted up to now into ``recorder`` and ``calls``; the observation may stay open."""
        if self._virtual is None:
            super().finish()
        else:
            self._virtual.finish()

    def calls(self) -> Iterator[observing.ObservedCall]:
        """What was called, after ``finish`` or the end of ``with``: on all devices; on the virtual one alone there."""
        return super().calls() if self._virtual is None else self._virtual.calls()

    def report(self, name: str = "observed") -> CoverageReport:
        """What was seen up to now; durations are not in it, bytes are those of tensors.

        ``method`` is ``observed``, and ``predicted`` on a virtual device, whose calls are judged by the kernel table.

        Args:
            name: what the report calls it.
        """
        from mpsprobe_coverage.programs.observed_report import report

        self.finish()
        return report(self, name) if self._virtual is None else self._virtual.report(name)


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
            the ``with`` begins: another release's device is open.
    """
    if torch is not None:
        in_quotes(torch)
    found = observing.observe(device, lines=lines).name
    if found == "mps" and (not has_mps_build() or device_now() is not None):
        from mpsprobe_coverage.programs.observe_virtual import OnVirtual

        return Observed(found, lines, OnVirtual(torch))
    backend: Any = getattr(pytorch, found, None)
    if hasattr(backend, "is_available") and not backend.is_available():
        raise UsageError(
            f"torch {pytorch.__version__} finds no {found} here",
            "Leave the device out: it is the accelerator that is there, else the CPU.",
        )
    if torch is not None:
        raise UsageError(
            f"what runs on {found} runs on the installed torch, and is not judged for {torch}",
            'Leave torch= out, or observe("mps"), which is virtual where there is none.',
        )
    return Observed(found, lines)


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
