"""A workload becomes a report: what is counted, where, and what happens when it does not run to its end.

Also with modules that get their parameters' shapes in the first forward pass, and inputs that could be corrected.
"""

from __future__ import annotations

import gc
import sys
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from made_workloads import Made, calling, calls, finding, scan, scan_many
from torch import nn

from mpsprobe.errors import UsageError, WorkloadError
from mpsprobe.protocols import RunOptions, TorchRun
from mpsprobe_coverage.devices.virtual import VirtualDevice
from mpsprobe_coverage.knowledge.kernels.mps import MpsFamily, load_table
from mpsprobe_coverage.plugin import mpsprobe_scanners
from mpsprobe_coverage.scanning import process_state
from mpsprobe_coverage.scanning.scan import CoverageScanner
from mpsprobe_devkit.testing import FakeProgress, scanner_contract

[DECLARED] = mpsprobe_scanners()
TestCoverageScanner = scanner_contract(DECLARED)  # that strangers' scanners are held to


def _singular_values(y: torch.Tensor) -> Any:
    return torch.linalg.svd(y)[1]


def test_a_finding_has_everything_that_is_known_of_an_operator() -> None:
    report = scan(calling(_singular_values), "2.13.0")
    table = report.target.table
    assert table is not None and table.wheel.startswith("torch-2.13.0-") and len(table.sha256) == 64
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
    assert report.summary.parameters_bytes == (12 + 3) * 4 and report.workload.parameters == 15


def test_the_smallest_release_for_which_all_is_native() -> None:
    assert scan(calling(), "2.13.0").summary.native_since == "1.12.0"
    assert scan(calling(lambda y: y.cumsum(0)), "1.13.1").summary.native_since == "2.0.0"
    assert scan(calling(_singular_values), "2.4.1").summary.native_since == "2.14.1"
    pool = calling(lambda y: torch.nn.functional.adaptive_avg_pool3d(y[None, None, None], 2))
    assert scan(pool, "2.13.0").summary.native_since is None


def test_releases_do_not_disturb_each_other() -> None:
    class Counts(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x.add_(1)
            for _ in range(int(x.sum()) + len(torch.nonzero(counter.add_(1)))):
                x = torch.sin(x)
            return x

    counter, made = torch.zeros(3), Made(lambda: TorchRun(Counts(), (torch.zeros(2),)))
    releases = ["2.0.0", "2.4.1", "2.13.0"]
    alone = [scan(made, release).summary.calls for release in releases]
    assert [cell.summary.calls for cell in scan_many(made, releases).releases] == alone


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
    monkeypatch.setattr(process_state, "_after_last", objects)
    model: Any = torch.nn.Identity()
    model.circle = [model]
    left = weakref.ref(model)
    with process_state.collecting_only_new() as begin_to_collect:
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


def test_the_tables_say_more_beside_native_verdicts(monkeypatch: pytest.MonkeyPatch) -> None:
    assert scan(calling(), "2.2.2").workload.notes == []
    monkeypatch.setattr(MpsFamily, "notes", lambda _, table, native: [f"{table.release} {sorted(native)[0]}", "same"])
    assert scan(calling(), "2.2.2").workload.notes == ["2.2.2 aten::linear", "same"]
    many = scan_many(calling(), ["2.2.2", "2.3.0"]).workload.notes
    assert many == ["same", "torch 2.3.0: 2.3.0 aten::linear"]


def _model() -> nn.Module:
    return nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.ReLU(), nn.Flatten(), nn.LazyLinear(5))


def _workload() -> Made:
    return Made(lambda: TorchRun(_model(), (torch.ones(2, 3, 8, 8),), loss=torch.sum))


PARAMETERS = 3 * 4 * 9 + 4 + 2 * 4 + 4 * 6 * 6 * 5 + 5


def test_parameters_are_made_on_the_device_by_the_first_forward_pass() -> None:
    report = scan(_workload(), "2.13.0")
    assert report.failure is None
    assert (report.workload.parameters, report.summary.parameters_bytes) == (PARAMETERS, 4 * PARAMETERS)
    seen = calls(report, "forward")
    assert seen["_mps_convolution"] == seen["native_batch_norm"] == seen["linear"] == 1
    assert seen["uniform_"] == 4  # weight and bias of the convolution and of the linear layer


def test_an_optimizer_made_before_them_updates_them() -> None:
    report = scan(_workload(), "2.13.0", phase="training")
    assert report.failure is None and report.workload.parameters == PARAMETERS
    assert {"mps_convolution_backward", "native_batch_norm_backward", "linear_backward"} <= calls(
        report, "backward"
    ).keys()
    assert calls(report, "optimizer")["_fused_adamw_"] == 2


def test_each_release_sees_a_first_forward_pass() -> None:
    releases = ["2.0.0", "2.4.1", "2.13.0"]
    report = scan_many(_workload(), releases, phase="training")
    alone = [scan(_workload(), release, phase="training").summary for release in releases]
    assert [cell.summary.calls for cell in report.releases] == [summary.calls for summary in alone]
    assert {cell.summary.parameters_bytes for cell in report.releases} == {4 * PARAMETERS}


class _Half(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused = nn.LazyLinear(2), nn.LazyLinear(3, dtype=torch.float16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.used(x)


def test_a_lazy_module_that_is_not_called_stays_without_a_shape() -> None:
    report = scan(Made(lambda: TorchRun(_Half(), (torch.ones(2, 4),))), "2.13.0")
    assert report.failure is None and report.workload.parameters == 4 * 2 + 2
    with VirtualDevice(load_table("2.13.0")) as device:
        moved = device.move(_Half())
        weight = moved.unused.weight
        assert isinstance(weight, nn.UninitializedParameter) and weight.device.type == "mps"
        moved.unused(torch.ones(2, 7, device="mps", dtype=torch.float16))
        assert moved.unused.weight is weight and not isinstance(weight, nn.UninitializedParameter)
        assert isinstance(weight, nn.Parameter) and (tuple(weight.shape), weight.dtype) == ((3, 7), torch.float16)


def _attends(y: torch.Tensor, wanted: int) -> torch.Tensor:
    """Two samples are asked the same."""
    asked = y[:1].reshape(1, 1, 1, 3)
    found = torch.nn.functional.scaled_dot_product_attention(asked, *[y.reshape(2, 1, 1, 3)] * 2)
    if len(found) != wanted:
        raise ValueError(f"wants {wanted}")
    return found


@pytest.mark.parametrize(
    ("release", "wanted", "message", "corrected"),
    [
        ("2.13.0", 2, "wants 2", []),
        ("2.15.0", 2, None, []),
        ("2.13.0", 3, "wants 3", ["wants 3"]),
    ],
)
def test_inputs_that_fit_on_the_cpu_stay(release: str, wanted: int, message: str | None, corrected: list[str]) -> None:
    seen: list[str] = []

    def correct(error: Exception) -> TorchRun | None:
        seen.append(str(error))
        return None

    run = calling(lambda y: _attends(y, wanted)).build(RunOptions())
    report = scan(Made(lambda: replace(run, correct=correct)), release)
    assert (report.failure and report.failure.message, seen) == (message, corrected)
    assert any("has the batch of the query" in note for note in report.workload.notes) == (release == "2.13.0")


def test_what_an_old_release_lacks_is_no_reason_either() -> None:
    def correct(error: Exception) -> TorchRun | None:
        raise AssertionError(f"asked about {error}")

    run = calling().build(RunOptions())
    report = scan(Made(lambda: replace(run, correct=correct)), "1.12.0", autocast="float16")
    assert report.failure is not None and "has no autocast" in report.failure.message
