# ruff: noqa: T201 - a program for a terminal
"""A sweep, of which something is killed at a random moment; then the same sweep again, and its rows.

By hand, twenty times each: ``python plugins/mpsprobe-atlas/tests/killing.py sweep|worker|cluster-worker|scheduler 20``.
The seed is the third argument; it is printed with each time.
"""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import psutil

from mpsprobe.errors import MpsprobeError
from mpsprobe_atlas.answers import unpack
from mpsprobe_atlas.store import Store

MODELS = """
import torch

class Model(torch.nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(layers)))
    def forward(self, x):
        return self.layers(x).cumsum(0)

""" + "".join(f"def model{number}():\n    return Model({number + 1}), torch.ones(2, 4)\n\n" for number in range(8))
NAMES = [f"models.py:model{number}" for number in range(8)]
PYTHON = [sys.executable, "-P", "-c", "import sys; from mpsprobe.cli.main import main; sys.exit(main())"]
THROUGH_DASK = ("cluster-worker", "scheduler")
READY_S = 120
LONGEST_PAUSE_S = 0.5


def command(store: str, scheduler: str | None) -> list[str]:
    """The sweep."""
    how = ["--jobs", "2"] if scheduler is None else ["--scheduler", scheduler]
    return [*PYTHON, "atlas", "sweep", *NAMES, "--phase", "inference", "--torch", "2.12.1,2.13.0", "-o", store, *how]


def rows(path: Path) -> list[Any]:
    """What a store has, less what depends on the clock and on how often it was tried."""
    found = []
    with Store(path) as store:
        for listed in store.rows():
            row = store.row(*listed.key)
            assert row is not None
            answers = None if row.answer is None else unpack(row.answer)
            reports = answers and [answers.report(release) for release in answers.releases]
            found.append(
                (row.key, row.state, row.error, row.architecture, row.parameters, reports, answers and answers.fits)
            )
    return found


def workers(sweep: subprocess.Popen[bytes]) -> Iterator[psutil.Process]:
    """The processes of a sweep that work rows out."""
    with contextlib.suppress(psutil.Error):
        for one in psutil.Process(sweep.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if "sweep.worker" in " ".join(one.cmdline()):
                    yield one


def dask(what: str, folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """A process of Dask: its scheduler or a worker."""
    program = [sys.executable, "-m", f"distributed.cli.dask_{what}", "--no-dashboard"]
    with (folder / "dask.log").open("ab") as log:
        return subprocess.Popen([*program, *arguments], cwd=folder, stdout=log, stderr=log)


def worker(address: str, folder: Path) -> subprocess.Popen[bytes]:
    """A worker of one thread, without a nanny that would start it again."""
    return dask("worker", folder, address, "--nthreads", "1", "--no-nanny", "--local-directory", str(folder))


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """The address of a scheduler, and the processes: itself and its two workers."""
    file = folder / f"scheduler-{time.monotonic_ns()}.json"
    options = ("--scheduler-file", str(file), "--host", "127.0.0.1", "--port", "0")
    processes = [dask("scheduler", folder, *options)]
    try:
        give_up = time.monotonic() + READY_S
        while not file.exists() and time.monotonic() < give_up:
            time.sleep(0.1)
        address = json.loads(file.read_text())["address"]
        processes += [worker(address, folder) for _ in range(2)]
        yield address, processes
    finally:
        for process in reversed(processes):
            process.kill()
            process.wait()


def swept(folder: Path, name: str, scheduler: str | None = None) -> list[Any]:
    """An undisturbed sweep (or what is left of one), and the rows of its store."""
    subprocess.run(command(name, scheduler), cwd=folder, check=True, capture_output=True, timeout=600)
    return rows(folder / name)


def there(path: Path) -> int:
    """How many rows a store has by now, which may be none yet."""
    with contextlib.suppress(MpsprobeError), Store(path) as store:
        return len(store.rows())
    return 0


def killed(folder: Path, name: str, what: str, after: int, pause: float) -> int:
    """A sweep of which ``what`` is killed when ``after`` rows are there, and ``pause`` seconds later; rows then."""
    with contextlib.ExitStack() as exits:
        address, processes = None, []
        if what in THROUGH_DASK:
            address, processes = exits.enter_context(cluster(folder))
        sweep = subprocess.Popen(
            command(name, address), cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        while there(folder / name) < after and sweep.poll() is None:
            time.sleep(0.01)
        time.sleep(pause)
        if what == "sweep":
            sweep.kill()
        elif what == "worker":
            for one in islice(workers(sweep), 1):
                one.kill()
        elif what == "cluster-worker":
            processes[1].kill()
            processes.append(worker(address or "", folder))
        else:
            processes[0].kill()
        found = there(folder / name)
        sweep.wait(600)
    return found


def main(what: str, times: int, seed: int) -> int:
    """Kill it so many times; 1 where a store has other rows afterwards."""
    chance = random.Random(seed)
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="mpsprobe-") as made:
        folder = Path(made)
        (folder / "models.py").write_text(MODELS)
        with cluster(folder) if what in THROUGH_DASK else contextlib.nullcontext((None, [])) as (address, _):
            right = swept(folder, "right.sqlite", address)
        for number in range(times):
            name = f"{number}.sqlite"
            found = killed(folder, name, what, chance.randrange(len(right)), chance.uniform(0, LONGEST_PAUSE_S))
            same = swept(folder, name) == right
            wrong += not same
            print(f"{what} {number}: killed with {found} of {len(right)} rows there; the same: {same}", flush=True)
    print(f"{what}: {times - wrong} of {times} the same (seed {seed})")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0))
