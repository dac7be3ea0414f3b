"""Measures whole processes: wall time and peak memory, in rounds whose order rotates.

Nothing here is bound to one platform. Peak memory and processor time come from ``os.wait4`` and are left
out where that does not exist (Windows). Children run in an empty folder without ``MPSPROBE_*`` variables, so
that no settings of the caller's take part, and their standard output goes nowhere.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

Command = Sequence[str]
EMPTY = "{empty}"
"""In a variable: the folder in which the process runs, where nothing is at its beginning."""
# ru_maxrss is in bytes on macOS and in kibibytes elsewhere.
_RSS_UNIT = 1 if sys.platform == "darwin" else 1024


class BenchmarkFailed(Exception):
    """A measured command ended with an error; the message has its last lines."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One process: wall time, processor time, and the most memory that it held at once (``None``: not measured)."""

    seconds: float
    cpu_seconds: float | None
    peak_bytes: int | None


@dataclass(frozen=True, slots=True)
class Spread:
    """Median, smallest and largest of some values."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(statistics.median(values), min(values), max(values))


def mpsprobe(*arguments: str) -> Command:
    """The installed ``mpsprobe`` of this environment, as a user calls it."""
    name = "mpsprobe.exe" if sys.platform == "win32" else "mpsprobe"
    return (str(Path(sysconfig.get_path("scripts")) / name), *arguments)


def remembering(folder: str, *arguments: str) -> Command:
    """``mpsprobe`` with a cache in ``folder``; every other command here works its answer out."""
    return ("MPSPROBE_NO_CACHE=0", f"XDG_CACHE_HOME={folder}", *mpsprobe(*arguments))


def python(code: str) -> Command:
    """``python -c CODE`` of this environment."""
    return (sys.executable, "-c", code)


def run_process(command: Command) -> Sample:
    """Run ``command``, with the variables that stand before it, to its end.

    Raises:
        BenchmarkFailed: it ended with another exit code than 0.
    """
    variables = [one for one in command if one.startswith(("MPSPROBE_", "XDG_"))]
    with tempfile.TemporaryDirectory(prefix="mpsprobe-bench-") as folder:
        errors = Path(folder) / "errors"
        empty = Path(folder) / "empty"
        empty.mkdir()
        with errors.open("wb") as stream:
            started = time.perf_counter()
            process = subprocess.Popen(
                command[len(variables) :],
                cwd=empty,
                env=_environment() | dict(one.replace(EMPTY, str(empty)).split("=", 1) for one in variables),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stream,
            )
            cpu, peak = _wait(process)
            seconds = time.perf_counter() - started
        if process.returncode:
            tail = errors.read_text(encoding="utf-8", errors="replace")[-2000:]
            raise BenchmarkFailed(f"{' '.join(command)} ended with {process.returncode}\n{tail}")
    return Sample(seconds, cpu, peak)


def run_rounds(
    commands: Mapping[str, Command], rounds: int, warm_up: int, tell: Callable[[str], None]
) -> dict[str, list[Sample]]:
    """Run each command ``rounds`` times after ``warm_up`` uncounted ones; the first of a round rotates.

    Commands of one round run one right after the other, so that a slow phase of the machine meets all of them.
    """
    names = list(commands)
    samples: dict[str, list[Sample]] = {name: [] for name in names}
    for index in range(-warm_up, rounds):
        shift = index % len(names)
        for name in names[shift:] + names[:shift]:
            tell(f"{name} ({'warm-up' if index < 0 else f'{index + 1} of {rounds}'})")
            sample = run_process(commands[name])
            if index >= 0:
                samples[name].append(sample)
    return samples


def ratio(samples: Mapping[str, Sequence[Sample]], name: str, baseline: str) -> Spread:
    """``name`` ÷ ``baseline``, round by round."""
    pairs = zip(samples[name], samples[baseline], strict=True)
    return Spread.of([above.seconds / below.seconds for above, below in pairs])


def seconds(samples: Sequence[Sample]) -> Spread:
    """Wall time of whole processes."""
    return Spread.of([sample.seconds for sample in samples])


def cpu_ratio(samples: Mapping[str, Sequence[Sample]], name: str, baseline: str) -> Spread | None:
    """As ``ratio``, of the processor time: what other programs on the machine do hardly shows in it."""
    pairs = [
        one.cpu_seconds / other.cpu_seconds
        for one, other in zip(samples[name], samples[baseline], strict=True)
        if one.cpu_seconds is not None and other.cpu_seconds is not None
    ]
    return Spread.of(pairs) if pairs else None


def cpu_seconds(samples: Sequence[Sample]) -> Spread | None:
    """Processor time of whole processes, on all cores together."""
    times = [sample.cpu_seconds for sample in samples if sample.cpu_seconds is not None]
    return Spread.of(times) if times else None


def gigabytes(samples: Sequence[Sample]) -> Spread | None:
    """Peak memory in 10⁹ bytes, or ``None`` where the platform does not tell."""
    peaks = [sample.peak_bytes / 1e9 for sample in samples if sample.peak_bytes is not None]
    return Spread.of(peaks) if peaks else None


def _wait(process: subprocess.Popen[bytes]) -> tuple[float | None, int | None]:
    if not hasattr(os, "wait4"):
        process.wait()
        return None, None
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime, int(usage.ru_maxrss * _RSS_UNIT)


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MPSPROBE_")}
    kept.pop("PYTHONDONTWRITEBYTECODE", None)  # installers compile what they install; here the first run does
    return {"MPSPROBE_NO_CACHE": "1", **kept, "NO_COLOR": "1", "COLUMNS": "120"}
