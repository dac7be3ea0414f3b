"""A sweep through a cluster, and what is killed meanwhile: the rows are those of an undisturbed sweep."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from killing import LONGEST_PAUSE_S, MODELS, cluster, killed, rows, swept

from mpsprobe.errors import UsageError
from mpsprobe_atlas.sweep import cluster as ours
from mpsprobe_devkit.testing import run_cli


@pytest.mark.thorough
def test_whatever_is_killed_the_rows_are_the_same(tmp_path: Path) -> None:
    (tmp_path / "models.py").write_text(MODELS)
    right, chance = swept(tmp_path, "right.sqlite"), random.Random(21)
    assert len(right) == 8 and {state for _, state, *_ in right} == {"answered"}
    with cluster(tmp_path) as (address, _):
        assert swept(tmp_path, "cluster.sqlite", address) == right
    for what in ("sweep", "worker", "cluster-worker", "scheduler"):
        killed(tmp_path, f"{what}.sqlite", what, chance.randrange(8), chance.uniform(0, LONGEST_PAUSE_S))
        assert swept(tmp_path, f"{what}.sqlite") == right, what
        assert len(rows(tmp_path / f"{what}.sqlite")) == 8


class Client:
    """A client of a cluster with one worker, of given versions."""

    status = "running"

    def __init__(self, scheduler: dict[str, str | None], worker: dict[str, str | None], digest: str) -> None:
        self.scheduler, self.worker, self.digest = scheduler, worker, digest
        self.closed = False

    def get_versions(self, packages: Any = ()) -> Any:
        """As Dask's."""
        del packages
        return {"scheduler": {"packages": self.scheduler}, "workers": {"tcp://w:1": {"packages": self.worker}}}

    def nthreads(self) -> dict[str, int]:
        """Of one worker."""
        return {"tcp://w:1": 2}

    def run(self, function: Any, workers: Any = ()) -> dict[str, Any]:
        """The digest of its tables."""
        del function
        return dict.fromkeys(workers, self.digest)

    def close(self, timeout: float) -> None:
        """Say so."""
        self.closed = timeout > 0


@pytest.mark.parametrize(
    ("what", "error"),
    [
        ({}, None),
        ({"scheduler": {"dask": "2020.1"}}, "the Dask scheduler tcp://s:1 has dask 2020.1"),
        ({"worker": {"torch": "2.0.0"}}, r"the Dask worker tcp://w:1 has torch 2.0.0 \(here: "),
        ({"worker": {"mpsprobe-atlas": None}}, "mpsprobe-atlas not at all"),
        ({"digest": "other"}, "other kernel tables"),
    ],
)
def test_versions_are_compared_before_anything_is_sent(
    monkeypatch: pytest.MonkeyPatch, what: dict[str, Any], error: str | None
) -> None:
    here = {name: ours._version(name) for name in ours.COMPARED}
    digest = what.get("digest", ours.tables())
    client = Client({**here, **what.get("scheduler", {})}, {**here, **what.get("worker", {})}, digest)
    monkeypatch.setattr(ours, "_connected", lambda address: client)
    if error is None:
        with ours.Cluster("tcp://s:1", ["2.13.0"], 60, None):
            pass
    else:
        with pytest.raises(UsageError, match=error) as refused:
            ours.Cluster("tcp://s:1", ["2.13.0"], 60, None)
        assert refused.value.hint
    assert client.closed


@pytest.mark.thorough
def test_a_scheduler_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ours, "CONNECT_S", 0.5)
    for address in ("tcp://127.0.0.1:9", "no address"):
        result = run_cli("atlas", "sweep", "bert-base", "--scheduler", address, cwd=tmp_path)
        assert (
            result.code == 2 and "no Dask scheduler answers at" in result.stderr and "dask scheduler" in result.stderr
        )
