"""The program's process, seen from the command: starts it, waits, reads its report. Imports no torch."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from mpsprobe.errors import MpsprobeError, UsageError
from mpsprobe_coverage.programs.settings import REFUSED, VARIABLE, Settings

if TYPE_CHECKING:
    from mpsprobe.schemas import CoverageReport

START = Path(__file__).with_name("start")
"""The folder that stands first in ``PYTHONPATH`` there; Python imports its ``sitecustomize`` before the program."""
# A signal that is sent to the command alone is meant for the program. Ctrl-C and Ctrl-\\ reach both from the terminal.
_PASSED_ON = [number for name in ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2") if (number := getattr(signal, name, None))]
_FROM_THE_TERMINAL = [number for name in ("SIGINT", "SIGQUIT") if (number := getattr(signal, name, None))]


@dataclass(frozen=True)
class Ended:
    """How a program ended.

    Attributes:
        code: its exit code; the negative number of the signal that ended it.
        why: there is no report.
    """

    code: int
    report: CoverageReport | None
    why: str = ""

    def leave(self) -> NoReturn:
        """End this process as the program ended."""
        if self.code < 0:
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError, ValueError, AttributeError):
                    stream.flush()
            with suppress(OSError, ValueError):  # of those that nobody can handle
                signal.signal(-self.code, signal.SIG_DFL)
            os.kill(os.getpid(), -self.code)
        sys.exit(self.code)


def run(program: Sequence[str], as_module: bool, **settings: Any) -> Ended:
    """Run ``program``, its arguments behind it, in a process of its own with the standard streams of this one."""
    if sys.flags.ignore_environment or sys.flags.no_site:  # -I, -E, -S
        raise UsageError("mpsprobe run needs PYTHONPATH and site", "Start Python without -I, -E and -S.")
    with tempfile.TemporaryDirectory(prefix="mpsprobe-") as folder:
        chosen = Settings(
            folder=folder,
            name=f"-m {program[0]}" if as_module else program[0],
            arguments=tuple(program[1:]),
            prefix=sys.prefix,
            **settings,
        )
        paths = [str(START), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, VARIABLE: chosen.as_variable(), "PYTHONPATH": os.pathsep.join(paths)}
        if chosen.device == "virtual":  # a Mac has none of these
            environment |= dict.fromkeys(("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"), "")
            environment["ONEAPI_DEVICE_SELECTOR"] = "*:cpu"
        flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
        command = [sys.executable, *flags, *(["-m"] if as_module else []), *program]
        return _ended(_code(command, environment), chosen)


def _code(command: list[str], environment: dict[str, str]) -> int:
    """How the program ended; until then signals are for it, and not for this process."""
    child: subprocess.Popen[bytes] | None = None

    def pass_on(number: int, _: object) -> None:
        if child is not None:
            child.send_signal(number)

    handlers = {**dict.fromkeys(_PASSED_ON, pass_on), **dict.fromkeys(_FROM_THE_TERMINAL, lambda number, _: None)}
    before = {
        number: signal.signal(number, handler)
        for number, handler in handlers.items()
        if signal.getsignal(number) is not signal.SIG_IGN  # a program inherits what is ignored, not what is handled
    }
    try:
        child = subprocess.Popen(command, env=environment)
        return child.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _ended(code: int, settings: Settings) -> Ended:
    """``code`` stays the program's own, whatever it wrote into the folder of the reports."""
    from mpsprobe.assembling import merged

    processes = settings.processes()
    reports = {path: report for path in (settings.report, *processes) if (report := _read(path)) is not None}
    if reports:
        report = merged(list(reports.values()))
        assert report.program is not None
        unreported = sum(path not in reports for path in processes)
        end = {"exit_code": code, "processes": len(processes), "processes_unreported": unreported}
        program = report.program.model_copy(update=end)
        return Ended(code, report.model_copy(update={"program": program, "failure": report.failure if code else None}))
    with suppress(OSError, ValueError, TypeError):  # not what a process of ours writes
        message, hint, refused = json.loads(settings.refusal.read_bytes())
        if refused and code == REFUSED:
            raise MpsprobeError(message, hint)
        return Ended(code, None, str(message))
    if settings.report.exists():
        return Ended(code, None, "the program, or one that it started, changed the report")
    if code < 0:
        return Ended(code, None, f"{signal.Signals(-code).name} ended the program")
    return Ended(code, None, f"the program ended with exit code {code} before Python did (os._exit, or a crash)")


def _read(path: Path) -> CoverageReport | None:
    """The report of one process; ``None`` where it left none, or something else is in its place."""
    from mpsprobe.schemas import CoverageReport

    if not path.is_file():
        return None
    try:
        report = CoverageReport.model_validate_json(path.read_bytes())
    except (OSError, ValueError):
        return None
    return report if report.program is not None else None
