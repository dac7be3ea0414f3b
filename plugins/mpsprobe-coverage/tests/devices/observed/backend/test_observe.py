"""``observe()`` in C++, on the CPU: what it sees, and that nothing else changes."""

from __future__ import annotations

import threading
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from small_training import counts, training
from torch.utils._python_dispatch import TorchDispatchMode

import mpsprobe
from mpsprobe.errors import UsageError
from mpsprobe_coverage.devices.observed.observe import disagreements, observe
from mpsprobe_coverage.knowledge.calls.keys import has_kernel, operator_name
from mpsprobe_coverage.programs.observing import report
from tests.docs.pages import COMPILER, OWN, stories
from tests.docs.running import play


class _Seen(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls[operator_name(func)] += 1
        return func(*args, **(kwargs or {}))


def test_the_same_calls_as_a_dispatch_mode_sees_and_the_same_numbers() -> None:
    with _Seen() as mode:
        bare = training()
    with observe("cpu") as run:
        results = training()
    assert all(map(torch.equal, bare, results))
    # The mode stops above composite kernels, and reshapes to another view; what these call is seen more often here.
    inside = {"empty_strided", "empty.memory_format", "fill_.Scalar", "copy_", "zero_", "uniform_"}
    inside |= {"view", "as_strided", "add.Tensor", "add_.Tensor", "mul.Tensor", "div.Tensor"}
    by_mode = {name: calls for name, calls in mode.calls.items() if has_kernel(name, "CPU")}
    expected = {name: calls for name, calls in by_mode.items() if name.removeprefix("aten::") not in inside}
    found = counts(run)
    assert len(expected) > 15 and {name: found[name] for name in expected} == expected


def test_phases_modules_and_lines() -> None:
    with observe("cpu") as run:
        training()
    kinds = [call.kind for call in run.calls()]
    products = [one for one in kinds if one.operator in ("aten::addmm", "aten::mm")]
    linear = {(one.phase, one.origin.module): one.origin for one in products}
    assert all(origin.file == training.__code__.co_filename for origin in linear.values())
    assert linear["forward", "Sequential.1"] == linear["backward", "Sequential.1"]
    assert {one.phase for one in kinds} == {"forward", "backward", "optimizer"}
    stepped = {one.operator for one in kinds if one.phase == "optimizer"}
    assert stepped >= {"aten::addcdiv_", "aten::lerp_.Scalar"}


def test_casts_of_autocast_are_calls_and_kernels_get_what_was_cast() -> None:
    layer, x = torch.nn.Linear(4, 4), torch.rand(2, 4)
    with observe("cpu") as run, torch.autocast("cpu", torch.bfloat16):
        layer(x)
    dtypes = {c.kind.inputs[0].dtype for c in run.calls() if c.kind.operator == "aten::addmm" and c.kind.inputs}
    assert dtypes == {torch.bfloat16} and counts(run)["aten::copy_"] == 3


def test_layouts() -> None:
    eye, ones = torch.eye(3), torch.ones(3, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a beta state
        compressed, sparse = eye.to_sparse_csr(), eye.to_sparse()
        nested = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)])
        with observe("cpu") as run:
            assert compressed.mm(ones).shape == sparse.mm(ones).shape and (nested * 2).is_nested
    inputs = {
        (spec.layout, spec.numel, spec.nbytes)
        for call in run.calls()
        if call.kind.operator in ("aten::mm", "aten::addmm.out", "aten::mul.Tensor")
        for spec in (call.kind.inputs or ())[-2:]
    }
    assert {(torch.sparse_csr, 9, 12), (torch.sparse_coo, 9, 12), (torch.strided, 18, 72)} <= inputs


