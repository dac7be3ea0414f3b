"""What a sweep is to find out, and by what: names, phases, dtypes and releases; versions and the kernel tables."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from mpsprobe.declarations import PHASES
from mpsprobe.environment import collect_environment
from mpsprobe.errors import UsageError
from mpsprobe.plugins.registry import Registry
from mpsprobe.suggestions import printable
from mpsprobe_atlas.store import Key
from mpsprobe_atlas.tables import tables

OURS, TORCH = "mpsprobe-", "torch"
LIBRARIES = ("diffusers", "timm")
"""What workloads are built from, besides what every report names (torch, torchvision, transformers)."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a sweep is asked for.

    Attributes:
        names: of workloads, patterns resolved.
        phases: ``inference``, ``training``, ``generate``.
        dtypes: of the parameters.
        size: ``real`` or ``small``.
        releases: of torch, oldest first.
    """

    names: tuple[str, ...]
    phases: tuple[str, ...]
    dtypes: tuple[str, ...]
    size: str
    releases: tuple[str, ...]

    def keys(self, registry: Registry) -> list[Key]:
        """The rows, in the order in which they are worked on. What a workload cannot do is left out.

        Raises:
            UnknownName: nothing answers to a name; carries the nearest ones.
            UsageError: one is of another framework than torch, or nothing is left.
        """
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
        return {"versions": versions(), "tables": tables(), "releases": list(plan.pop("releases")), "plan": plan}


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
