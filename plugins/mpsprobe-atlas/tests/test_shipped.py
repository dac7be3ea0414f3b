"""The atlas that the package has."""

from __future__ import annotations

from pathlib import Path

from mpsprobe.plugins.registry import get_registry
from mpsprobe_atlas import answering
from mpsprobe_atlas.store import Store
from mpsprobe_coverage.kernels.releases import torch_releases

SHIPPED = Path(answering.__file__).parent / "data" / "atlas.sqlite"
LARGEST = 15_000_000  # bytes


def test_it_knows_every_named_workload_on_every_release_or_says_why_not() -> None:
    assert SHIPPED.stat().st_size <= LARGEST
    with Store(SHIPPED, unchanging=True) as store:
        assert tuple(store.about()["releases"]) == torch_releases()
        rows = {row.workload: row for row in store.rows() if row.phase == "inference"}
    assert get_registry().workloads().keys() <= rows.keys()
    failed = {row.workload: row.error for row in rows.values() if row.state == "failed"}
    assert all(failed.values()) and len(failed) < len(rows) / 10