def test_observations_nest_are_opened_again_and_see_other_threads() -> None:
    x = torch.ones(3)

    def threaded() -> None:
        thread = threading.Thread(target=lambda: [x.sin() for _ in range(50)])
        thread.start()
        thread.join()

    with observe("cpu") as outer:
        x.cos()
        with outer, observe("cpu", lines=False) as inner:
            threaded()
            inner.finish()
            assert counts(inner)["aten::sin"] == 50
        x.cos()
    x.cos()
    with inner:
        x.tan()
    assert counts(outer) == {"aten::cos": 2, "aten::sin": 50}
    assert counts(inner) == {"aten::sin": 50, "aten::tan": 1}
    assert {call.kind.origin.line for call in inner.calls() if call.kind.operator == "aten::tan"} == {0}


def test_observations_that_overlap_put_everything_back() -> None:
    before, first, second = torch.nn.Module.__call__, observe("cpu"), observe("cpu")
    first.__enter__()
    second.__enter__()
    first.__exit__()
    torch.ones(2).exp()
    second.__exit__()
    assert "aten::exp" not in counts(first) and counts(second)["aten::exp"] == 1
    assert torch.nn.Module.__call__ is before


def test_what_raises_is_no_verdict() -> None:
    with observe("cpu") as run, pytest.raises(RuntimeError):
        torch.ones(2, 3).mm(torch.ones(2, 3))
    assert [note.operator for note in run.recorder.not_judged()] == ["aten::mm"]
    assert "aten::mm" not in {record.operator for record in run.recorder.calls()}


def test_ctrl_c_between_two_calls_reaches_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    run = observe("cpu")
    x = torch.ones(2)

    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(run.attribution, "current", interrupted)
    with run, pytest.raises(KeyboardInterrupt):
        x.sin()
        x.cos()  # Python looks for signals between two calls
    assert counts(run)["aten::sin"] == 1


def test_memory_is_bounded_whatever_the_shapes() -> None:
    with observe("cpu", lines=False) as run:
        for size in range(66_000):
            torch.empty(size)
        for _ in range(3):
            run.finish()
    assert counts(run)["aten::empty.memory_format"] == 66_000
    assert len(list(run.calls())) <= 65_537
    assert [note.operator for note in run.recorder.not_judged()] == ["aten::empty.memory_format"]


def test_the_report_says_that_it_is_not_about_mps() -> None:
    with observe("cpu") as run:
        training()
    found = report(run, "training")
    assert found.method == "observed" and found.target.backend == "cpu"
    assert found.summary.calls_by_verdict == {"native": counts(run).total()}
    assert "nothing about MPS" in found.target.model_dump()["notes"][0]
    with pytest.raises(UsageError, match="no MPS"):
        report(observe("mps"), "training")


def test_the_log_of_the_profiler_is_compared() -> None:
    line = "CPU Fallback::aten::linalg_svd:MPS:Float[4, 4] (id=1, run={}, CopyOverhead=64.00 Bytes)\n"
    log = "".join(line.format(run) for run in (1, 1, 2)) + "something else\n"
    with observe("cpu") as run:
        torch.ones(2).sin()
    kind = next(run.calls()).kind
    fell_back = kind._replace(operator="aten::linalg_svd.U", happened=kind.happened | 1)
    assert disagreements([(fell_back, 2), (kind, 1)], log) == []
    [differing] = disagreements([(fell_back, 3)], log)
    assert "aten::linalg_svd fell back 3 times" in differing and "2 times" in differing


def test_what_runs_on_the_cpu_is_observed_up_to_now() -> None:
    with mpsprobe.observe("cpu") as run:
        torch.ones(2).sin()
        halfway = run.report()
        torch.ones(2).sin()
    report = run.report("two calls")
    assert (report.method, report.workload.name, report.target.backend) == ("observed", "two calls", "cpu")
    assert [{one.operator: one.calls for one in found}["aten::sin"] for found in (halfway, report)] == [1, 2]


def test_blocks_of_pages_that_observe(tmp_path: Path) -> None:
    needing = [story for page in OWN for story in stories(page, COMPILER)]
    assert len(needing) >= 2
    for number, story in enumerate(needing):
        play(story, tmp_path / str(number))
