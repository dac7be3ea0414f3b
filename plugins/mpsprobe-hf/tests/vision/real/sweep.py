"""Judges every model, one after the other: ``python sweep.py torchvision|timm|families [--json FILE] [--part 0/4]``.

``families`` takes one model of each module of timm. Prints those that were not answered, with the cause, and the share
of the others, the seconds for one model and the largest memory of the process. Ends with 1 if less than 98 % were.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from compiled_operators import import_torchvision

PHASES = ("inference", "training")
WANTED = 0.98
STOPS = "quantized_"
"""Converted models stop at their first quantized kernel, on a Mac too: that is the answer."""


def names(of: str) -> list[str]:
    """The workloads of a library."""
    if of == "torchvision":
        from torchvision import models

        return [f"torchvision:{name}" for name in models.list_models()]
    import timm

    if of == "timm":
        return [f"timm:{name}" for name in timm.list_models()]
    families = (timm.list_models(module=module) for module in timm.list_modules())
    return [f"timm:{found[0]}" for found in families if found]


def rows(workloads: list[str], release: str) -> Iterator[dict[str, Any]]:
    """What came out for each workload and phase."""
    import mpsprobe

    for name in workloads:
        for phase in PHASES:
            row: dict[str, Any] = {"name": name, "phase": phase}
            start = time.monotonic()
            try:
                report: Any = mpsprobe.coverage(name, phase=phase, torch=release)
            except mpsprobe.errors.MpsprobeError as error:
                row["cause"] = str(error)
            else:
                row["operators"] = report.summary.operators_by_verdict
                row["not_native"] = {one.operator: one.verdict for one in report.findings}
                if report.failure:
                    row["cause"] = f"{report.failure.error}: {report.failure.message.splitlines()[0]}"
            row["seconds"] = round(time.monotonic() - start, 2)
            row["answered"] = "cause" not in row or (STOPS in name and phase == "inference" and "operators" in row)
            yield row


def main() -> int:
    """Run, print, and say whether enough was answered."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("of", choices=["torchvision", "timm", "families"])
    parser.add_argument("--torch", default="2.13.0", help="the release to judge for")
    parser.add_argument("--part", default="0/1", help="which part of how many")
    parser.add_argument("--json", type=Path, help="a file for one line of JSON for each model and phase")
    given = parser.parse_args()
    import_torchvision()
    part, parts = map(int, given.part.split("/"))
    found = []
    for row in rows(names(given.of)[part::parts], given.torch):
        found.append(row)
        if given.json:
            with given.json.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
        if "cause" in row:
            sys.stdout.write(f"{row['name']}, {row['phase']}: {row['cause'][:200]}\n")
    share = sum(row["answered"] for row in found) / len(found)
    seconds = [row["seconds"] for row in found]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**30 if sys.platform == "darwin" else 2**20)
    sys.stdout.write(
        f"{share:.1%} of {len(found)} answered; seconds for one: median {statistics.median(seconds):.2f}, "
        f"largest {max(seconds):.1f}; peak memory {memory:.2f} GB\n"
    )
    return int(share < WANTED)


if __name__ == "__main__":
    sys.exit(main())
