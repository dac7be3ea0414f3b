"""The colour of each verdict in a terminal; without pydantic, for commands that answer at once."""

from __future__ import annotations

STYLES = {
    "missing": "bold red",
    "unsupported": "bold red",
    "fallback": "magenta",
    "unknown": "bold",
    "native": "green",
    "composite": "none",
}
