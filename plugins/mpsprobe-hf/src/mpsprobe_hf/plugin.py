"""What this plugin offers. Thin: it imports neither torch nor transformers."""

from __future__ import annotations

from collections.abc import Iterable

from mpsprobe import hookimpl
from mpsprobe.declarations import WorkloadDeclaration


@hookimpl
def mpsprobe_workloads() -> Iterable[WorkloadDeclaration]:
    """The catalog."""
    from mpsprobe_hf.catalog import entries

    return [
        WorkloadDeclaration(
            name=entry.name,
            target="mpsprobe_hf.workload:named",
            summary=entry.summary,
            family=entry.family,
            phases=entry.phases,
            requires=entry.inference.requires,
        )
        for entry in entries().values()
    ]
