"""What ``observe()`` costs what it watches."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from measure import BenchmarkFailed, Spread

if TYPE_CHECKING:
    from figures import Effort, Figure, Tell

SCRIPT = Path(__file__).resolve().parent / "observe.py"
REACH = {"counting": 1.03, "lines": 1.10}
FLAT_BYTES = 1e6


def observing(effort: Effort, tell: Tell) -> list[Figure]:
    """A training step of bert-base on the CPU, bare and observed, in turns in one process; small calls; memory."""
    from figures import Figure

    tell("training steps of bert-base, in turns")
    took = _run("step", effort.steps)
    found = []
    for name, reach in REACH.items():
        for clock, limit in (("", reach), (" processor", None)):
            pairs = zip(took[f"{name}{clock}"], took[f"bare{clock}"], strict=True)
            what = f"observe(), {name}: bert-base, training step ÷ bare{clock and ', processor time'}"
            found.append(Figure(what, "x", Spread.of([above / below for above, below in pairs]), limit))
    found.append(Figure("the same step, bare", "s", Spread.of(took["bare"])))
    number = 100_000 if effort.processes == 1 else 1_000_000
    tell(f"{number} calls")
    calls = _run("calls", number)
    added = Spread.of([above - below for above, below in zip(calls["observed"], calls["bare"], strict=True)])
    return [
        *found,
        Figure("observe(), lines: added to a call", "µs", added),
        Figure(
            f"observe(): memory that the last half of {number} calls adds", "B", Spread.of(calls["grown"]), FLAT_BYTES
        ),
    ]


def _run(what: str, number: int) -> dict[str, list[float]]:
    with tempfile.TemporaryDirectory(prefix="mpsprobe-bench-") as folder:
        command = [sys.executable, str(SCRIPT), what, str(number)]
        ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise BenchmarkFailed(f"{' '.join(command)} ended with {ended.returncode}\n{ended.stderr[-2000:]}")
    found: dict[str, list[float]] = json.loads(ended.stdout)
    return found
