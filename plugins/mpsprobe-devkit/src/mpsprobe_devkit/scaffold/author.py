"""Who writes the plugin, as git knows it; git need not be there."""

from __future__ import annotations

import re
import shutil
import subprocess

from mpsprobe_devkit.scaffold.rendering import Author

LONGEST = 100  # characters
PATIENCE_S = 5


def author_from_git() -> Author:
    """Name and address of git's configuration; what it does not know, or nobody could write to, is empty."""
    git = shutil.which("git")
    if git is None:
        return Author()
    name, email = _asked(git, "user.name"), _asked(git, "user.email")
    # hatchling refuses to build a package with an address of another form.
    return Author(name, email if re.fullmatch(r"[A-Za-z0-9._%+'-]+@[A-Za-z0-9.-]+", email) else "")


def _asked(git: str, key: str) -> str:
    try:
        answer = subprocess.run(
            [git, "config", "--get", key],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    text = answer.stdout.decode("utf-8", errors="replace") if answer.returncode == 0 else ""
    return "".join(character for character in text if character.isprintable()).strip()[:LONGEST]
