"""Every architecture of transformers, or a sample of heads, judged by ``mpsprobe coverage``: what is answered.

Says, for each phase, how many are answered, how many need a package that is not installed, the median time of one, the
largest memory of a process, and the slowest; then each that is not answered, with its cause, and what was left out of
inputs. ``--packages`` takes folders with packages that are not in the environment, as ``pip install --target`` makes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from measure import mpsprobe

SLOWEST = 5
"""Are named."""
RSS_UNIT = 1 if sys.platform == "darwin" else 1024  # ru_maxrss is in bytes on macOS


def architectures() -> list[str]:
    """Each type that transformers maps to a base model."""
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    return [f"hf:{name}" for name in MODEL_MAPPING_NAMES]


def heads(count: int, seed: int) -> list[str]:
    """``count`` pairs of a type and a class with a head, drawn from all mappings."""
    from transformers.models.auto import modeling_auto

    pairs = {
        f"hf:{model_type}/{one}"
        for mapping, classes in vars(modeling_auto).items()
        if mapping.startswith("MODEL_FOR") and mapping.endswith("_MAPPING_NAMES") and isinstance(classes, Mapping)
        for model_type, chosen in classes.items()
        for one in ([chosen] if isinstance(chosen, str) else chosen)
    }
    return random.Random(seed).sample(sorted(pairs), count)


AT_START = Path(__file__).parent / "at_start"
"""Holds a module that Python imports when it starts."""


def environment(folders: list[Path], generic: bool) -> dict[str, str]:
    """The variables of the command: packages from ``folders`` too; ``generic`` leaves corrections by type out."""
    if not folders and not generic:
        return dict(os.environ)
    path = os.pathsep.join(map(str, (AT_START, *(folder.resolve() for folder in folders))))
    return {**os.environ, "PYTHONPATH": path, "GENERIC": "1" if generic else ""}


def measured(names: list[str], phase: str, jobs: int, variables: Mapping[str, str]) -> list[dict[str, Any]]:
    """The rows of one run of the command."""
    with tempfile.TemporaryDirectory() as folder:
        asked, report = Path(folder, "names.txt"), Path(folder, "report.json")
        asked.write_text("\n".join(names), encoding="utf-8")
        command = [*mpsprobe("coverage", "--workloads", str(asked), "--size", "small", "--phase", phase)]
        command += ["--jobs", str(jobs), "--timeout", "120", "-o", str(report)]
        subprocess.run(command, check=False, env=variables, stdout=subprocess.DEVNULL)
        rows: list[dict[str, Any]] = json.loads(report.read_text(encoding="utf-8"))["workloads"]
    return rows


def say(line: str) -> None:
    """Onto standard output, at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


OF_MPS = "on the CPU it has"
"""In the note of a report on a model that ends on MPS, and does not on the CPU: that is an answer."""


def cause(row: Mapping[str, Any]) -> str:
    """Why there is no answer; empty where there is one."""
    if row["report"] is None:
        return f"{row['error']} {row['hint'] or ''}"
    failure = row["report"]["failure"]
    if any(OF_MPS in note for note in row["report"]["workload"]["notes"]):
        return ""
    return f"{failure['error']}: {failure['message']} ({failure['call_site']})" if failure else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--heads", type=int, default=0, help="draw so many heads instead")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--phases", nargs="+", default=["inference", "training"])
    parser.add_argument("--packages", type=Path, nargs="+", default=[], help="folders with more packages")
    parser.add_argument("--generic", action="store_true", help="without the corrections by model type")
    options = parser.parse_args()
    names = heads(options.heads, options.seed) if options.heads else architectures()
    for phase in options.phases:
        started = time.monotonic()
        rows = measured(names, phase, options.jobs, environment(options.packages, options.generic))
        took = time.monotonic() - started
        causes = {row["name"]: cause(row) for row in rows}
        packages = {name for name, said in causes.items() if "which is not installed" in said}
        answered = sum(not said for said in causes.values())
        median = statistics.median(row["seconds"] for row in rows)
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * RSS_UNIT / 1e9
        say(f"{phase}: {answered} of {len(names)} answered, {len(packages)} need a package that is not installed")
        say(f"    median {median:.2f} s, in all {took:.0f} s with {options.jobs} processes of at most {peak:.2f} GB")
        slowest = sorted(rows, key=lambda row: -row["seconds"])[:SLOWEST]
        say("    slowest: " + ", ".join(f"{row['name']} {row['seconds']:.1f} s" for row in slowest))
        for row in rows:
            notes = row["report"]["workload"]["notes"] if row["report"] else []
            said = causes[row["name"]] or "; ".join(
                note[-160:] for note in notes if "left out" in note or OF_MPS in note
            )
            if said:
                say(f"    {row['name']}: {said}")


if __name__ == "__main__":
    main()
