"""Small tools that come with a system, asked for one fact: never waited for long, never an error."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

TIMEOUT_S = 5.0
MOST_CHARACTERS = 10_000


def ask(command: Sequence[str]) -> str | None:
    """What ``command`` prints, without blanks around it; ``None`` if it is not there, fails, hangs or says nothing."""
    try:
        ended = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            timeout=TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    printed = ended.stdout[:MOST_CHARACTERS].strip()
    return printed if ended.returncode == 0 and printed else None
