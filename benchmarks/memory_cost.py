"""What predicting memory adds to ``coverage`` of bert-base: processor time of one scan with and without it, in pairs.

Everything else of the command is the same, so that what a scan takes longer, divided by what the whole process takes
without it, is the share of the process. Pairs in one process are far closer to each other than processes are.

    python benchmarks/memory_cost.py training 30
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from typing import Any

import mpsprobe_coverage.scanning.tracing as tracing
from mpsprobe.plugins.registry import get_registry
from mpsprobe.progress import make_progress
from mpsprobe.protocols import RunOptions
from mpsprobe_coverage.scanning.scan import CoverageScanner

WITH: Any = tracing.Lifetimes


def taken(phase: str, memory: bool) -> float:
    """Processor seconds of one scan."""
    setattr(tracing, "Lifetimes", WITH if memory else lambda *_: None)  # noqa: B010 - mypy takes it for a class
    with make_progress() as progress:
        began = time.process_time()
        CoverageScanner().scan(get_registry().workload("bert-base"), RunOptions(phase=phase), ["2.13.0"], progress)
        return time.process_time() - began


def main(phase: str, pairs: int) -> None:
    """Print the share with its 95 % interval."""
    taken(phase, memory=False)
    whole = time.process_time()  # imports, and the first scan
    taken(phase, memory=True)
    more = []
    for index in range(pairs):
        both = {memory: taken(phase, memory) for memory in ((True, False) if index % 2 else (False, True))}
        more.append(both[True] - both[False])
    middle, error = statistics.mean(more), 2 * statistics.stdev(more) / math.sqrt(pairs)
    ends = " to ".join(f"{1 + one / whole:.4f}" for one in (middle - error, middle + error))
    sys.stdout.write(f"{phase}: {1 + middle / whole:.4f} ({ends}) of {whole:.2f} s; {middle * 1e3:.1f} ms more\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
