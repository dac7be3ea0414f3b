"""How long a sweep takes: ``python benchmarks/atlas.py`` on a quiet machine; an hour with everything.

- ``small``: all base architectures of the installed transformers at small size, both phases, with 2 processes: for one
  release (at most 15 minutes) and for all of them (at most 20).
- ``real``: the same at real size for all releases (at most 45 minutes).
- ``scaling``: a sample with 1 process and with 4, on a machine of 4 cores: at least 3.2 times as fast.
- ``dask``: the same sample through a local Dask cluster of 4 workers, against 4 processes: at most 1.15 times as long.

Exit code 1 if a figure is not reached. Each sweep writes a new store in a temporary folder.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from architectures import architectures, say
from measure import mpsprobe

LATEST = "latest"
GROUPS = ("small", "real", "scaling", "dask")
SAMPLE = 120
DASK = [sys.executable, "-m"]


def swept(folder: Path, names: list[str], *arguments: str) -> tuple[float, int]:
    """Seconds of a sweep of ``names`` into a new store, and how many of its rows failed."""
    store = folder / f"{time.monotonic_ns()}.sqlite"
    asked = folder / "names.txt"
    asked.write_text("\n".join(names), encoding="utf-8")
    command = [*mpsprobe("atlas", "sweep", "--workloads", str(asked), "-o", str(store), *arguments)]
    started = time.monotonic()
    subprocess.run(command, check=True, cwd=folder, stderr=subprocess.DEVNULL)
    seconds = time.monotonic() - started
    from mpsprobe_atlas.store import Store

    with Store(store) as made:
        failed = sum(row.state == "failed" for row in made.rows())
    say(f"  {' '.join(arguments)}: {seconds:.0f} s, {store.stat().st_size / 1e6:.1f} MB, {failed} failed")
    return seconds, failed


@contextmanager
def cluster(folder: Path, workers: int) -> Iterator[str]:
    """A scheduler and ``workers`` processes with one thread each; gives its address."""
    file = folder / "scheduler.json"
    where = ["--scheduler-file", str(file), "--no-dashboard"]
    commands = [[*DASK, "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", *where]]
    commands += [[*DASK, "distributed.cli.dask_worker", "--nthreads", "1", *where]] * workers
    processes = []
    try:
        for command in commands:
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            processes.append(subprocess.Popen(command, cwd=folder, **quiet))  # type: ignore[call-overload]
            while not file.exists():
                time.sleep(0.1)
        time.sleep(10)  # until all workers are there
        yield json.loads(file.read_text(encoding="utf-8"))["address"]
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait()


def reached(what: str, figure: float, *, most: float | None = None, least: float | None = None) -> bool:
    """Say whether ``figure`` is as it should be."""
    right = (most is None or figure <= most) and (least is None or figure >= least)
    bound = f"at most {most:g}" if most is not None else f"at least {least:g}"
    say(f"{what}: {figure:.2f} ({bound}): {'reached' if right else 'NOT reached'}")
    return right


def main() -> int:
    """Measure; see the top of the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=GROUPS, action="append")
    parser.add_argument("--sample", type=int, default=SAMPLE, help="workloads for scaling and dask")
    options = parser.parse_args()
    wanted = options.only or GROUPS
    names = architectures()
    some = random.Random(0).sample(names, min(options.sample, len(names)))
    good: list[bool] = []
    say(f"{len(names)} architectures, {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory(prefix="mpsprobe-") as made:
        folder = Path(made)
        if "small" in wanted:
            one, _ = swept(folder, names, "--size", "small", "--jobs", "2", "--torch", LATEST)
            good.append(reached("all architectures, small, one release, minutes", one / 60, most=15))
            every, _ = swept(folder, names, "--size", "small", "--jobs", "2")
            good.append(reached("all architectures, small, all releases, minutes", every / 60, most=20))
        if "real" in wanted:
            seconds, _ = swept(folder, names, "--jobs", "2")
            good.append(reached("all architectures, real, all releases, minutes", seconds / 60, most=45))
        if "scaling" in wanted or "dask" in wanted:
            four, _ = swept(folder, some, "--size", "small", "--jobs", "4")
            if "scaling" in wanted:
                alone, _ = swept(folder, some, "--size", "small", "--jobs", "1")
                good.append(reached("4 processes against 1", alone / four, least=3.2))
            if "dask" in wanted:
                with cluster(folder, 4) as address:
                    through, _ = swept(folder, some, "--size", "small", "--scheduler", address)
                good.append(reached("a Dask cluster of 4 workers against 4 processes", through / four, most=1.15))
    return int(not all(good))


if __name__ == "__main__":
    sys.exit(main())
