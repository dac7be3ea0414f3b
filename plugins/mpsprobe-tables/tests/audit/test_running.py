"""A few real OpInfo entries on the virtual device and on the CPU; how the work is cut, and done in processes."""

from __future__ import annotations

import random

import numpy
import pytest
import torch

from mpsprobe.errors import UnknownName
from mpsprobe.progress import SilentProgress
from mpsprobe_coverage.knowledge.kernels.mps import load_table
from mpsprobe_devkit.testing.fakes import FakeProgress
from mpsprobe_tables.audit.entries import entries, entry_named
from mpsprobe_tables.audit.judging import outcome_of
from mpsprobe_tables.audit.procedure import draw, is_for_mps, undisturbed
from mpsprobe_tables.audit.running import CHUNK, Pair, Task, entries_to_run, run_entries, run_tasks, tasks_for

RELEASE = "2.13.0"
TABLE = load_table(RELEASE)


def _run(entry: str, dtype: str = "float32", **options: object) -> Pair:
    [pair] = run_entries([entry], dtype, [TABLE], **options)  # type: ignore[arg-type]
    return pair


OUTCOMES = {
    ("abs", "float32", True): "runs",
    ("linalg.eig", "float32", False): "refused",
    ("normal", "float32", True): "runs",  # its gradients do not depend on what was drawn
    ("nn.functional.dropout", "float32", False): "runs",
    ("nn.functional.dropout", "float32", True): "random",
    ("nn.functional.mish", "int32", False): "reference raises",
    ("equal", "float32", True): "reference raises",  # the test itself iterates over a truth value
    ("floor_divide", "float32", True): "reference raises",  # no derivative anywhere
    ("tensor_split", "float32", False): "runs",  # with indices on the CPU, where the sampler leaves them
    ("nn.functional.max_unpool2d", "bool", False): "reference raises",  # its samples are drawn on the device
}


def test_outcomes() -> None:
    found = {case: outcome_of(_run(case[0], case[1]), "2.13.0", case[2], "none")[0] for case in OUTCOMES}
    assert found == OUTCOMES


def test_what_was_called_is_kept_with_its_dtypes() -> None:
    pair = _run("abs")
    [ran] = pair.runs.values()
    called = {(seen.operator, seen.phase, seen.verdict, seen.inputs[:1]) for seen in ran.calls}
    assert ("aten::abs.out", "forward", "native", ("float32",)) in called
    assert any(phase == "backward" for _, phase, _, _ in called)
    assert not ran.raised
    assert pair.samples == len(draw(entry_named("abs"), "float32"))
    [ran] = _run("abs", gradient=False).runs.values()
    assert {seen.phase for seen in ran.calls} == {"forward"}


def test_two_ways_of_judging_in_one_run() -> None:
    pair = _run("nn.functional.linear", "int16", lists=("none", "neighbours"))
    assert set(pair.runs) == {("2.13.0", "none"), ("2.13.0", "neighbours")}
    assert "list" not in [seen.source for seen in pair.runs["2.13.0", "none"].calls]


def test_several_releases_share_samples_and_runs_where_they_differ_in_nothing() -> None:
    tables = [load_table(release) for release in ("2.8.0", "2.9.0", "2.9.1", "2.15.0")]
    [pair] = run_entries(["linalg.qr"], "float32", tables)
    refused = {release: any(seen.refuses for seen in ran.calls) for (release, _), ran in pair.runs.items()}
    assert refused == {"2.8.0": True, "2.9.0": True, "2.9.1": True, "2.15.0": False}
    assert pair.runs["2.9.0", "none"] is pair.runs["2.9.1", "none"]
    assert pair.runs["2.8.0", "none"] is not pair.runs["2.9.0", "none"]


def _drawn() -> tuple[float, ...]:
    return random.random(), numpy.random.rand(), torch.rand(()).item()


def test_the_process_is_left_as_it_was() -> None:
    seed = torch.manual_seed
    found = []
    for entry in (None, "nn.functional.dropout"):
        random.seed(1)
        numpy.random.seed(1)
        torch.manual_seed(1)
        if entry is not None:
            _run(entry)
        found.append(_drawn())
    assert found[0] == found[1]
    assert torch.manual_seed is seed


def test_samples_are_those_for_mps_and_the_same_in_every_process() -> None:
    with undisturbed():
        [first, *_] = draw(entry_named("tensor_split"), "float32")
        [made, *_] = draw(entry_named("full"), "float32")
        one, other = ([sample.input for sample in draw(entry_named("add"), "float32")] for _ in range(2))
    assert is_for_mps(first.input)
    assert not is_for_mps(first.args[0]), "the sampler names no device, so these stay on the CPU"
    assert made.kwargs["device"] == "mps:0"
    assert all(map(torch.equal, one, other)) and len(one) == len(other)


def test_the_database() -> None:
    assert {"abs", "divno_rounding_mode", "_upsample_bicubic2d_aa"} <= entries().keys()
    assert torch.complex64 in entry_named("abs").supported_dtypes("mps")
    assert torch.complex64 not in entry_named("svd_lowrank").supported_dtypes("mps")


def test_a_dtype_that_is_not_known() -> None:
    with pytest.raises(UnknownName, match="did you mean 'float32'"):
        run_entries(["abs"], "floa32", [TABLE])


def test_a_reference_in_float32_counts_where_it_can_be_compared() -> None:
    cases = {
        ("ceil", "bool"): (True, True),
        ("nn.functional.softplus", "bool"): (True, False),  # 0.69 is neither true nor false
        ("kthvalue", "bool"): (False, True),  # two tensors: PyTorch's test does not try again
        ("linspace", "bool"): (False, True),  # no tensor is given
        ("polar", "float16"): (True, True),
    }
    found = {case: _run(*case) for case in cases}
    assert {case: (pair.upcast, pair.exact) for case, pair in found.items()} == cases
    assert all(pair.forward is not None for pair in found.values())


def test_each_entry_of_a_dtype_is_in_one_piece() -> None:
    tasks = tasks_for(("float32", "bool"), (RELEASE,), ("none",))
    for dtype in ("float32", "bool"):
        keys = [key for task in tasks if task.dtype == dtype for key in task.keys]
        assert sorted(keys) == sorted(entries_to_run(dtype, (RELEASE,)))
        assert len(keys) == len(set(keys)) > 300
    sizes = {len(task.keys) for task in tasks}
    assert max(sizes) <= CHUNK


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
