"""The atlas that the package has."""

from __future__ import annotations

from pathlib import Path

from mpsprobe.declarations import PHASES
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
        types = {name for name in store.about()["plan"]["names"] if name.startswith("hf:")}
        rows = store.rows()
    known = {(row.workload, row.phase) for row in rows}
    named = get_registry().workloads()
    assert {(name, phase) for name, one in named.items() for phase in one.phases if phase in PHASES} <= known
    assert types and {(name, phase) for name in types for phase in PHASES} <= known
    failed = [row.error for row in rows if row.state == "failed"]
    assert all(failed) and len(failed) < len(rows) / 10
