"""From what a sweep is to find out, and by what versions, rules and tables, to a store that has all of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mpsprobe.declarations import PHASES
from mpsprobe.environment import collect_environment
from mpsprobe.errors import UsageError
from mpsprobe.plugins.registry import Registry
from mpsprobe.progress import SilentProgress
from mpsprobe.suggestions import printable
from mpsprobe_atlas.store import Key, Row, WritableStore
from mpsprobe_coverage.rules import digest

OURS, TORCH = "mpsprobe-", "torch"
LIBRARIES = ("diffusers", "timm")
"""What workloads are built from, besides what every report names (torch, torchvision, transformers)."""
Source = Callable[[Sequence[Key]], Generator[Row]]
"""Works out a row for each key, each as soon as it is there: by processes of this machine, or by a cluster."""


@dataclass(frozen=True, slots=True)
class Plan:
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
    import importlib.metadata

    environment = collect_environment()
    found = {"mpsprobe": environment.mpsprobe, "torch": environment.torch, "transformers": environment.transformers}
    found["torchvision"] = environment.torchvision
    for one in importlib.metadata.distributions():
        name = one.metadata["Name"]
        if name in LIBRARIES or (name.startswith(OURS) and name not in ("mpsprobe-devkit", "mpsprobe-tables")):
            found[name] = one.version
    return {name: version for name, version in sorted(found.items()) if version is not None}


@dataclass(frozen=True, slots=True)
class Outcome:
    known: int  # rows that were there before
    answered: int  # rows with an answer, of all
    failed: tuple[Row, ...]  # rows without one, of all
    seconds: float  # that it took
    complete: bool  # whether nothing is left of the plan


def sweep_into(
    path: str | Path,
    about: dict[str, Any],
    keys: Sequence[Key],
    source: Source,
    progress: SilentProgress,
    *,
    again: bool = False,
) -> Outcome:
    """Work out what of ``keys`` has no row in the store at ``path`` yet, or failed and is tried ``again``.

    Each row is durable at once. ``about`` is as ``WritableStore`` takes it.
    """
    started = time.monotonic()
    complete = True
    with WritableStore(path, about) as store:
        known = {row.key for row in store.rows() if row.state == "answered" or not again}
        left = [key for key in keys if key not in known]
        if left:
            complete = _work(store, left, source, progress)
        asked = set(keys)
        rows = [row for row in store.rows() if row.key in asked]
    bad = tuple(row for row in rows if row.state == "failed")
    return Outcome(len(keys) - len(left), len(rows) - len(bad), bad, time.monotonic() - started, complete)


def _work(store: WritableStore, left: Sequence[Key], source: Source, progress: SilentProgress) -> bool:
    started = time.monotonic()
    progress.start(len(left), "starting")
    try:
        with closing(source(left)) as rows:
            for done, row in enumerate(rows, 1):
                store.add(row)
                rate = 60 * done / (time.monotonic() - started)
                progress.advance(f"{rate:.0f} a minute, last {printable(row.workload)} ({row.phase})")
    except KeyboardInterrupt:
        return False
    finally:
        progress.stop()
    return True
