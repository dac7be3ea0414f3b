"""A plugin that brings a test's own tables."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import made_backend
import pytest

from mpsprobe.plugins.registry import use_registry
from mpsprobe_devkit.testing import install_plugin

PLUGIN = """
    from mpsprobe import hookimpl
    from mpsprobe.declarations import KernelTablesDeclaration

    @hookimpl
    def mpsprobe_kernel_tables():
        return [KernelTablesDeclaration({name!r}, "made_backend:current", "Of a test.", framework={framework!r})]
"""


@pytest.fixture(autouse=True)
def _made_tables_are_of_the_installed_release(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("backends", "table"):
        monkeypatch.setattr(
            f"mpsprobe_coverage.knowledge.kernels.{module}.installed_release", lambda: made_backend.RELEASE
        )


@pytest.fixture
def bring(tmp_path: Path) -> Iterator[Any]:
    """``bring(tables, name="made")`` makes ``tables`` those of the backend ``name``, brought by mpsprobe-made 1.0."""
    before, numbers = list(sys.path), itertools.count()

    def forget() -> None:
        sys.path[:] = before
        sys.modules.pop("mpsprobe_made_plugin", None)
        use_registry(None)

    def bring(tables: Any, name: str = "made", framework: str = "torch") -> None:
        forget()
        made_backend.current = tables
        folder = tmp_path / f"plugin-{next(numbers)}"
        folder.mkdir()
        install_plugin(folder, "mpsprobe-made", PLUGIN.format(name=name, framework=framework))
        sys.path.insert(0, str(folder))

    yield bring
    forget()
