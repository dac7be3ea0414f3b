"""The colour of verdicts and differences in a terminal."""

from __future__ import annotations

STYLES = {
    "missing": "bold red",
    "unsupported": "bold red",
    "fallback": "magenta",
    "unknown": "bold",
    "native": "green",
    "composite": "",
    "slower": "bold red",
    "larger": "bold red",
    "worse": "bold red",
    "failed": "bold red",
    "faster": "green",
    "smaller": "green",
    "better": "green",
}
