"""A training step: forward, loss, backward and the optimizer, as the target release's Python does them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from made_workloads import Made, calling, calls, finding, scan, scan_many

from mpsprobe.protocols import TorchRun
from mpsprobe_coverage.knowledge.kernels.mps import load_table
from mpsprobe_coverage.scanning.step import make_adamw


def _training(release: str, workload: Made | None = None, **options: Any) -> Any:
    return scan(workload or calling(loss=lambda y: y.sum()), release, phase="training", **options)


def test_the_phases_of_a_step() -> None:
    report = _training("2.13.0")
    assert {phase for one in report.operators for phase in one.phases} == {"forward", "backward", "optimizer"}
    assert calls(report, "forward")["linear"] == 1 and calls(report, "backward")["linear_backward"] == 1
    assert report.workload.phase == "training" and report.failure is None


# `adamw_torch_fused` is the Trainer's default from torch 2.8 on; fused AdamW has an MPS kernel from 2.5.0 on. Plain
# AdamW moves its average with lerp_ from 2.1 on, with mul_ and add_ before.
@pytest.mark.parametrize(
    ("release", "name", "inside", "outside"),
    [
        ("2.0.0", "AdamW", {"mul_.Tensor", "addcmul_", "addcdiv_"}, {"lerp_.Scalar", "_fused_adamw_"}),
        ("2.4.1", "AdamW", {"lerp_.Scalar", "addcmul_", "addcdiv_"}, {"_fused_adamw_"}),
        ("2.7.1", "AdamW", {"lerp_.Scalar", "addcmul_", "addcdiv_"}, {"_fused_adamw_"}),
        ("2.8.0", "AdamW (fused)", {"_fused_adamw_"}, {"lerp_.Scalar", "addcmul_", "addcdiv_"}),
        ("2.15.0", "AdamW (fused)", {"_fused_adamw_"}, {"lerp_.Scalar", "addcmul_", "addcdiv_"}),
    ],
)
def test_the_form_of_adamw(release: str, name: str, inside: set[str], outside: set[str]) -> None:
    report = _training(release)
    seen = set(calls(report, "optimizer"))
    assert report.workload.optimizer == name
    assert inside <= seen and not outside & seen
    assert not [name for name in seen if name.startswith("_foreach")]
    assert {one.verdict for one in report.operators if "optimizer" in one.phases} == {"native"}


class _Unused(torch.nn.Module):
    """Four parameters that the loss does not use, two that it does, and one that wants no gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.used, self.pooler, self.head = (torch.nn.Linear(2, 2) for _ in range(3))
        self.frozen = torch.nn.Parameter(torch.ones(2), requires_grad=False)

    def forward(self, x: torch.Tensor) -> Any:
        self.pooler(x)
        return self.used(x) * self.frozen


def test_parameters_without_a_gradient_are_named() -> None:
    workload = Made(lambda: TorchRun(_Unused(), (torch.ones(1, 2),), loss=lambda y: y.sum(), notes=["of the workload"]))
    of_the_workload, note = _training("2.13.0", workload).workload.notes
    assert of_the_workload == "of the workload"
    assert note.startswith("4 of 6 parameters got no gradient")
    assert note.endswith("pooler.weight, pooler.bias, head.weight, …")
    assert _training("2.13.0").workload.notes == []
    assert scan(workload, "2.13.0").workload.notes == ["of the workload"]  # inference


def test_releases_that_differ_in_gradients_are_named() -> None:
    workload = calling(lambda y: torch.linalg.lu_factor(y[:, :2])[0], loss=lambda lu: lu.sum())
    without, ends = scan_many(workload, ["2.9.1", "2.13.0"], phase="training").workload.notes
    assert without.startswith("torch 2.9.1: 2 of 2 parameters got no gradient")
    assert ends.startswith("torch 2.9.1: no gradient passes aten::linalg_lu_factor (")
    assert scan(workload, "2.9.1", phase="training").workload.notes[1] == ends.removeprefix("torch 2.9.1: ")


def test_gradients_are_accumulated() -> None:
    once, thrice = _training("2.4.1"), _training("2.4.1", grad_accum=3)
    assert thrice.workload.grad_accum == 3
    assert calls(thrice, "forward")["linear"] == 3 * calls(once, "forward")["linear"]
    assert calls(thrice, "forward")["div.Tensor"] == 3  # the loss of each part
    assert calls(thrice, "backward")["linear_backward"] == 3
    assert calls(thrice, "optimizer") == calls(once, "optimizer")


def test_clipping_takes_a_norm_of_each_gradient_and_one_of_all() -> None:
    clipped, free = _training("2.4.1", clip_norm=1.0), _training("2.4.1", clip_norm=0.0)
    assert calls(clipped, "optimizer")["linalg_vector_norm"] == 3
    assert "linalg_vector_norm" not in calls(free, "optimizer")
    # torch.norm in 2.0: linalg_vector_norm falls back there, and is not what its clip_grad_norm_ calls.
    assert "linalg_vector_norm" not in calls(_training("2.0.0"), "optimizer")


# GradScaler.unscale_ goes through float64 up to 2.7; 2.8.0 makes an exception for MPS (torch/amp/grad_scaler.py).
@pytest.mark.parametrize(
    ("release", "refused", "update"),
    [
        ("2.5.1", True, "addcdiv_"),
        ("2.7.1", True, "addcdiv_"),
        ("2.8.0", False, "_fused_adamw_"),
        ("2.13.0", False, "_fused_adamw_"),
    ],
)
def test_float16_autocast_scales_its_gradients(release: str, refused: bool, update: str) -> None:
    report = _training(release, autocast="float16")
    assert report.workload.autocast == "float16" and finding(report, "linear").dtypes == ["float16"]
    optimizer = calls(report, "optimizer")
    assert optimizer["_amp_foreach_non_finite_check_and_unscale_"] >= 1 and optimizer["_amp_update_scale_"] == 1
    assert optimizer[update] == 2  # the weight and the bias
    assert "no gradient is infinite or NaN" in {read.assumed for read in report.data_dependence}
    found = {(one.operator, one.verdict) for one in report.operators if one.verdict != "native"}
    assert ("unsupported" in {verdict for _, verdict in found}) is refused
    assert (("aten::_amp_update_scale_", "missing") in found) is refused


def test_other_autocast_scales_nothing_or_fails_as_on_a_mac() -> None:
    report = _training("2.13.0", autocast="bfloat16")
    assert finding(report, "linear").dtypes == ["bfloat16"]
    assert not [one for one in report.operators if "_amp_" in one.operator]
    report = _training("2.4.1", autocast="float16")
    assert report.failure is not None and "2.5.0" in report.failure.message


def test_a_training_failure_says_in_which_phase() -> None:
    def breaks(_: torch.Tensor) -> None:
        raise RuntimeError("no way back")

    def function(y: torch.Tensor) -> torch.Tensor:
        y.register_hook(breaks)
        return y.sum()

    report = _training("2.13.0", calling(function))
    assert report.failure is not None
    assert (report.failure.phase, report.failure.message) == ("backward", "no way back")


def test_the_optimizer_is_that_of_trainer() -> None:
    decayed, others = make_adamw(torch.nn.Linear(2, 2), load_table("2.13.0")).param_groups
    assert (others["weight_decay"], decayed["lr"], decayed["eps"]) == (0.0, 5e-5, 1e-8)
