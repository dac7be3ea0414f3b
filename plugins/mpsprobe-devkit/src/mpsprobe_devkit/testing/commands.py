"""Runs the installed command as a user does: a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a command left behind: its exit code, and both outputs as text with ``\\n`` line ends.

    Attributes:
        code: the exit code.
        stdout: standard output.
        stderr: standard error.
    """

    code: int
    stdout: str
    stderr: str

    def json(self) -> Any:
        """Standard output as JSON; asserts that the command succeeded, showing its errors otherwise."""
        import json

        assert self.code == 0, self.stderr
        return json.loads(self.stdout)


def command_path() -> Path:
    """The ``mpsprobe`` command of this environment.

    Raises:
        FileNotFoundError: mpsprobe is imported from somewhere without being installed.
    """
    name = "mpsprobe.exe" if sys.platform == "win32" else "mpsprobe"
    path = Path(sysconfig.get_path("scripts")) / name
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist: install mpsprobe into this environment (pip install -e .)")
    return path


def command_environment(
    variables: Mapping[str, str] | None = None, plugin_folders: Iterable[str | Path] = ()
) -> dict[str, str]:
    """This process's variables without ``MPSPROBE_*`` ones, plus ``variables``; English and not coloured.

    Args:
        plugin_folders: put in front of ``PYTHONPATH``, so that what ``install_plugin`` wrote there is found.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MPSPROBE_")}
    folders = [str(folder) for folder in plugin_folders]
    if inherited := kept.get("PYTHONPATH"):
        folders.append(inherited)
    if folders:
        kept["PYTHONPATH"] = os.pathsep.join(folders)
    return {**kept, "NO_COLOR": "1", "COLUMNS": "120", **(variables or {})}


def run_cli(
    *arguments: str | Path,
    cwd: str | Path | None = None,
    stdin: str | bytes = b"",
    variables: Mapping[str, str] | None = None,
    plugin_folders: Iterable[str | Path] = (),
    timeout: float = 300,
) -> CommandResult:
    """Run ``mpsprobe ARGUMENTS`` and wait for it.

    Args:
        cwd: the folder to run in. Give one outside of any checkout where ``pyproject.toml`` matters.
        stdin: what it reads from standard input.
        variables: environment variables to add; ``MPSPROBE_*`` of this process are not passed on.
        plugin_folders: folders that ``install_plugin`` wrote to.
        timeout: seconds until it counts as hanging.
    """
    finished = subprocess.run(
        [command_path(), *map(str, arguments)],
        cwd=cwd,
        input=stdin.encode() if isinstance(stdin, str) else stdin,
        capture_output=True,
        env=command_environment(variables, plugin_folders),
        timeout=timeout,
        check=False,
    )
    stdout, stderr = (output.decode("utf-8").replace("\r\n", "\n") for output in (finished.stdout, finished.stderr))
    return CommandResult(finished.returncode, stdout, stderr)
