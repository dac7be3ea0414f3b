"""The markers of ``markers.toml``: facts about a release that are no registrations."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib.resources import files

MARKER_STRINGS: Mapping[str, tuple[str, ...]] = {
    marker: tuple(strings)
    for marker, strings in tomllib.loads((files(__package__) / "markers.toml").read_text(encoding="utf-8")).items()
}
"""Marker → the messages in the binary, any of which shows it."""
