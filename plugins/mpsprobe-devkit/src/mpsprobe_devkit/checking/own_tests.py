"""Runs the tests of a plugin's folder, as though the plugin were installed."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from mpsprobe.errors import MissingPackage, UsageError
from mpsprobe.plugins.discovery import GROUP
from mpsprobe_devkit.checking.findings import Finding, finding
from mpsprobe_devkit.checking.subject import FOLDER, Subject

LIMIT_S = 900.0
NO_TESTS = 5  # exit code of pytest
FAILED = re.compile(r"^(?:FAILED|ERROR) (.+)$", re.MULTILINE)
MOST_SHOWN = 5
SHOWN_CHARACTERS = 100_000


def check_that_tests_can_run(subject: Subject) -> None:
    """Say at once what is missing.

    Raises:
        UsageError: what is checked is not a folder.
        MissingPackage: pytest is not installed.
    """
    if subject.kind != FOLDER:
        raise UsageError(f"'{subject.shown}' is not a folder, so it has no tests to run", "Leave out --tests.")
    if importlib.util.find_spec("pytest") is None:
        raise MissingPackage("--tests", "mpsprobe-devkit")


def run_own_tests(subject: Subject) -> tuple[list[Finding], str]:
    """What pytest says in the subject's folder: findings, and its last line (``14 passed in 2.31s``).

    The plugin need not be installed: its packages are put on ``PYTHONPATH``, and so is metadata that names its entry
    points, so that commands which the tests start find it too.
    """
    with tempfile.TemporaryDirectory(prefix="mpsprobe-", ignore_cleanup_errors=True) as folder:
        _write_metadata(subject, Path(folder))
        paths = [folder, *map(str, subject.paths), os.environ.get("PYTHONPATH", "")]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path for path in paths if path),
            "PYTHONDONTWRITEBYTECODE": "1",
            "NO_COLOR": "1",
        }
        command = [sys.executable, "-P", "-m", "pytest", "-q", "-rfE", "--color=no", "-p", "no:cacheprovider"]
        output = Path(folder) / "output.txt"
        with output.open("wb") as stream:
            try:
                ended = subprocess.run(
                    command,
                    cwd=subject.root,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=stream,
                    stderr=subprocess.STDOUT,
                    timeout=LIMIT_S,
                    check=False,
                ).returncode
            except subprocess.TimeoutExpired:
                return [finding("tests-failed", f"pytest does not end within {LIMIT_S:g} s", "tests")], "not at an end"
        text = output.read_bytes()[-SHOWN_CHARACTERS:].decode("utf-8", "replace")
    last = next((line for line in reversed(text.splitlines()) if line.strip()), "").strip("= ")
    if ended == 0:
        return [], last
    if ended == NO_TESTS:
        return [finding("no-tests", "pytest finds no tests", subject.shown)], last
    failed = FAILED.findall(text)
    found = [finding("tests-failed", one, "tests") for one in failed[:MOST_SHOWN]]
    if len(failed) > MOST_SHOWN:
        found.append(finding("tests-failed", f"and {len(failed) - MOST_SHOWN} more: {last}", "tests"))
    return found or [finding("tests-failed", f"pytest ends with exit code {ended}: {last}", "tests")], last


def _write_metadata(subject: Subject, folder: Path) -> None:
    """A distribution's metadata, without the distribution."""
    name = re.sub(r"[^A-Za-z0-9.]+", "_", subject.distribution)
    version = subject.version if re.fullmatch(r"[0-9][\w.+!-]*", subject.version) else "0"
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir()
    requires = "".join(f"Requires-Dist: mpsprobe{one}\n" for point in subject.entry_points for one in point.requires)
    distribution = " ".join(subject.distribution.split())
    metadata = f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n{requires}"
    (info / "METADATA").write_text(metadata, encoding="utf-8")
    lines = "".join(f"{one.name} = {one.target}\n" for one in subject.entry_points)
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{lines}", encoding="utf-8")
