"""A workload on the virtual device of another backend: its kernels decide, and nothing of MPS does."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from made_backend import BASIC, OWN, RELEASE, XPU, Made
from made_workloads import Made as MadeWorkload
from made_workloads import calling, finding

from mpsprobe.errors import UsageError
from mpsprobe.protocols import Backend, RunOptions, TorchRun
from mpsprobe.schemas import BackendTarget, CoverageReport, MatrixReport
from mpsprobe_coverage.devices.virtual import VirtualDevice
from mpsprobe_coverage.devices.virtual.tensor import MPS, stands_for
from mpsprobe_coverage.knowledge.kernels.backends import family_named
from mpsprobe_coverage.scanning.scan import CoverageScanner
from mpsprobe_devkit.testing import FakeProgress


def scanned(workload: Any, releases: tuple[str, ...] = (RELEASE,), **options: Any) -> Any:
    """The report on the backend called ``made``."""
    return CoverageScanner().scan(workload, RunOptions(backend="made", **options), list(releases), FakeProgress())


def verdicts(report: CoverageReport) -> dict[str, str]:
    """By operator."""
    assert report.failure is None, report.failure
    return {one.operator: one.verdict for one in report.operators}


@pytest.mark.parametrize("backend", [XPU, OWN, Backend("mtia", "MTIA")], ids=lambda backend: backend.device)
@pytest.mark.parametrize("phase", ["inference", "training"])
def test_a_linear_layer(bring: Any, backend: Backend, phase: str) -> None:
    bring(Made(backend, [*BASIC, "aten::_copy_from"]))
    found = verdicts(scanned(calling(), phase=phase))
    assert found["aten::addmm"] == "native"
    assert "aten::linear" not in found  # no kernel of its own here, as it has one on MPS
    assert found.get("aten::mm", "native") == "native"
    assert not any("mps" in name for name in found)


def test_the_target_says_what_was_judged(bring: Any) -> None:
    bring(Made(notes=["A note of the plugin's"], sha256="0" * 64))
    report = scanned(calling())
    target = report.target
    assert isinstance(target, BackendTarget)
    assert (target.backend, target.label, target.torch, target.table) == ("made", "XPU", RELEASE, None)
    assert target.source == "a list in a test (mpsprobe-made 1.0)"
    assert target.variable == XPU.variable
    assert target.notes[0] == "A note of the plugin's"
    assert any("device type" in note for note in target.notes)
    assert not report.macos_conditions and not report.advisories
    assert CoverageReport.model_validate_json(report.model_dump_json()) == report


def test_an_operator_without_a_kernel(bring: Any) -> None:
    for backend, verdict, advice in (
        (XPU, "missing", "PYTORCH_ENABLE_XPU_FALLBACK=1 (set before Python imports torch) runs it on the CPU"),
        (OWN, "missing", "move this part to the CPU by hand"),
        (Backend("xpu", "XPU", without_kernel="cpu"), "fallback", "It works, slowly"),
    ):
        bring(Made(backend))
        report = scanned(calling(lambda y: y.cumsum(0)))
        [found] = [one for one in report.operators if one.operator.startswith("aten::cumsum")]
        assert found.verdict == verdict and advice in found.advice
        assert "MPS" not in report.model_dump_json()


def test_what_a_table_that_is_not_whole_does_not_name_is_listed(bring: Any) -> None:
    bring(Made(kernels=["aten::addmm"], whole=False))
    report = scanned(calling(lambda y: y.cumsum(0)))
    found = verdicts(report)
    assert found["aten::addmm"] == "native" and "missing" not in found.values()
    assert {verdict for name, verdict in found.items() if name.startswith("aten::cumsum")} == {"unknown"}
    assert any("does not hold every kernel" in note for note in report.target.notes)


def test_dtypes_are_refused_by_what_the_plugin_says(bring: Any) -> None:
    doubled = calling(lambda y: y.double() + 1)
    bring(Made())
    assert "unsupported" not in verdicts(scanned(doubled)).values()
    bring(Made(refused_dtypes={"float64": "the chip has none"}))
    report = scanned(doubled)
    [refused, *_] = [one for one in report.operators if one.verdict == "unsupported"]
    assert refused.reason == "a float64 tensor: the chip has none" and "Use float32" in refused.advice


@pytest.mark.parametrize("backend", [XPU, OWN], ids=lambda backend: backend.device)
@pytest.mark.parametrize("has", [True, False])
def test_convolutions_are_those_that_backends_override(bring: Any, backend: Backend, has: bool) -> None:
    forward, backward = "aten::convolution_overrideable", "aten::convolution_backward_overrideable"
    bring(Made(backend, [*BASIC, "aten::_copy_from", *([forward, backward] if has else [])]))
    image = torch.ones(1, 3, 8, 8)
    convolution = MadeWorkload(lambda: TorchRun(torch.nn.Conv2d(3, 4, 3), (image,), loss=torch.sum))
    found = verdicts(scanned(convolution, phase="training"))
    assert found[forward] == found[backward] == ("native" if has else "unsupported")


@pytest.mark.parametrize(
    ("backend", "more", "operator", "verdict", "source", "says"),
    [
        (XPU, [], "copy_", "native", "branch", "goes to XPU by the type of its device"),
        # A device that `copy_` does not name: the composite kernel calls `_copy_from`.
        (OWN, [], "_copy_from", "missing", "registration", "no kernel under PrivateUse1"),
        (OWN, ["aten::_copy_from"], "_copy_from", "native", "registration", "the table of Own chip has it"),
        (OWN, ["aten::copy_"], "copy_", "native", "registration", "the table of Own chip has it"),
    ],
)
def test_copies(
    bring: Any, backend: Backend, more: list[str], operator: str, verdict: str, source: str, says: str
) -> None:
    bring(Made(backend, [*BASIC, *more]))
    copy = finding(scanned(calling(lambda y: y.clone().copy_(y))), operator)
    assert (copy.verdict, copy.source) == (verdict, source) and says in copy.evidence


class _Attends(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(x, x, x)


def _attention(query: Any, key: Any, value: Any, *_args: Any, **_kwargs: Any) -> Any:
    return torch.ops.aten._scaled_dot_product_fused_attention_overrideable(query, key, value)[0]


def test_a_route_of_the_plugin(bring: Any) -> None:
    attends = MadeWorkload(lambda: TorchRun(_Attends(), (torch.ones(1, 2, 4, 8),)))
    fused = "aten::_scaled_dot_product_fused_attention_overrideable"
    made = Made(kernels=[*BASIC, fused])
    bring(made)
    assert fused not in verdicts(scanned(attends))
    made.routes = lambda release: {"aten::scaled_dot_product_attention": _attention}  # type: ignore[attr-defined]
    report = scanned(attends)
    if torch.__version__.startswith("2.6."):  # it cannot say what shape the result has
        assert report.failure is not None and fused.removeprefix("aten::") in report.failure.message
        return
    assert verdicts(report) == {fused: "native"}
    assert any("but for aten::scaled_dot_product_attention" in note for note in report.target.notes)


def test_autocast_and_versions_of_macos(bring: Any) -> None:
    bring(Made())
    with pytest.raises(UsageError, match="no operator under AutocastXPU"):
        scanned(calling(), autocast="bfloat16")
    with pytest.raises(UsageError, match="a version of macOS says nothing about XPU"):
        scanned(calling(), macos="14")
    bring(Made(kernels={"XPU": [*BASIC, "aten::_to_copy"], "AutocastXPU": ["aten::linear"]}))
    assert finding(scanned(calling(), autocast="bfloat16"), "addmm").dtypes == ["bfloat16"]


def test_several_releases(bring: Any) -> None:
    bring(Made(by_release={"2.9.1": BASIC, "2.13.0": [*BASIC, "aten::cumsum.out"]}))
    summed = calling(lambda y: y.cumsum(0))
    report = scanned(summed, ("2.9.1", "2.13.0"))
    assert isinstance(report, MatrixReport)
    assert report.native_since == "2.13.0"
    assert [cell.target.backend for cell in report.releases] == ["made", "made"]
    assert scanned(summed, ("2.9.1",)).summary.native_since == "2.13.0"


def test_the_process_is_as_before(bring: Any) -> None:
    bring(Made())
    with VirtualDevice(family_named("made").load(RELEASE)) as device, device.recording("forward"):
        made = torch.ones(3, device="xpu")
        assert made.device == torch.device("xpu", 0) and made.is_xpu and not made.is_mps
        assert torch.ones(2).xpu().device.type == "xpu"
        assert torch.xpu.is_available() and torch.xpu.device_count() == 1
        assert torch.Generator("xpu").device.type == "xpu"
        assert not torch.backends.mps.is_available()
    assert stands_for.device == MPS
    assert not torch.xpu.is_available()
    assert not torch._C._dispatch_has_kernel_for_dispatch_key("aten::addmm", "XPU")
    with pytest.raises((RuntimeError, AssertionError, NotImplementedError)):
        torch.ones(2).xpu()


def test_a_backend_without_a_module_gets_one_for_as_long_as_the_device_is_open(bring: Any) -> None:
    bring(Made(OWN))
    with VirtualDevice(family_named("made").load(RELEASE)):
        assert torch.get_device_module("privateuseone").is_available()
    assert "torch.privateuseone" not in sys.modules and not hasattr(torch, "privateuseone")
