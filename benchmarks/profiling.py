"""What a profile costs the steps that it times."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from measure import BenchmarkFailed, Spread, mpsprobe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from figures import Effort, Figure, Tell

STEP = Path(__file__).resolve().parent / "profile_step.py"
WARM_UP = 5
CASES = (("distilbert", "inference"), ("bert-base", "inference"), ("distilbert", "training"))
DEVICE = os.environ.get("BENCHMARK_DEVICE", "cpu")
BATCH = "1"  # short steps: what a profile costs is a larger share of them


def timing(effort: Effort, tell: Tell) -> list[Figure]:
    """Step time under ``mpsprobe profile`` with timing and the memory probe, compared with a loop written by hand.

    On the CPU, or on what the environment variable ``BENCHMARK_DEVICE`` names.
    """
    from figures import Figure

    found = []
    for name, phase in CASES:
        medians: dict[str, list[float]] = {"bare": [], "profiled": []}
        for index in range(effort.processes):
            for which in ("bare", "profiled") if index % 2 == 0 else ("profiled", "bare"):
                tell(f"{name}, {phase}, {which} ({index + 1} of {effort.processes})")
                took = _bare(name, phase, effort.steps) if which == "bare" else _profiled(name, phase, effort.steps)
                medians[which].append(statistics.median(took))
        pairs = zip(medians["profiled"], medians["bare"], strict=True)
        tell(f"{name}, {phase}, in turns")
        turns = _run(
            [sys.executable, str(STEP), DEVICE, name, phase, BATCH, "turns", str(WARM_UP), str(2 * effort.steps)]
        )
        in_turns, of_processor = (
            statistics.median(a / b for a, b in zip(turns[f"profiled{of}"], turns[f"bare{of}"], strict=True))
            for of in ("", "_processor")
        )
        shown = f"{name}, {phase}, {DEVICE}: step under profile ÷ by hand"
        found += [
            Figure(f"{shown}, fresh processes", "x", Spread.of([above / below for above, below in pairs]), 1.01),
            Figure(f"{shown}, in turns in one process", "x", Spread.of([in_turns]), 1.01),
            Figure(f"{shown}, in turns, processor time", "x", Spread.of([of_processor]), 1.01),
            Figure(
                f"{name}, {phase}, {DEVICE}: step by hand", "s", Spread.of([took / 1e9 for took in medians["bare"]])
            ),
        ]
    return found


def _bare(name: str, phase: str, steps: int) -> list[int]:
    return _run([sys.executable, str(STEP), DEVICE, name, phase, BATCH, "bare", str(WARM_UP), str(steps)])["bare"]


def _profiled(name: str, phase: str, steps: int) -> list[int]:
    where = ["--device", DEVICE, "--batch-size", BATCH, "--probe", "memory"]
    with tempfile.TemporaryDirectory(prefix="mpsprobe-bench-") as folder:
        report = Path(folder) / "report.json"
        asked = [*where, "--warmup", str(WARM_UP), "--steps", str(steps)]
        _end([*mpsprobe("profile", "--workload", name, "--phase", phase, *asked, "-o", str(report))])
        (cell,) = json.loads(report.read_text(encoding="utf-8"))["cells"]
    assert cell["memory"]["peak_process_bytes"], "the memory probe did not run"
    return [step["duration_ns"] for step in cell["steps"]]


def _run(command: Sequence[str]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = json.loads(_end(command))
    return found


def _end(command: Sequence[str]) -> str:
    with tempfile.TemporaryDirectory(prefix="mpsprobe-bench-") as folder:
        ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise BenchmarkFailed(f"{' '.join(command)} ended with {ended.returncode}\n{ended.stderr[-2000:]}")
    return ended.stdout
