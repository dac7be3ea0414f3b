"""What the tests of the check share."""

from __future__ import annotations

import pytest

from mpsprobe_devkit.checking import examination


@pytest.fixture
def untimed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves out the processes that only time the import: what they would find has tests of its own."""
    monkeypatch.setattr(examination, "TIMED_PROCESSES", 0)
