"""Small tools that come with a system, asked for one fact: never waited for long, never an error."""

from __future__ import annotations

import subprocess

TIMEOUT_S = 5.0
MOST_CHARACTERS = 10_000


def ask(command: list[str]) -> str | None:
    """What ``command`` prints, without blanks around it; ``None`` if it is not there, fails, hangs or says nothing."""
    nothing = subprocess.DEVNULL
    try:
        printed = subprocess.check_output(command, stdin=nothing, stderr=nothing, timeout=TIMEOUT_S)
    except (OSError, subprocess.SubprocessError):
        return None
    return printed.decode("utf-8", "replace")[:MOST_CHARACTERS].strip() or None
