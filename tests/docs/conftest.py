"""The site, built once for all tests that look at it, however many processes they run in."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.house.tree import ROOT

DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS))  # the package _site, as in docs/conf.py
LONGEST_BUILD_S = 600


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What looks at the built site is thorough: the build takes half a minute."""
    for item in items:
        if "site" in getattr(item, "fixturenames", ()):
            item.add_marker("thorough")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built site; the build treats warnings as errors."""
    return Path(_built_once(tmp_path_factory.getbasetemp()) / "html")


def _built_once(base: Path) -> Path:
    """Of the processes of pytest-xdist the first one builds, and the others wait for it."""
    shared = base.parent if base.name.startswith("popen-") else base
    folder = shared / "site"
    try:
        folder.mkdir()
    except FileExistsError:
        ends = time.monotonic() + LONGEST_BUILD_S
        while not (folder / "done").exists():
            assert time.monotonic() < ends, "the process that builds the site has not finished"
            time.sleep(0.2)
    else:
        command = [
            sys.executable,
            "-m",
            "sphinx",
            "-W",
            "--keep-going",
            "-q",
            "-b",
            "html",
            "-d",
            str(folder / "doctrees"),
        ]
        ended = subprocess.run(
            [*command, str(DOCS), str(folder / "html")], capture_output=True, text=True, encoding="utf-8", check=False
        )
        (folder / "done").write_text(ended.stderr if ended.returncode else "", encoding="utf-8")
    wrong = (folder / "done").read_text(encoding="utf-8")
    assert not wrong, wrong
    return folder
