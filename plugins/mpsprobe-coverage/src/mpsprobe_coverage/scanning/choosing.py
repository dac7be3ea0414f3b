"""One workload on every Mac: whether it fits, how long a step takes, and the smallest that is fast enough."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from mpsprobe.errors import UnknownName, UsageError
from mpsprobe.protocols import Progress, RunOptions, Workload
from mpsprobe.schemas import MemoryPrediction, TimePrediction, WorkloadInfo
from mpsprobe.suggestions import printable
from mpsprobe_coverage.knowledge.chips.limits import Mac
from mpsprobe_coverage.knowledge.chips.store import GIB, Chip, all_chips
from mpsprobe_coverage.knowledge.kernels.backends import family_named
from mpsprobe_coverage.knowledge.times.model import estimate
from mpsprobe_coverage.recording.trace import Trace
from mpsprobe_coverage.reporting.fitting import Needs, fit_on
from mpsprobe_coverage.reporting.memory import prediction
from mpsprobe_coverage.reporting.timing import section_of
from mpsprobe_coverage.reporting.works import calls_of, works_of
from mpsprobe_coverage.scanning.scan import memory_sizes, scanned
from mpsprobe_coverage.scanning.unknown_sizes import Again, predicted

NUMBER = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*(\S{0,12})", re.ASCII)
STEPS = "steps"
RATES = {
    "tok/s": "tokens_per_s", "tokens/s": "tokens_per_s", "samples/s": "samples_per_s", "images/s": "samples_per_s",
    "steps/s": STEPS,
}  # fmt: skip
MILLISECONDS = {"ms": 1.0, "s": 1e3, "min": 6e4}


@dataclass(frozen=True, slots=True)
class Wish:
    """What a Mac shall do: at least ``least`` of ``rate`` a second, or a step within ``most_ms``."""

    rate: str | None = None
    least: float = 0.0
    most_ms: float | None = None

    @classmethod
    def of_flags(cls, at_least: str | None, within: str | None) -> Wish:
        """``20tok/s`` and ``2s``. Raises ``UsageError`` where they cannot be read."""
        least, rate = (0.0, None) if at_least is None else _read(at_least, RATES, "speed", "--at-least 20tok/s")
        number, unit = (0.0, None) if within is None else _read(within, MILLISECONDS, "duration", "--within 500ms")
        return cls(rate and RATES[rate], least, None if unit is None else number * MILLISECONDS[unit])

    def __bool__(self) -> bool:
        return self.rate is not None or self.most_ms is not None

    def speed(self, time: TimePrediction) -> float | None:
        """What is wished for, a second; steps where a time is. None where the workload has no such number."""
        if self.rate in (None, STEPS):
            return 1e3 / time.step_ms[1]
        rates: list[float] | None = getattr(time, self.rate or "")
        return rates[1] if rates else None

    def is_met(self, time: TimePrediction) -> bool:
        """Whether the likely time does that."""
        in_time = self.most_ms is None or time.step_ms[1] <= self.most_ms
        return in_time and (self.rate is None or (self.speed(time) or 0.0) >= self.least)


def _read(text: str, units: Iterable[str], what: str, example: str) -> tuple[float, str]:
    """The number and the unit of ``text``. Raises ``UsageError``, with the nearest unit."""
    parts = NUMBER.fullmatch(text.strip())
    if parts is None:
        raise UsageError(f"'{printable(text)[:40]}' is no {what}", f"For example {example}.")
    if parts[2] not in units:
        raise UnknownName("unit", parts[2], units, f"For example {example}. Its units are {', '.join(units)}.")
    return float(parts[1]), parts[2]


@dataclass(frozen=True, slots=True)
class Choice:
    """One chip with one count of cores."""

    chip: Chip
    time: TimePrediction
    memory_bytes: int | None  # the smallest it was sold with in which the workload fits; None where in none
    enough: bool | None  # whether it fits and does what was wished; None without a wish
    relative: float = 1.0  # the likely time, divided by that of the fastest

    def document(self) -> dict[str, Any]:
        return {
            "memory_bytes": self.memory_bytes, "relative": round(self.relative, 3), "enough": self.enough,
            "time": self.time.model_dump(mode="json", exclude={"by_operator", "by_module", "faster"}),
        }  # fmt: skip


def choices(
    workload: Workload, options: RunOptions, release: str, wish: Wish, progress: Progress
) -> tuple[WorkloadInfo, str, list[Choice]]:
    """What was run, on which release, and every Mac with its predicted time, oldest first.

    Raises:
        MpsprobeError: the workload cannot be built, raises, or computes nothing on the device.
    """
    table = family_named(options.backend).target(release)
    fits: dict[int, str] = {}

    def fit(needs: Needs, events: object) -> tuple[()]:
        fits.update({size: fit_on(Mac("", size), needs).answer for size in memory_sizes()})
        return ()

    def memory(trace: Trace, again: Again) -> MemoryPrediction | None:
        return predicted(
            trace, again, lambda run: prediction(run.events, table.release, options.macos, fit), ranged=False
        )

    info, traces, _ = scanned(workload, options, [table], progress, memory, with_since=False)
    if traces[0].failure is not None:
        raise UsageError(
            f"'{workload.name}' stops on torch {table.release}: {traces[0].failure.message}",
            f"See mpsprobe coverage {printable(workload.name)}.",
        )
    calls = calls_of(works_of(traces[0].recorder.calls()))
    found = []
    for chip in all_chips().values():
        sizes = [size * GIB for size in chip.memory_gib]
        size = next((size for size in sizes if fits.get(size, "fits") == "fits"), None)
        for cores in chip.gpu_cores:
            likely = estimate(calls, chip, cores, table.release)
            if likely is None:
                raise UsageError(f"'{workload.name}' computes nothing on the device", "There is no time to predict.")
            time = section_of(likely, chip, cores, options, info)
            enough = (size is not None and wish.is_met(time)) if wish else None
            found.append(Choice(chip, time, size, enough))
    if wish.speed(found[0].time) is None:
        raise UsageError(
            f"'{workload.name}' has no such number a second", "Ask for --at-least 2steps/s, or --within 2s."
        )
    least = min(choice.time.step_ms[1] for choice in found)
    return info, table.release, [replace(choice, relative=choice.time.step_ms[1] / least) for choice in found]


def smallest(found: list[Choice], wish: Wish) -> Choice | None:
    """Of those that do what is wished, the one with the fewest cores, then of the oldest generation.

    None without a wish. Raises ``UsageError`` where no Mac does it, with what the fastest does.
    """
    enough = [choice for choice in found if choice.enough]
    if enough or not wish:
        return min(enough, key=lambda choice: (choice.time.gpu_cores or 0, choice.chip.generation), default=None)
    fitting = [choice for choice in found if choice.memory_bytes is not None]
    best = min(fitting or found, key=lambda choice: choice.relative)
    does = f"about {wish.speed(best.time):.3g} a second" if wish.rate else f"a step in {best.time.step_ms[1]:.3g} ms"
    what = "no Mac is predicted to do that" if fitting else "it fits on no Mac"
    raise UsageError(what, f"The fastest, {best.chip.name} with {best.time.gpu_cores} cores, does {does}.")
