"""The program's process, seen from the command: starts it, waits, reads its report. Imports no torch."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from mpsprobe.errors import MpsprobeError, OutputError, UsageError
from mpsprobe.output import TemporaryFolder
from mpsprobe.suggestions import printable
from mpsprobe_coverage.programs.settings import REFUSED, ROOM, VARIABLE, Settings
from mpsprobe_coverage.recording.branches import Site, Ways, ended_by

if TYPE_CHECKING:
    from mpsprobe.schemas import CoverageReport, VerificationReport

START = Path(__file__).with_name("start")
"""The folder that stands first in ``PYTHONPATH`` there; Python imports its ``sitecustomize`` before the program."""
MOST_SECONDS = 60.0
"""A program is run again as long as all its runs took no longer."""
LEAST_FREE = 2**20
"""Bytes of a disk on which not even a sentence may have found room."""
AGAIN = "the program was run {} times, as only values decide some booleans; its output is that of the first"
# A signal that is sent to the command alone is meant for the program. Ctrl-C and Ctrl-\\ reach both from the terminal.
_PASSED_ON = [number for name in ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2") if (number := getattr(signal, name, None))]
_FROM_THE_TERMINAL = [number for name in ("SIGINT", "SIGQUIT") if (number := getattr(signal, name, None))]


@dataclass(frozen=True)
class Ended:
    """How a program ended."""

    code: int  # its exit code; the negative number of the signal that ended it
    report: CoverageReport | None
    why: str = ""  # there is no report

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
    """Run ``program``, its arguments behind it, in a process of its own with the standard streams of this one.

    Without values it may ask what only these decide. Then it is run again with other answers, without any streams.
    """
    if sys.flags.ignore_environment or sys.flags.no_site:  # -I, -E, -S
        raise UsageError("mpsprobe run needs PYTHONPATH and site", "Start Python without -I, -E and -S.")
    last, runs = time.monotonic() + MOST_SECONDS, list[Ended]()
    ways = Ways(lambda: not runs or time.monotonic() < last)
    for chosen in ways:
        answers = [(*site, answer) for site, answer in chosen.items()]
        ended, (taken, once) = _run(program, as_module, quiet=bool(runs), chosen=answers, **settings)
        failed = ended_by(ended.report.failure) if ended.report is not None else None
        ways.add(
            {Site(line, column): answer for line, column, answer in taken},
            {Site(*site) for site in once},
            failed or (f"it ends with exit code {ended.code}" if ended.code else None),
        )
        runs.append(ended)
        if ended.code < 0 or runs[0].report is None:
            break
    first = runs[0].report
    whole = first and (len(runs) > 1 or ways.notes())
    return (
        replace(runs[0], report=_united(first, [ended.report for ended in runs], ways)) if first and whole else runs[0]
    )


def verify(program: Sequence[str], device: str) -> tuple[int, VerificationReport | None]:
    """How ``program`` ended, whose calls on ``device`` were compared with the CPU's, and what was found."""
    from mpsprobe.schemas import VerificationReport

    settings = {"torch": "installed", "lines": True, "device": device, "verifies": True}
    with _process(program, False, quiet=False, **settings) as (code, chosen):
        if chosen.report.is_file():
            return code, VerificationReport.model_validate_json(chosen.report.read_bytes())
        return _ended(code, chosen).code, None


def _run(program: Sequence[str], as_module: bool, *, quiet: bool, **settings: Any) -> tuple[Ended, Any]:
    with _process(program, as_module, quiet=quiet, **settings) as (code, chosen):
        ended = _ended(code, chosen)
        return ended, json.loads(chosen.answers.read_bytes()) if chosen.answers.is_file() else ((), ())


@contextmanager
def _process(
    program: Sequence[str], as_module: bool, *, quiet: bool, **settings: Any
) -> Iterator[tuple[int, Settings]]:
    """The exit code of a process that has run ``program``, and where its files are."""
    with ExitStack() as exits:
        try:
            chosen = Settings(
                folder=exits.enter_context(TemporaryFolder()),
                name=f"-m {program[0]}" if as_module else program[0],
                arguments=tuple(program[1:]),
                prefix=sys.prefix,
                **settings,
            )
            chosen.offer()
        except OSError as error:
            raise OutputError(f"no folder for what the program reports: {error.strerror or error}", ROOM) from error
        paths = [str(START), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, VARIABLE: chosen.as_variable(), "PYTHONPATH": os.pathsep.join(paths)}
        if chosen.device == "virtual":  # a Mac has none of these
            environment |= dict.fromkeys(("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"), "")
            environment["ONEAPI_DEVICE_SELECTOR"] = "*:cpu"
        flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
        command = [sys.executable, *flags, *(["-m"] if as_module else []), *program]
        yield _code(command, environment, quiet), chosen


def _code(command: list[str], environment: dict[str, str], quiet: bool) -> int:
    """How the program ended; until then signals are for it, and not for this process. ``quiet``: without streams."""
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
        stream = subprocess.DEVNULL if quiet else None
        child = subprocess.Popen(
            command, env=environment, stdin=stream, stdout=stream, stderr=stream, preexec_fn=_ending_with_us()
        )
        return child.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _ending_with_us() -> Callable[[], object] | None:
    """What lets Linux kill a new process, and so all that it compiles, where this one is killed."""
    if sys.platform != "linux":
        return None
    import ctypes

    of_the_system = ctypes.CDLL(None).prctl
    return lambda: of_the_system(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _united(first: CoverageReport, reports: Sequence[CoverageReport | None], ways: Ways) -> CoverageReport:
    """``first``, that of the first run, with what others called and it did not."""
    from mpsprobe.assembling import OF_A_RUN, summary_of, worst_first
    from mpsprobe.doubts import applying
    from mpsprobe.folding import united

    def every(name: str) -> list[Any]:
        return [record for report in reports if report is not None for record in getattr(report, name)]

    runs = {
        id(record): number
        for number, report in enumerate(reports)
        if report is not None
        for record in (*report.operators, *report.advisories)
    }

    def marked(alike: Sequence[Any]) -> Any:
        return alike[0].model_copy(update={"only_if": ways.only_if({runs[id(record)] for record in alike})})

    operators = worst_first(united(every("operators"), marked))
    guessed = [(read, *read.assumed.partition(": ")) for read in every("data_dependence")]
    whole = first.model_copy(
        update={
            "operators": operators,
            "not_judged": united(every("not_judged"), itemgetter(0)),
            "data_dependence": united(
                read.model_copy(update={"assumed": ways.said(taken, *read.call_sites[:1]) + colon + code})
                for read, taken, colon, code in guessed
            ),
            "advisories": united(every("advisories"), marked),
            "workload": first.workload.model_copy(
                update={"notes": [*first.workload.notes, AGAIN.format(len(reports)), *ways.notes()]}
            ),
        }
    )
    summary = summary_of(operators, advisories=len(applying(whole)), **first.summary.model_dump(include=OF_A_RUN))
    return whole.model_copy(update={"summary": summary})


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
        return Ended(code, None, "\n".join([printable(str(message)), *([str(hint)] if hint else [])]))
    if settings.report.exists():
        return Ended(code, None, "the program, or one that it started, changed the report")
    if code < 0:
        return Ended(code, None, f"{signal.Signals(-code).name} ended the program")
    if shutil.disk_usage(settings.folder).free < LEAST_FREE:
        return Ended(code, None, f"there is no room for it on the disk\n{ROOM}")
    how = "before Python did (os._exit, or a crash), or kept every file from being written"
    return Ended(code, None, f"the program ended with exit code {code} {how}")


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
