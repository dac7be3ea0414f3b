"""What all tests share, the plugins' among them: Hypothesis profiles and a folder for plugins that a test makes."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.left_as_found"]

# The tests fill the cores themselves; additional threads of torch would only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# What a test sees is worked out in it, by the code under test. Tests of the cache switch it on, in their own folder.
os.environ["MPSPROBE_NO_CACHE"] = "1"

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started in the background of a shell, which makes a whole tree of processes deaf to Ctrl-C: tests send it.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Timing on a shared CI machine says nothing about the code, so no example has a deadline.
settings.register_profile("default", deadline=None)
# The same examples in each run of CI, as Hypothesis itself has it there; new ones are looked for everywhere else.
settings.register_profile(
    "ci", deadline=None, derandomize=True, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The slow ones begin first, so that none is left over at the end; the others stay in the order that was drawn."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.fixture
def plugin_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on ``sys.path`` for ``install_plugin``; modules imported from it are forgotten afterwards."""
    folder = tmp_path / "plugins"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    before = set(sys.modules)
    yield folder
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None) or ""
        if file.startswith(str(folder)):
            del sys.modules[name]
