"""How often ``mpsprobe diff`` calls noise a difference, and how often it finds one that is there.

    python benchmarks/difference.py [--runs 1000]

Profiles are made up, not measured: the truth has to be known. A step is the true time, times what its process has for
itself (log-normal), times noise that neighbouring steps share in part (a first-order autoregression), and one step in
thirty takes 20 to 100 % longer. A configuration has 20 steps, 5 for each of three phases, and a first call, in each
process; all of them are tested in one family, as a user's would be.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from dataclasses import dataclass

from mpsprobe.engine.comparing import compare_profiles
from mpsprobe.schemas import ProfileReport

STEP_NS, FIRST_CALL_NS = 20e6, 900e6
PHASES = {"forward": 0.35, "backward": 0.55, "optimizer": 0.1}
PHASE_STEPS = 5


@dataclass(frozen=True)
class Noise:
    """``step`` and ``process`` are standard deviations of logarithms, ``together`` the correlation of neighbours."""

    step: float = 0.02
    process: float = 0.0
    together: float = 0.0


def durations(generator: random.Random, centre: float, count: int, noise: Noise) -> list[int]:
    """Steps of one process, in ns."""
    found = []
    state = generator.gauss(0, 1)
    for _ in range(count):
        fresh = math.sqrt(1 - noise.together**2) * generator.gauss(0, 1)
        state = noise.together * state + fresh
        longer = generator.uniform(1.2, 2.0) if generator.random() < 1 / 30 else 1.0
        found.append(round(centre * math.exp(noise.step * state) * longer))
    return found


def report(generator: random.Random, noise: Noise, processes: int, steps: int, slower: float = 0.0) -> ProfileReport:
    """A made-up profile of one configuration whose steps take ``slower`` (0.05: 5 %) longer than the true time."""
    timed, firsts = [], []
    phases: dict[str, list[int]] = {name: [] for name in PHASES}
    for process in range(processes):
        own = math.exp(generator.gauss(0, noise.process)) * (1 + slower)
        timed += [(process, spent) for spent in durations(generator, own * STEP_NS, steps, noise)]
        for name, share in PHASES.items():
            phases[name] += durations(generator, own * share * STEP_NS, PHASE_STEPS, noise)
        firsts.append(round(FIRST_CALL_NS * math.exp(generator.gauss(0, 0.05))))
    plain = {"count": 1, "median_ns": 1, "low_ns": 1, "high_ns": 1, "spread": 0, "minimum_ns": 1, "maximum_ns": 1}
    cell = {
        "workload": "made-up",
        "phase": "training",
        "device": "cpu",
        "first_call_ns": firsts,
        "steps": [{"duration_ns": spent, "process": process} for process, spent in timed],
        "phases": {name: {**plain, "mean_ns": 1} for name in phases},
        "phase_samples_ns": phases,
    }
    workload = {"name": "made-up", "architecture": "", "phase": "training", "dtype": "float32", "parameters": 0}
    plan = {"devices": ["cpu"], "batch_sizes": [None], "seq_lens": [None], "steps": steps, "processes": processes}
    document = {"workloads": [workload], "environment": None, "devices": [], "plan": plan, "cells": [cell]}
    return ProfileReport.model_validate(document)


def rates(noise: Noise, processes: int, steps: int, slower: float, runs: int, seed: int = 1) -> tuple[float, float]:
    """How often any difference was found, and how often the step was found slower."""
    generator = random.Random(seed)
    any_difference = step_slower = 0
    for _ in range(runs):
        old = report(generator, noise, processes, steps)
        new = report(generator, noise, processes, steps, slower)
        found = compare_profiles(old, new, ("old", "new")).cells[0].quantities
        any_difference += any(one.difference in ("slower", "faster") for one in found)
        step_slower += next(one for one in found if one.quantity == "step").difference == "slower"
    return any_difference / runs, step_slower / runs


def tell(line: str) -> None:
    """A line of the table, as soon as it is known."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    """Print the table of docs/explanation/comparing.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    runs = parser.parse_args().runs
    titles = ("processes", "steps", "noise of steps", "correlation", "between processes", "slower by")
    tell(" | ".join(["", *titles, "any difference found", "step found slower", ""]).strip())
    tell("|" + "---:|" * (len(titles) + 2))
    cases = [
        (1, 20, Noise()),
        (1, 20, Noise(together=0.5)),
        (1, 100, Noise(together=0.5)),
        (1, 20, Noise(process=0.01)),
        (1, 20, Noise(process=0.03)),
        (3, 20, Noise(process=0.01)),
        (5, 20, Noise(process=0.01)),
        (5, 20, Noise(process=0.03)),
        (5, 20, Noise(process=0.01, together=0.5)),
        (10, 20, Noise(process=0.03)),
    ]
    for processes, steps, noise in cases:
        for slower in (0.0, 0.05, 0.1):
            alarms, found = rates(noise, processes, steps, slower, runs)
            shown = f"{noise.step:.0%} | {noise.together} | {noise.process:.0%} | {slower:.0%}"
            tell(f"| {processes} | {steps} | {shown} | {alarms:.1%} | {found:.1%} |")


if __name__ == "__main__":
    main()
