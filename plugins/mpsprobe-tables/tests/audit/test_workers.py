"""How the work is cut into pieces, and done in processes that may end."""

from __future__ import annotations

from multiprocessing import get_context
from pathlib import Path

import pytest

from mpsprobe.progress import SilentProgress
from mpsprobe_devkit.testing.fakes import FakeProgress
from mpsprobe_tables.audit import workers
from mpsprobe_tables.audit.judging import outcome_of
from mpsprobe_tables.audit.running import Pair
from mpsprobe_tables.audit.workers import Task, entries_to_run, run_tasks, tasks_for
from tests.forking import CAN_FORK

RELEASE = "2.13.0"


def test_each_entry_of_a_dtype_is_in_one_piece() -> None:
    tasks = tasks_for(("float32", "bool"), (RELEASE,), ("none",))
    for dtype in ("float32", "bool"):
        keys = [key for task in tasks if task.dtype == dtype for key in task.keys]
        assert sorted(keys) == sorted(entries_to_run(dtype, (RELEASE,)))
        assert len(keys) == len(set(keys)) > 300
    sizes = {len(task.keys) for task in tasks}
    assert max(sizes) <= workers.CHUNK


def test_only_some_entries() -> None:
    [task] = tasks_for(("float32",), (RELEASE,), ("none", "neighbours"), ("abs", "exp"))
    assert task == Task("float32", ("abs", "exp"), (RELEASE,), ("none", "neighbours"))
    assert not tasks_for(("bool",), (RELEASE,), ("none",), ("linalg.eig",))
    assert "svd_lowrank" in entries_to_run("complex64", (RELEASE,)), "MPS does not claim it, and it is run too"


@pytest.mark.thorough
def test_in_this_process_and_in_others() -> None:
    tasks = [Task("float32", (key,), (RELEASE,), ("none",)) for key in ("abs", "linalg.eig")]
    steps = FakeProgress()
    here, there = run_tasks(tasks, 1, steps), run_tasks(tasks, 2, SilentProgress())
    assert here == there
    assert [outcome_of(pair, RELEASE, False, "none")[0] for pair in here] == ["runs", "refused"]
    assert steps.steps == [("start", 2, "OpInfo entries"), *[("advance", "OpInfo entries, float32")] * 2]


def test_an_entry_that_ends_its_process_is_found(monkeypatch: pytest.MonkeyPatch, plugin_folder: Path) -> None:
    context = get_context("forkserver" if CAN_FORK else "spawn")  # which imports torch once, and not for each process
    context.set_forkserver_preload(["mpsprobe_tables.audit.workers"])
    monkeypatch.setattr(workers, "get_context", lambda _: context)
    (plugin_folder / "crashing_work.py").write_text(
        "import os\n"
        "from mpsprobe_tables.audit.running import Pair\n"
        "def work(task):\n"
        "    if 'bad' in task.keys:\n"
        "        os._exit(1)\n"
        "    return [Pair(key, task.dtype) for key in task.keys]\n",
        encoding="utf-8",
    )
    monkeypatch.setattr(workers, "work", __import__("crashing_work").work)
    tasks = [
        Task("float32", ("two", "bad"), (RELEASE,), ("none",)),
        Task("float32", ("three",), (RELEASE,), ("none",)),
        Task("bool", ("four",), (RELEASE,), ("none",)),
    ]
    found = {pair.entry: pair for pair in run_tasks(tasks, 2, SilentProgress())}
    assert list(found) == ["two", "bad", "three", "four"]
    assert outcome_of(found["bad"], RELEASE, False, "none")[:2] == (
        "internal error",
        "forward of sample -1: it ends the process",
    )
    assert found["two"] == Pair("two", "float32")
