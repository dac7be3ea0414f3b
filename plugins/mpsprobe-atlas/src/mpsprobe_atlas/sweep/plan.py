"""What a sweep is to find out, and by what: names, phases, dtypes and releases; versions, rules and tables."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from mpsprobe.declarations import PHASES
from mpsprobe.environment import collect_environment
from mpsprobe.errors import UsageError
from mpsprobe.plugins.registry import Registry
from mpsprobe.suggestions import printable
from mpsprobe_atlas.store import Key
from mpsprobe_coverage.rules import digest

OURS, TORCH = "mpsprobe-", "torch"
LIBRARIES = ("diffusers", "timm")
"""What workloads are built from, besides what every report names (torch, torchvision, transformers)."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a sweep is asked for."""

    names: tuple[str, ...]  # of workloads, patterns resolved
    phases: tuple[str, ...]  # inference, training, generate
    dtypes: tuple[str, ...]  # of the parameters
    size: str  # real or small
    releases: tuple[str, ...]  # of torch, oldest first

    def keys(self, registry: Registry) -> list[Key]:
        """The rows, in the order in which they are worked on. What a workload cannot do is left out."""
        found = []
        for name in self.names:
            declared, _ = registry.workload_and_owner(name)
            if declared.framework != TORCH:
                shown = printable(name)
                raise UsageError(
                    f"'{shown}' is a workload of {printable(declared.framework)}: an atlas compares releases of torch",
                    f"Judge it by itself: mpsprobe coverage {shown} --release all",
                )
            for phase in self.phases:
                if phase in declared.phases or phase not in PHASES:
                    found += [Key(name, self.size, phase, dtype) for dtype in self.dtypes]
        if not found:
            some = ", ".join(map(printable, self.names[:3]))
            raise UsageError(
                f"nothing is to be done: {some} cannot do {', '.join(self.phases)}", "Name another --phase."
            )
        return found

    def about(self) -> dict[str, Any]:
        """What the store says about itself."""
        plan = asdict(self)
        return {"versions": versions(), "tables": digest(), "releases": list(plan.pop("releases")), "plan": plan}


def versions() -> dict[str, str]:
    """The versions that an answer depends on, by distribution."""
    import importlib.metadata

    environment = collect_environment()
    found = {"mpsprobe": environment.mpsprobe, "torch": environment.torch, "transformers": environment.transformers}
    found["torchvision"] = environment.torchvision
    for one in importlib.metadata.distributions():
        name = one.metadata["Name"]
        if name in LIBRARIES or (name.startswith(OURS) and name not in ("mpsprobe-devkit", "mpsprobe-tables")):
            found[name] = one.version
    return {name: version for name, version in sorted(found.items()) if version is not None}
