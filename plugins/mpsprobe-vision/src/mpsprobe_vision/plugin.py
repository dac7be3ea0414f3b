"""What this plugin offers. Thin: it imports neither torch nor timm nor torchvision."""

from __future__ import annotations

from mpsprobe import hookimpl
from mpsprobe.declarations import WorkloadDeclaration
from mpsprobe_vision.names import NAMED, TARGETS


@hookimpl
def mpsprobe_workloads() -> list[WorkloadDeclaration]:
    """Names that need no prefix."""
    return [
        WorkloadDeclaration(name, TARGETS["torchvision"], summary, "vision", requires=("torchvision",))
        for name, summary in NAMED.items()
    ]


@hookimpl
def mpsprobe_resolve_workload(name: str) -> WorkloadDeclaration | None:
    """``timm:NAME`` and ``torchvision:NAME``, whether there is such a model or not: only its library knows."""
    library, colon, _ = name.partition(":")
    if not colon or library not in TARGETS or not name.isprintable():
        return None
    return WorkloadDeclaration(name, TARGETS[library], f"a model of {library}", "vision", requires=(library,))
