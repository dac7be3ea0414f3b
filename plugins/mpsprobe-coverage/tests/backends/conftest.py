"""Makes the made workloads of the scanner's tests importable, and a registry with one plugin of the test's own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mpsprobe.registry import use_registry

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "scanner")]


@pytest.fixture
def bring() -> Iterator[Any]:
    """``bring(tables, name="made")`` makes ``tables`` those of the backend ``name`` in this process."""
    import made_backend

    yield made_backend.bring
    use_registry(None)
