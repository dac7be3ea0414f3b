"""A sweep through a cluster, and what is killed meanwhile: the rows are those of an undisturbed sweep."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from mpsprobe.environment import installed
from mpsprobe.errors import MpsprobeError, UsageError
from mpsprobe_atlas.answers import unpack
from mpsprobe_atlas.store import Store
from mpsprobe_atlas.sweep import cluster as ours
from mpsprobe_devkit.testing import run_cli

MODELS = "import torch\n" + "\n".join(
    f"def model{number}():\n    return torch.nn.Sequential(*[torch.nn.Linear(4, 4)] * {number + 1}), torch.ones(2, 4)\n"
    for number in range(8)
)
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
            said = answers and ([answers.report(release) for release in answers.releases], answers.fits)
            found.append((row.key, row.state, row.error, row.architecture, row.parameters, said))
    return found


def workers(sweep: subprocess.Popen[bytes]) -> Iterator[psutil.Process]:
    """The processes of a sweep that work rows out."""
    with contextlib.suppress(psutil.Error):
        for one in psutil.Process(sweep.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if "sweep.rows" in " ".join(one.cmdline()):
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
        while not (file.exists() and file.stat().st_size) and time.monotonic() < give_up:
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


def kill(folder: Path, name: str, what: str, after: int, pause: float) -> None:
    """A sweep of which ``what`` is killed when ``after`` rows are there, and ``pause`` seconds later."""
    with contextlib.ExitStack() as exits:
        address, processes = None, []
        if what in THROUGH_DASK:
            address, processes = exits.enter_context(cluster(folder))
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        sweep = subprocess.Popen(command(name, address), cwd=folder, **quiet)
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
        sweep.wait(600)


@pytest.mark.thorough
def test_whatever_is_killed_the_rows_are_the_same(tmp_path: Path) -> None:
    """By hand, twenty times each: ``KILLS=20 pytest -m thorough plugins/mpsprobe-atlas/tests/test_cluster.py``.

    ``KILLED=scheduler,cluster-worker`` kills only these.
    """
    (tmp_path / "models.py").write_text(MODELS)
    right, chance = swept(tmp_path, "right.sqlite"), random.Random(21)
    assert len(right) == 8 and {state for _, state, *_ in right} == {"answered"}
    with cluster(tmp_path) as (address, _):
        assert swept(tmp_path, "cluster.sqlite", address) == right
    for number in range(int(os.environ.get("KILLS", "1"))):
        for what in os.environ.get("KILLED", ",".join(("sweep", "worker", *THROUGH_DASK))).split(","):
            name = f"{what}-{number}.sqlite"
            kill(tmp_path, name, what, chance.randrange(8), chance.uniform(0, LONGEST_PAUSE_S))
            assert swept(tmp_path, name) == right, name


def client(scheduler: dict[str, str | None], worker: dict[str, str | None], digest: str, closed: list[float]) -> Any:
    """A client, as Dask's, of a cluster with one worker, of given versions and with that digest of its tables."""
    versions = {"scheduler": {"packages": scheduler}, "workers": {"tcp://w:1": {"packages": worker}}}
    return SimpleNamespace(
        status="running",
        get_versions=lambda packages=(): versions,
        nthreads=lambda: {"tcp://w:1": 2},
        run=lambda function, workers=(): dict.fromkeys(workers, digest),
        close=lambda timeout: closed.append(timeout),
    )


def test_versions_are_compared_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    here = {name: version for name, (version, _) in installed(ours.COMPARED).items()}
    cases: tuple[tuple[dict[str, Any], str | None], ...] = (
        ({}, None),
        ({"scheduler": {"dask": "2020.1"}}, "the Dask scheduler tcp://s:1 has dask 2020.1"),
        ({"worker": {"torch": "2.0.0"}}, "the Dask worker tcp://w:1 has torch 2.0.0 (here: "),
        ({"worker": {"mpsprobe-atlas": None}}, "mpsprobe-atlas not at all"),
        ({"digest": "other"}, "other rules or kernel tables"),
    )
    for what, error in cases:
        digest = what.get("digest", ours.rules_digest())
        closed: list[float] = []
        made = client({**here, **what.get("scheduler", {})}, {**here, **what.get("worker", {})}, digest, closed)
        monkeypatch.setattr(ours, "_connected", lambda address, made=made: made)
        if error is None:
            ours.Cluster("tcp://s:1", 60, None).__exit__(None, None, None)
        else:
            with pytest.raises(UsageError, match=re.escape(error)) as refused:
                ours.Cluster("tcp://s:1", 60, None)
            assert refused.value.hint
        assert closed


@pytest.mark.slow
def test_a_scheduler_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ours, "CONNECT_S", 0.5)
    for address in ("tcp://127.0.0.1:9", "no address"):
        result = run_cli("atlas", "sweep", "bert-base", "--scheduler", address, cwd=tmp_path)
        assert (
            result.code == 2 and "no Dask scheduler answers at" in result.stderr and "dask scheduler" in result.stderr
        )
