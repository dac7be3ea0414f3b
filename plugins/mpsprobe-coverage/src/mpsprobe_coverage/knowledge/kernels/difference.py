"""What changed for MPS between two releases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mpsprobe_coverage.knowledge.kernels.table import NATIVE, UNKNOWN, KernelTable


@dataclass(frozen=True, slots=True)
class Change:
    operator: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Difference:
    """From one release to another, under the backend's own key."""

    old: str
    new: str
    gained: tuple[Change, ...]  # native in the new release and not in the old one, new operators included
    lost: tuple[Change, ...]  # native in the old release, still there in the new one, not native any more
    changed: tuple[Change, ...]  # any other change of verdict of an operator that both have
    added: tuple[str, ...]
    removed: tuple[str, ...]
    keys: dict[str, tuple[tuple[str, ...], tuple[str, ...]]]  # other keys → who gained, and lost a kernel
    macos_minimum: tuple[str | None, str | None]
    markers_added: tuple[str, ...]
    markers_removed: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """For JSON; ``gained``, ``lost``, ``added`` and ``removed`` are lists of names."""
        return {
            "from": self.old,
            "to": self.new,
            "gained": [change.operator for change in self.gained],
            "lost": [change.operator for change in self.lost],
            "changed": [{"operator": c.operator, "from": c.old, "to": c.new} for c in self.changed],
            "added": list(self.added),
            "removed": list(self.removed),
            "by_key": {key: {"gained": list(g), "lost": list(lost)} for key, (g, lost) in self.keys.items()},
            "macos_minimum": {"from": self.macos_minimum[0], "to": self.macos_minimum[1]},
            "markers": {"added": list(self.markers_added), "removed": list(self.markers_removed)},
        }


def compare(old: KernelTable, new: KernelTable) -> Difference:
    gained, lost, changed = [], [], []
    for operator in sorted(old.operators | new.operators):
        change = Change(operator, old.verdict(operator), new.verdict(operator))
        if change.old == change.new:
            continue
        if change.new == NATIVE:
            gained.append(change)
        elif change.old == NATIVE and change.new != UNKNOWN:
            lost.append(change)
        elif UNKNOWN not in (change.old, change.new):
            changed.append(change)
    keys = {}
    for key in sorted({*old.keys, *new.keys} - {new.backend.key}):
        before, after = old.keys.get(key, frozenset()), new.keys.get(key, frozenset())
        if before != after:
            keys[key] = (tuple(sorted(after - before)), tuple(sorted(before - after)))
    return Difference(
        old=old.release,
        new=new.release,
        gained=tuple(gained),
        lost=tuple(lost),
        changed=tuple(changed),
        added=tuple(sorted(new.operators - old.operators)),
        removed=tuple(sorted(old.operators - new.operators)),
        keys=keys,
        macos_minimum=(old.macos_minimum, new.macos_minimum),
        markers_added=tuple(sorted(new.markers - old.markers)),
        markers_removed=tuple(sorted(old.markers - new.markers)),
    )
