"""A pytest plugin with fixtures. In a ``conftest.py``: ``pytest_plugins = ["mpsprobe_devkit.testing.fixtures"]``.

It is not loaded by itself: a test suite that has mpsprobe installed for another reason notices nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from mpsprobe.errors import UnknownName
from mpsprobe.schemas import Report
from mpsprobe_devkit.testing.commands import CommandResult, run_cli
from mpsprobe_devkit.testing.samples import sample_reports
from mpsprobe_devkit.testing.virtual import OpenDevice, open_virtual_device


@pytest.fixture
def virtual_device() -> Callable[..., OpenDevice]:
    """Opens the virtual MPS device of a torch release: ``with virtual_device("2.6.0") as device:``.

    ``mpsprobe_devkit.testing.OpenDevice`` says what it can do, ``open_virtual_device`` what it takes. Without
    mpsprobe-coverage it raises ``MissingPackage``, which says what to install.
    """
    return open_virtual_device


@pytest.fixture
def sample_report() -> Callable[..., Report]:
    """Gives the sample report of a kind: ``sample_report("profile")``; of ``coverage`` without a kind."""

    def sample(kind: str = "coverage") -> Report:
        samples = sample_reports()
        if kind not in samples:
            raise UnknownName("kind of report", kind, samples, f"There are: {', '.join(samples)}.")
        return samples[kind]

    return sample


@pytest.fixture
def mpsprobe_command(tmp_path: Path) -> Callable[..., CommandResult]:
    """Runs the installed command in an empty folder: ``mpsprobe_command("workloads", "list").json()``.

    It takes what ``mpsprobe_devkit.testing.run_cli`` takes.
    """
    folder = tmp_path / "mpsprobe-command"
    folder.mkdir()
    return partial(run_cli, cwd=folder)
