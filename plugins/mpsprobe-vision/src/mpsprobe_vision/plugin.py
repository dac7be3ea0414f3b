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
    return _model(library, name)


@hookimpl
def mpsprobe_workload_space(space: str) -> list[WorkloadDeclaration] | None:
    """Every model that the installed library has, by name."""
    if space not in TARGETS:
        return None
    from mpsprobe_vision.libraries import import_library

    known = import_library("timm" if space == "timm" else "torchvision.models", f"{space}:*").list_models()
    return [_model(space, f"{space}:{name}") for name in known]


def _model(library: str, name: str) -> WorkloadDeclaration:
    return WorkloadDeclaration(name, TARGETS[library], f"a model of {library}", "vision", requires=(library,))
