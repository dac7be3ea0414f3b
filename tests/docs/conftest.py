"""The site, built once for all tests that look at it, however many processes they run in."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.tree import ROOT
from tests.once import built_once

DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS))  # the package _site, as in docs/conf.py


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What looks at the built site is thorough: the build takes half a minute."""
    for item in items:
        if "site" in getattr(item, "fixturenames", ()):
            item.add_marker("thorough")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built site; the build treats warnings as errors."""
    return built_once(tmp_path_factory.getbasetemp(), "site", _build) / "html"


def _build(folder: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "-d", str(folder / "doctrees")]
    ended = subprocess.run(
        [*command, str(DOCS), str(folder / "html")], capture_output=True, text=True, encoding="utf-8", check=False
    )
    assert ended.returncode == 0, ended.stderr
