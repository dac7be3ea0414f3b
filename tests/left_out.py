"""Which folders of tests are left out on a machine that lacks what they need, and the words that say so.

The ``conftest.py`` at the root asks here. A folder stands in one place, this table, whatever it needs.
``python -m tests.left_out`` prints the folders, one a line, without those inside another.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
BROWSERS = ("chromium", "google-chrome", "chromium-browser", "chrome")
"""What the program is called: by Debian, by Google on Linux, by Ubuntu, by Google on Windows."""


def browser() -> str | None:
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def compiler() -> str | None:
    """The C++ compiler that torch would take, if it and ninja are there; pip puts ninja next to Python."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    return shutil.which("ninja", path=path) and shutil.which(os.environ.get("CXX", "c++"))


class Need(NamedTuple):
    """Something that a machine may lack, whether it is there (nothing is imported), and the folders that need it."""

    name: str
    is_there: Callable[[], object]
    folders: Sequence[str]


NEEDS = (
    Need("browser", browser, ("plugins/mpsprobe-atlas/tests/browser", "plugins/mpsprobe-exporters/tests/browser")),
    Need(
        "C++ compiler and ninja",
        compiler,
        (
            "plugins/mpsprobe-coverage/tests/devices/virtual/backend",
            "plugins/mpsprobe-coverage/tests/devices/native",
            "plugins/mpsprobe-coverage/tests/devices/observed/backend",
            "plugins/mpsprobe-coverage/tests/programs/compiled",
            "plugins/mpsprobe-tensorflow/tests/real/placer",
        ),
    ),
    Need("TensorFlow", lambda: find_spec("tensorflow"), ("plugins/mpsprobe-tensorflow/tests/real",)),
    Need(
        "timm and torchvision",
        lambda: find_spec("timm") and find_spec("torchvision"),
        ("plugins/mpsprobe-hf/tests/vision/real",),
    ),
)


def left_out() -> dict[Path, str]:
    """Each folder that is left out here, with the name of what it needs."""
    return {ROOT / folder: need.name for need in NEEDS if not need.is_there() for folder in need.folders}


def in_words() -> str:
    """One sentence on what is left out here and why; empty where everything is there."""
    lacking = [need for need in NEEDS if not need.is_there()]
    parts = [f"{', '.join(need.folders)} (no {need.name})" for need in lacking]
    return f"Left out on this machine: {'; '.join(parts)}." if parts else ""


if __name__ == "__main__":
    lacking = left_out()
    for folder in lacking.keys() - {one for one in lacking if not lacking.keys().isdisjoint(one.parents)}:
        print(folder)  # noqa: T201 - for a script
