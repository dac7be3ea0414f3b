"""A workload becomes a report: what is counted, where, and what happens when it does not run to its end."""

from __future__ import annotations

import gc
import sys
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from made_workloads import Made, calling, calls, finding, scan, scan_many

from mpsprobe.errors import UsageError, WorkloadError
from mpsprobe.protocols import RunOptions, TorchRun
from mpsprobe_coverage.kernels.mps import MpsFamily
from mpsprobe_coverage.scanner import garbage
from mpsprobe_coverage.scanner.scan import CoverageScanner
from mpsprobe_devkit.testing import FakeProgress


def _singular_values(y: torch.Tensor) -> Any:
    return torch.linalg.svd(y)[1]


def test_a_finding_has_everything_that_is_known_of_an_operator() -> None:
    report = scan(calling(_singular_values), "2.13.0")
    linear, svd = finding(report, "linear"), finding(report, "linalg_svd")
    assert (linear.verdict, linear.calls, linear.phases) == ("native", 1, {"forward": 1})
    assert (linear.modules, linear.dtypes, linear.shapes) == (["first"], ["float32"], ["2x4, 3x4, 3"])
    # 2x4 inputs, 3x4 weights and 3 biases, of four bytes each; 2x3 outputs.
    assert (linear.input_bytes, linear.output_bytes) == ((8 + 12 + 3) * 4, 24)
    assert (linear.native_since, linear.reason, linear.advice) == ("1.13.0", None, None)
    # linalg_svd has no kernel of its own in any release; from 2.14.0 on it is made of _linalg_svd, which has one, and
    # from 2.14.1 on that keeps small matrices on the GPU too.
    assert (svd.verdict, svd.native_since, svd.modules) == ("fallback", "2.14.1", ["(model)"])
    assert svd.advice is not None and svd.reason is not None and "CPU" in svd.reason
    assert svd.call_sites[0].endswith(f"test_scan.py:{_singular_values.__code__.co_firstlineno + 1}")
    assert Path(svd.call_sites[0].rpartition(":")[0]).name == "test_scan.py"


def test_counts_and_the_worst_verdict_first() -> None:
    report = scan(calling(lambda y: torch.linalg.svd(y.sin().sin())[1].double()), "2.13.0")
    verdicts = [one.verdict for one in report.operators]
    assert verdicts == sorted(verdicts, key=["unsupported", "missing", "fallback", "unknown", "native"].index)
    assert calls(report, "forward")["sin"] == 2
    summary = report.summary
    assert summary.calls == sum(one.calls for one in report.operators) == sum(summary.calls_by_verdict.values())
    assert summary.operators == len({one.operator for one in report.operators})
    assert summary.operators_by_verdict["fallback"] == 1 and summary.operators_by_verdict["unsupported"] >= 1
    assert summary.parameters_bytes == (12 + 3) * 4 and report.workload.parameters == 15


def test_the_smallest_release_for_which_all_is_native() -> None:
    assert scan(calling(), "2.13.0").summary.native_since == "1.12.0"
    assert scan(calling(lambda y: y.cumsum(0)), "2.13.0").summary.native_since == "2.0.0"
    assert scan(calling(lambda y: y.cumsum(0)), "1.13.1").summary.native_since == "2.0.0"
    assert scan(calling(_singular_values), "2.4.1").summary.native_since == "2.14.1"
    pool = calling(lambda y: torch.nn.functional.adaptive_avg_pool3d(y[None, None, None], 2))
    assert scan(pool, "2.13.0").summary.native_since is None


def test_one_native_release_among_others() -> None:
    report = scan_many(calling(lambda y: y.cumsum(0)), ["1.12.1", "1.13.1", "2.0.0", "2.13.0"])
    assert [cell.target.torch for cell in report.releases] == ["1.12.1", "1.13.1", "2.0.0", "2.13.0"]
    assert [cell.findings for cell in report.releases] == [{"aten::cumsum.out": "missing"}] * 2 + [{}] * 2
    assert report.native_since == "2.0.0"
    assert {one.operator for one in report.operators} >= {"aten::linear", "aten::cumsum"}


def test_releases_do_not_disturb_each_other() -> None:
    def count(y: torch.Tensor) -> torch.Tensor:
        return y * len(torch.nonzero(counter.add_(1)))

    counter = torch.zeros(3)
    alone = [scan(calling(count), release) for release in ("2.0.0", "2.13.0")]
    together = scan_many(calling(count), ["2.0.0", "2.13.0"])
    assert [cell.summary.calls for cell in together.releases] == [one.summary.calls for one in alone]


