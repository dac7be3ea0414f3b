"""The tables as ``mpsprobe kernels --backend tensorflow-metal`` lists them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mpsprobe_tensorflow import releases
from mpsprobe_tensorflow.tables import table
from mpsprobe_tensorflow.tables.advisories import all_advisories


class Tables:
    """A ``mpsprobe.protocols.RegisteredKernels``."""

    label = table.PLUGIN

    def releases(self) -> Sequence[str]:
        """Those with a table, oldest first."""
        return table.releases()

    def installed(self) -> str | None:
        """The release whose table goes with the plugin in this environment."""
        return releases.nearest()

    def advisories(self) -> Sequence[Mapping[str, Any]]:
        """What threads report of the plugin."""
        return [one.as_dict() for one in all_advisories()]

    def table(self, release: str) -> Mapping[str, Any]:
        """The newest build for Apple silicon; ``other_builds`` are those with other kernels."""
        chosen = table.load(release)
        others = [one for one in table.all_builds(release) if one.on() != chosen.on()]
        return {
            **document(chosen),
            "other_builds": [{**document(one), "registrations": len(one.registrations)} for one in others],
        }


def document(build: table.Table) -> dict[str, Any]:
    """One build as plain data."""
    return {
        "release": build.release,
        "architecture": build.architecture,
        "wheels": dict(build.wheels),
        "macos_minimum": build.macos_minimum,
        "registrations": [one.as_dict() for one in build.registrations],
        "conditional": [
            {
                "asks": list(group.asks),
                "macos": group.macos,
                "source": group.source,
                "registrations": [one.as_dict() for one in group.registrations],
            }
            for group in build.conditional
        ],
        "defines": list(build.defines),
    }
