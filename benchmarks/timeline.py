"""The exporter ``chrome`` compared with ``prof.export_chrome_trace``, event by event, and what memory it takes.

``python timeline.py [--events N] [--rounds N]`` writes traces of N events in fresh processes whose order rotates:
torch's own, recorded without shapes (its quickest), and a report's, with nested operators, shapes, launches, kernels
and arrows, so that ours writes more for each. Then the report is held, and held and exported, with N and with a tenth
of N events: the peaks of resident memory must not differ by more than noise.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

REACH_TIME, REACH_MEMORY = 1.0, 1.05
OURS, TORCH = "chrome", "torch"


def report_of(events: int) -> Any:
    """The sample profile with a trace of ``events`` events."""
    from mpsprobe.schemas import Trace, Track
    from mpsprobe_devkit.testing import sample_profile_report

    # Name, category, whether on the device, detail, whether joined, and begin and length in a cycle of 10 µs.
    cycle = (
        (0, 0, 0, 0, 0, 0, 9000),
        (1, 0, 0, -1, 0, 500, 4000),
        (2, 1, 0, -1, 1, 1000, 800),
        (3, 2, 1, -1, 1, 2000, 3000),
    )
    rows = [
        (name, kind, track, detail, joined and number + 1, number * 10_000 + begin, spent)
        for number in range(events // len(cycle))
        for name, kind, track, detail, joined, begin, spent in cycle
    ]
    columns = ("name", "category", "track", "detail", "flow", "start_ns", "duration_ns")
    trace = Trace(
        names=["aten::linear", "aten::addmm", "commit", "gemm"],
        categories=["operator", "launch", "kernel"],
        tracks=[Track(name="python", kind="host"), Track(name="queue", kind="device")],
        details=[{"shapes": "[2, 3] [4, 3]", "dtypes": "float32 float32"}],
        **{name: list(column) for name, column in zip(columns, zip(*rows, strict=True), strict=True)},  # type: ignore[arg-type]
    )
    sample = sample_profile_report()
    return sample.model_copy(update={"cells": [sample.cells[0].model_copy(update={"trace": trace})]})


def one(kind: str, events: int) -> dict[str, float]:
    """One measurement in this process: seconds and processor seconds of the export, and the peak in bytes."""
    with tempfile.TemporaryDirectory(prefix="mpsprobe-bench-") as folder:
        path = Path(folder) / "out.trace.json"
        if kind == TORCH:
            import torch
            from torch.profiler import ProfilerActivity, profile

            ones = torch.ones(2)
            with profile(activities=[ProfilerActivity.CPU]) as profiler:
                for _ in range(events):
                    torch.add(ones, ones)
            started, used = time.perf_counter(), time.process_time()
            profiler.export_chrome_trace(str(path))
        else:
            from mpsprobe_exporters.traces.chrome import ChromeExporter

            report = report_of(events)
            started, used = time.perf_counter(), time.process_time()
            if kind == OURS:
                with path.open("wb") as stream:
                    stream.writelines(piece.encode() for piece in ChromeExporter().stream(report))
        spent = {"seconds": time.perf_counter() - started, "processor": time.process_time() - used}
    return {**spent, "peak": _peak()}


def _peak() -> float:
    try:
        import resource
    except ImportError:  # Windows
        return float("nan")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _fresh(kind: str, events: int) -> dict[str, float]:
    command = [sys.executable, str(Path(__file__).resolve()), "--one", kind, "--events", str(events)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _say(what: str) -> None:
    sys.stdout.write(what + "\n")
    sys.stdout.flush()


def main() -> int:
    """Print the ratios; 1 where one is not reached."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one", choices=(OURS, TORCH, "hold"), help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    if wanted.one:
        _say(json.dumps(one(wanted.one, wanted.events)))
        return 0
    rounds = []
    for number in range(wanted.rounds):
        order = (OURS, TORCH) if number % 2 == 0 else (TORCH, OURS)
        rounds.append({kind: _fresh(kind, wanted.events) for kind in order})
    missed = False
    for what in ("seconds", "processor"):
        ratios = sorted(found[OURS][what] / found[TORCH][what] for found in rounds)
        each = {
            kind: statistics.median(found[kind][what] for found in rounds) / wanted.events * 1e6 for kind in rounds[0]
        }
        middle = statistics.median(ratios)
        missed = missed or middle > REACH_TIME
        _say(
            f"{what} ÷ export_chrome_trace, {wanted.events:,} events: {middle:.2f} "
            f"({ratios[0]:.2f} to {ratios[-1]:.2f}), "
            f"reach {REACH_TIME}; µs for an event: {each[OURS]:.2f} and {each[TORCH]:.2f}"
        )
    for events in (wanted.events // 10, wanted.events):
        held, exported = (_fresh(kind, events)["peak"] for kind in ("hold", OURS))
        missed = missed or exported / held > REACH_MEMORY
        _say(
            f"peak memory with the export ÷ holding the report, {events:,} events: {exported / held:.3f}, "
            f"reach {REACH_MEMORY}; {exported / 1e6:.0f} and {held / 1e6:.0f} MB"
        )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