def test_what_a_model_writes_into_its_input_is_gone_in_the_next_release() -> None:
    class Writes(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x.add_(1)
            for _ in range(int(x.sum())):
                x = torch.sin(x)
            return x

    report = scan_many(Made(lambda: TorchRun(Writes(), (torch.zeros(2),))), ["2.0.0", "2.4.1", "2.13.0"])
    assert len({cell.summary.calls for cell in report.releases}) == 1


def test_long_work_shows_progress_and_ends_it() -> None:
    progress = FakeProgress()
    CoverageScanner().scan(calling(), RunOptions(), ["2.4.1", "2.13.0"], progress)
    assert progress.steps[0] == ("start", 1, "building made")
    releases = [("start", 2, "running it on torch 2.4.1"), ("advance", "running it on torch 2.13.0")]
    assert progress.steps[1:] == [*releases, ("stop",)]
    with pytest.raises(KeyError):
        CoverageScanner().scan(Made(lambda: {}["x"]), RunOptions(), ["2.4.1", "2.13.0"], progress)
    assert progress.steps[-1] == ("stop",)


def test_the_search_for_garbage_and_threads_are_as_before() -> None:
    threads = torch.get_num_threads()
    scan(calling(), "2.13.0")
    assert torch.get_num_threads() == threads
    with pytest.raises(KeyError):
        scan(Made(lambda: {}["x"]), "2.13.0")
    assert gc.isenabled() and not gc.get_freeze_count()
    gc.disable()
    try:
        scan(Made(lambda: gc.freeze() or calling().build(RunOptions())), "2.13.0")
        assert not gc.isenabled() and gc.get_freeze_count()
    finally:
        gc.unfreeze()
        gc.enable()


@pytest.mark.thorough
@pytest.mark.parametrize("objects", [1, 10**9], ids=["doubled", "as many"])
def test_what_scans_leave_in_circles_goes_when_objects_have_doubled(
    objects: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(garbage, "_after_last", objects)
    model: Any = torch.nn.Identity()
    model.circle = [model]
    left = weakref.ref(model)
    with garbage.collecting_only_new() as begin_to_collect:
        del model
        begin_to_collect()
        assert (left() is None) == (objects == 1)


def _fail(y: torch.Tensor) -> Any:
    y = y.sin()
    raise ValueError("a shape\nthat does not fit")


def test_a_model_that_raises_leaves_what_was_judged_before() -> None:
    report = scan(calling(_fail), "2.13.0")
    assert set(calls(report, "forward")) >= {"linear", "sin"}
    failure = report.failure
    assert failure is not None
    assert (failure.phase, failure.error, failure.message) == ("forward", "ValueError", "a shape")
    assert failure.call_site is not None
    assert failure.call_site.endswith(f"test_scan.py:{_fail.__code__.co_firstlineno + 2}")
    assert report.summary.native_since is None
    many = scan_many(calling(_fail), ["2.4.1", "2.13.0"])
    assert [cell.failure.error for cell in many.releases if cell.failure] == ["ValueError"] * 2
    assert many.native_since is None


@pytest.mark.parametrize("error", [KeyboardInterrupt(), UsageError("no such size")])
def test_what_is_no_failure_of_the_model_passes_through(error: BaseException) -> None:
    def leave(y: torch.Tensor) -> None:
        raise error

    with pytest.raises(type(error)):
        scan(calling(leave), "2.13.0")
    assert scan(calling(), "2.13.0").failure is None  # the device is closed again


def test_a_model_that_ends_the_process_fails() -> None:
    """As a command's own, its exit would end the command with 0 and no output."""

    def leave(y: torch.Tensor) -> None:
        sys.exit()

    failure = scan(calling(leave), "2.13.0").failure
    assert failure is not None and failure.error == "SystemExit"


def test_guesses_are_in_the_report() -> None:
    report = scan(calling(lambda y: y * 2 if y.sum() > 0 else y.sin()), "2.13.0")
    (guess,) = report.data_dependence
    assert (guess.operator, guess.calls) == ("aten::_local_scalar_dense", 1)
    assert "False" in guess.assumed and "test_scan.py:" in guess.call_sites[0]
    assert "sin" in calls(report, "forward")


def test_a_torch_run_and_some_release_are_needed() -> None:
    with pytest.raises(WorkloadError, match=r"did not build a TorchRun, but dict"):
        scan(Made(dict), "2.13.0")
    with pytest.raises(UsageError, match="no torch release"):
        CoverageScanner().scan(calling(), RunOptions(), [], FakeProgress())


@pytest.mark.parametrize("move", [lambda m: m.cuda(), lambda m: m.to("cuda")])
def test_a_move_to_cuda_where_the_model_is_made_is_a_note(move: Any) -> None:
    report = scan(Made(lambda: TorchRun(move(torch.nn.Linear(4, 3)), (torch.ones(2, 4),))), "2.13.0")
    [note] = report.workload.notes
    assert "test_scan.py:" in note and "moves to cuda" in note and '.to("mps")' in note
    assert report.summary.operators_by_verdict == {"native": 1}


@pytest.mark.parametrize("move", [lambda y: y.cuda(), lambda y: y.to("cuda"), lambda y: y.to(torch.device("cuda"))])
def test_a_move_to_cuda_in_a_step_ends_the_run(move: Any) -> None:
    failure = scan(calling(move), "2.13.0").failure
    assert failure is not None and "CUDA" in failure.message and failure.phase == "forward"


def test_where_the_verdicts_come_from() -> None:
    target = scan(calling(), "2.6.0").target
    assert (target.backend, target.torch) == ("mps", "2.6.0")
    assert target.table is not None and target.table.wheel.startswith("torch-2.6.0-")
    assert len(target.table.sha256) == 64
    assert scan(calling(), "installed").target.torch == torch.__version__.partition("+")[0]


def test_a_call_of_ones_own_replaces_the_forward_pass() -> None:
    report = scan(calling(call=lambda model, args, kwargs: model(*args).tanh()), "2.13.0")
    assert calls(report, "forward") == {"linear": 1, "tanh": 1}


def test_the_tables_say_more_beside_native_verdicts(monkeypatch: pytest.MonkeyPatch) -> None:
    assert scan(calling(), "2.2.2").workload.notes == []
    monkeypatch.setattr(MpsFamily, "notes", lambda _, table, native: [f"{table.release} {sorted(native)[0]}", "same"])
    assert scan(calling(), "2.2.2").workload.notes == ["2.2.2 aten::linear", "same"]
    many = scan_many(calling(), ["2.2.2", "2.3.0"]).workload.notes
    assert many == ["2.2.2 aten::linear", "same", "2.3.0 aten::linear"]
