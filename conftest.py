"""What all tests share, the plugins' among them: Hypothesis profiles and a folder for plugins that a test makes."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.left_out import in_words, left_out

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


LEFT_OUT = left_out()


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """What this machine cannot run is left out as a folder."""
    return True if collection_path in LEFT_OUT else None


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """The last line of a run says what was left out, and why."""
    if LEFT_OUT and not hasattr(config, "workerinput"):
        print(in_words())  # noqa: T201 - after pytest's own last line


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Each worker begins with its share of the slow ones: ``worksteal`` gives it one block of the items, in order."""
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    slow = [item for item in items if item.get_closest_marker("slow")]
    quick = [item for item in items if not item.get_closest_marker("slow")]
    shares = [slow[worker::workers] for worker in range(workers)]
    size = -(-len(items) // workers)
    items.clear()
    for share in shares:
        rest = max(size - len(share), 0)
        items += share + quick[:rest]
        del quick[:rest]
    items += quick


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
