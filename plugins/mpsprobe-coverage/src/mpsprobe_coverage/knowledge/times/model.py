"""A model of time: from what calls cost to the milliseconds of a step on a chip, with a range.

The GPU takes for each kernel the longer of its arithmetic and of moving its bytes, and something to start. The CPU
launches the kernels ahead of it, so that a step takes about the longer of both; a value that the program reads, and an
operator that is left to the CPU, make each wait for the other. All numbers are in ``data/times.toml``, which
``benchmarks/fit_times.py`` fits to published figures; ``docs/explanation/time.md`` says how well it holds.
"""

from __future__ import annotations

import functools
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal, NamedTuple

from packaging.version import InvalidVersion, Version

from mpsprobe_coverage.knowledge.chips.store import Chip
from mpsprobe_coverage.knowledge.times.costs import CHANNELS_LAST, HOST, Cost

Bound = Literal["arithmetic", "bandwidth", "launches", "cpu"]
Numbers = Mapping[str, Any]
TOGETHER = 3.0  # how sharply the longer of two that overlap wins: at 3 two equal ones take a quarter longer than each
LATE = 9  # the first GPU family of which efficiencies are like those of later ones: M3 and M4 are Apple9
FIRST_CHECKED = "2.0.0"
ALIKE = 0.5  # half of the time goes to the same kernels
RARE_SHARE = 0.2
CPU = "cpu"


class Call(NamedTuple):
    """Calls that cost the same: ``on_cpu`` where MPS leaves them to the CPU, ``waits`` where the CPU reads a value."""

    cost: Cost
    calls: int
    on_cpu: bool = False
    waits: bool = False


@dataclass(frozen=True, slots=True)
class Range:
    """Low, likely and high."""

    low: float
    likely: float
    high: float

    def digits(self) -> list[float]:
        """Three of each."""
        return [float(f"{value:.3g}") for value in (self.low, self.likely, self.high)]


@dataclass(frozen=True, slots=True)
class Estimate:
    """Milliseconds of a step on one chip; a prediction, never a measurement.

    Attributes:
        by_class: milliseconds of the GPU for each class of kernel, the most first; ``cpu`` where operators are left to
            it. Together they are more than ``step_ms`` where the CPU works meanwhile.
        launch_ms: what the CPU takes to launch all of it.
        why_wide: why the range is wider than usual; empty where it is not.
    """

    gpu_cores: tuple[int, ...]
    step_ms: Range
    bound_by: Bound
    by_class: dict[str, float]
    launch_ms: float
    why_wide: str


@functools.cache
def numbers() -> Numbers:
    """The fitted file."""
    return tomllib.loads((files("mpsprobe_coverage.knowledge.times") / "data" / "times.toml").read_text("utf-8"))


def slow_before() -> frozenset[str]:
    """The releases before which something was slower."""
    return frozenset((*numbers()["before"], numbers()["channels_last"]["before"]))


def era(chip: Chip) -> str:
    """``early``: Apple7 and Apple8, of M1 and M2; ``late``: those since."""
    return "late" if chip.family >= LATE else "early"


def bandwidth(chip: Chip, cores: int) -> float:
    """Of the memory, in bytes a millisecond."""
    known = chip.bandwidth_gb_per_s
    return (
        known[chip.gpu_cores.index(cores) if len(known) == len(chip.gpu_cores) and cores in chip.gpu_cores else 0] * 1e6
    )


def is_before(release: str, first: str) -> bool:
    try:
        return Version(release) < Version(first)
    except InvalidVersion:
        return False


def kernel_ms(cost: Cost, chip: Chip, cores: int, release: str, known: Numbers) -> tuple[float, bool]:
    """How long the GPU takes for one call, and whether that is its arithmetic."""
    when, kind = era(chip), cost.kind.removesuffix(CHANNELS_LAST)
    arithmetic = by_stride = 0.0
    last = known["channels_last"]
    if kind != cost.kind and not is_before(release, last["since"]) and is_before(release, last["before"]):
        by_stride = cost.nbytes / (last["gb_per_s"] * 1e6)
    if cost.flops:
        share = known["arithmetic"][when].get(kind) or known["arithmetic"]["all"].get(kind, 1.0)
        rate = known["rate"][chip.generation] * cores * share
        if cost.dtype != "float32":
            rate *= known[cost.dtype][chip.generation]
        arithmetic = cost.flops / (rate * 1e6)
    shares = known["bandwidth"][when]
    moving = cost.nbytes / (bandwidth(chip, cores) * shares.get(kind, shares["elementwise"]))
    fixed = known["fixed"].get(kind)
    if fixed is not None:
        moving = max(moving, cost.nbytes / (fixed * 1e6))
    moving = max(moving, by_stride)
    taken = max(arithmetic, moving)
    for first, slower in known["before"].items():
        if is_before(release, first):
            taken *= slower.get(kind, 1.0)
    return taken + cost.kernels * known["host"]["kernel_us"] / 1e3, arithmetic > moving


def cpu_ms(cost: Cost, known: Numbers) -> float:
    """An operator that is left to the CPU: its copies there and back, and the CPU's own time."""
    rates = known["cpu"]
    return float(cost.nbytes * 3 / (rates["gb_per_s"] * 1e6) + cost.flops / (rates["gflops"] * 1e6))


