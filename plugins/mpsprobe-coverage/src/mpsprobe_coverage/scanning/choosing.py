"""One workload on every Mac: whether it fits, how long a step takes, and the smallest that is fast enough."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import Any

from mpsprobe.errors import UsageError
from mpsprobe.protocols import Progress, RunOptions, Workload
from mpsprobe.schemas import MemoryPrediction, TimePrediction, WorkloadInfo
from mpsprobe.suggestions import printable
from mpsprobe_coverage.knowledge.chips.mac import Mac
from mpsprobe_coverage.knowledge.chips.store import GIB, Chip, all_chips
from mpsprobe_coverage.knowledge.kernels.backends import family_named
from mpsprobe_coverage.knowledge.times.model import estimate
from mpsprobe_coverage.recording.trace import Trace
from mpsprobe_coverage.reporting.fitting import Needs, fit_on
from mpsprobe_coverage.reporting.memory import prediction
from mpsprobe_coverage.reporting.timing import section_of
from mpsprobe_coverage.reporting.works import calls_of, works_of
from mpsprobe_coverage.scanning.releases import memory_sizes
from mpsprobe_coverage.scanning.scan import scanned
from mpsprobe_coverage.scanning.unknown_sizes import Again, predicted

AT_LEAST = re.compile(r"(?P<number>\d{1,9}(\.\d{1,6})?)\s*(?P<what>tok|tokens|samples|images|steps)/s", re.ASCII)
WITHIN = re.compile(r"(?P<number>\d{1,9}(\.\d{1,6})?)\s*(?P<unit>ms|s|min)", re.ASCII)
MILLISECONDS = {"ms": 1.0, "s": 1e3, "min": 6e4}
RATES = {"tok": "tokens_per_s", "tokens": "tokens_per_s", "samples": "samples_per_s", "images": "samples_per_s"}
STEPS = "steps"


@dataclass(frozen=True, slots=True)
class Wish:
    """What a Mac shall do: at least ``least`` of ``rate`` a second, or a step within ``most_ms``."""

    rate: str | None = None
    least: float = 0.0
    most_ms: float | None = None

    @classmethod
    def of_flags(cls, at_least: str | None, within: str | None) -> Wish:
        """``20tok/s`` and ``2s``. Raises ``UsageError`` where they cannot be read."""
        rate, least, most = None, 0.0, None
        if at_least is not None:
            parts = AT_LEAST.fullmatch(at_least.strip())
            if parts is None:
                raise UsageError(
                    f"'{printable(at_least)[:40]}' is no speed",
                    "For example --at-least 20tok/s; also samples/s and steps/s.",
                )
            rate, least = RATES.get(parts["what"], STEPS), float(parts["number"])
        if within is not None:
            parts = WITHIN.fullmatch(within.strip())
            if parts is None:
                raise UsageError(f"'{printable(within)[:40]}' is no duration", "For example --within 2s, or 500ms.")
            most = float(parts["number"]) * MILLISECONDS[parts["unit"]]
        return cls(rate, least, most)

    def __bool__(self) -> bool:
        return self.rate is not None or self.most_ms is not None

    def is_met(self, time: TimePrediction) -> bool:
        """Whether the likely time does that."""
        likely = time.step_ms[1]
        if self.most_ms is not None and likely > self.most_ms:
            return False
        if self.rate is None:
            return True
        rates: list[float] | None = [1e3 / likely] * 3 if self.rate == STEPS else getattr(time, self.rate)
        return rates is not None and rates[1] >= self.least


@dataclass(frozen=True, slots=True)
class Choice:
    """One chip with one count of cores."""

    chip: Chip
    time: TimePrediction
    memory_bytes: int | None  # the smallest it was sold with in which the workload fits; None where in none
    relative: float  # the likely time, divided by that of the fastest
    enough: bool | None  # whether it fits and does what was wished; None without a wish

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
    section = partial(section_of, options=options, info=info)
    for chip in all_chips().values():
        for cores in chip.gpu_cores:
            likely = estimate(calls, chip, cores, table.release)
            if likely is None:
                raise UsageError(f"'{workload.name}' computes nothing on the device", "There is no time to predict.")
            time = section(likely, chip, cores)
            sizes = [size * GIB for size in chip.memory_gib]
            enough = next((size for size in sizes if fits.get(size, "fits") == "fits"), None)
            found.append((chip, time, enough))
    least = min(time.step_ms[1] for _, time, _ in found)
    return (
        info,
        table.release,
        [
            Choice(
                chip, time, size, time.step_ms[1] / least, (size is not None and wish.is_met(time)) if wish else None
            )
            for chip, time, size in found
        ],
    )


def smallest(found: list[Choice]) -> Choice | None:
    """Of those that are enough, the one with the fewest cores, then of the oldest generation."""
    enough = [one for one in found if one.enough]
    return min(enough, key=lambda one: (one.time.gpu_cores or 0, one.chip.generation), default=None)
