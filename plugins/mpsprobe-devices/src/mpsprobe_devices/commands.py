"""Small tools that come with a system, asked for one fact: never waited for long, never an error."""

from __future__ import annotations

import subprocess

TIMEOUT_S = 5.0
MOST_CHARACTERS = 10_000


def ask(command: list[str]) -> str | None:
    """What ``command`` prints, without blanks around it; ``None`` if it is not there, fails, hangs or says nothing."""
    quiet = {"stdin": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    try:
        printed = subprocess.check_output(command, encoding="utf-8", errors="replace", timeout=TIMEOUT_S, **quiet)
    except (OSError, subprocess.SubprocessError):
        return None
    return str(printed)[:MOST_CHARACTERS].strip() or None