@dataclass(slots=True)
class Taken:
    """What the calls take with a certain number of cores, all in milliseconds."""

    step: float
    by_class: dict[str, float]
    by_dtype: dict[str, float]
    launches: float
    bound: Bound

    def shares(self) -> dict[str, float]:
        """Where the time goes: to each class of kernels, and to launching them."""
        parts = {**self.by_class, "launches": self.launches}
        whole = sum(parts.values()) or 1.0
        return {name: taken / whole for name, taken in parts.items()}


def on_cores(calls: Iterable[Call], chip: Chip, cores: int, release: str, known: Numbers) -> Taken:
    """Likely times with exactly ``cores``."""
    host = known["host"]
    faster = host["each_generation"] ** (int(chip.generation[1:]) - 1)
    by_class: dict[str, float] = defaultdict(float)
    by_dtype: dict[str, float] = defaultdict(float)
    gpu = arithmetic = launches = waits = cpu = 0.0
    for cost, number, is_on_cpu, is_read in calls:
        waits += is_read * number
        if cost.kind == HOST:
            launches += number * host["view_us"] * faster / 1e3
        elif is_on_cpu:
            taken = number * cpu_ms(cost, known)
            cpu += taken
            waits += 2 * number
            by_class[CPU] += taken
        else:
            each, is_arithmetic = kernel_ms(cost, chip, cores, release, known)
            taken = each * number
            gpu += taken
            arithmetic += taken * is_arithmetic
            by_class[cost.kind] += taken
            by_dtype[cost.dtype] += taken
            launches += number * (host["launch_us"] + (cost.kernels - 1) * host["view_us"]) * faster / 1e3
    waiting = (waits + 1) * host["sync_us"] / 1e3
    for first, slower in known["before"].items():
        if is_before(release, first):
            launches *= slower.get("launch", 1.0)
            waiting *= slower.get("sync", 1.0)
    whole = (gpu**TOGETHER + launches**TOGETHER) ** (1 / TOGETHER) + waiting + cpu
    parts: dict[Bound, float] = {"arithmetic": arithmetic, "bandwidth": gpu - arithmetic, "cpu": cpu}
    bound: Bound = "launches" if launches + waiting > max(gpu, cpu) else max(parts, key=lambda name: parts[name])
    return Taken(whole, dict(by_class), dict(by_dtype), launches, bound)


def estimate(calls: Iterable[Call], chip: Chip, gpu_cores: int | None, release: str) -> Estimate | None:
    """How long ``calls`` take on ``chip``; without ``gpu_cores`` the range covers all counts that were sold.

    None where there is nothing that the GPU or the CPU would compute.
    """
    calls = list(calls)
    if not any(call.cost.kind != HOST for call in calls):
        return None
    known = numbers()
    counts = chip.gpu_cores if gpu_cores is None else (gpu_cores,)
    each = sorted((on_cores(calls, chip, cores, release, known) for cores in counts), key=lambda guess: guess.step)
    fastest, slowest = each[0], each[-1]
    why = [*_why_wide(slowest, chip, release, known["range"])]
    low, high = known["range"]["far" if why else "near"]
    return Estimate(
        gpu_cores=tuple(counts),
        step_ms=Range(fastest.step * low, (slowest.step * fastest.step) ** 0.5, slowest.step * high),
        bound_by=slowest.bound,
        by_class=dict(sorted(slowest.by_class.items(), key=lambda share: -share[1])),
        launch_ms=slowest.launches,
        why_wide="; ".join(why),
    )


def _why_wide(taken: Taken, chip: Chip, release: str, ranges: Numbers) -> Iterator[str]:
    """Why nothing that was fitted is near: then the range is that of steps without their like among the fitted."""
    shares, early = taken.shares(), is_before(release, FIRST_CHECKED)
    steps = ranges["like"]["early" if early else "later"].values()
    if not any(likeness(shares, other) >= ALIKE for other in steps):
        of_release = f" on releases before {FIRST_CHECKED}" if early else ""
        yield f"no published step that spends its time on the same kernels was fitted{of_release}"
    if chip.generation not in ranges["generations"]:
        yield f"no published step of any {chip.generation} was fitted"
    half = max(taken.by_dtype, key=lambda name: taken.by_dtype[name], default="float32")
    if half != "float32" and f"{half} {chip.generation}" not in ranges["dtypes"]:
        yield f"no published {half} step of any {chip.generation} was fitted"
    rare = [kind for kind in ranges["rare"] if shares.get(kind, 0.0) > RARE_SHARE]
    if rare:
        yield f"few figures of {', '.join(rare).replace('_', ' ')} were published"
    if CPU in taken.by_class:
        yield "some operators are left to the CPU, of which no step was published"


def likeness(shares: Mapping[str, float], others: Mapping[str, float]) -> float:
    """The part of the time that two steps spend on the same: 1 where all of it, 0 where none."""
    return sum(min(share, others.get(name, 0.0)) for name, share in shares.items())


def one_ms(cost: Cost, on_cpu: bool, chip: Chip, cores: int, release: str) -> tuple[float, float]:
    """Milliseconds of one call in a step, and of one that the program waits for, as who times single operators does."""
    known = numbers()
    alone = on_cores([Call(cost, 1, on_cpu)], chip, cores, release, known).step
    return cpu_ms(cost, known) if on_cpu else kernel_ms(cost, chip, cores, release, known)[0], alone
