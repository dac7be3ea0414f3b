"""Models of the real libraries on the virtual device, and what an expert expects of them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torchvision import models

import mpsprobe
from mpsprobe.errors import UnknownName
from mpsprobe.protocols import RunOptions
from mpsprobe_devkit.testing import workload_contract
from mpsprobe_hf.vision.tasks import TASKS
from mpsprobe_hf.vision.timm_models import TimmWorkload
from mpsprobe_hf.vision.torchvision_models import TorchvisionWorkload

TestTimm = workload_contract(TimmWorkload, name="timm:test_vit")
TestTorchvision = workload_contract(TorchvisionWorkload, name="torchvision:squeezenet1_1")
RELEASE = "2.13.0"


def judged(name: str, phase: str = "inference", release: str = RELEASE, **options: Any) -> Any:
    """The report, and its findings by operator."""
    report: Any = mpsprobe.coverage(name, phase=phase, torch=release, **options)
    return report, {one.operator: one for one in report.findings}


def test_every_model_of_torchvision_has_a_task() -> None:
    tasks = {name: TorchvisionWorkload(f"torchvision:{name}").task for name in models.list_models()}
    assert set(tasks.values()) == set(TASKS)
    assert tasks["resnet50"] == "classification" and tasks["raft_small"] == "optical_flow"


@pytest.mark.parametrize("phase", ["inference", "training"])
@pytest.mark.parametrize("name", ["timm:test_resnet", "timm:test_vit/features", "torchvision:mobilenet_v3_small"])
def test_all_is_native(name: str, phase: str) -> None:
    report, findings = judged(name, phase)
    assert report.failure is None and not findings


@pytest.mark.parametrize("phase", ["inference", "training"])
def test_a_detector_with_masks_calls_the_operators_of_torchvision(phase: str) -> None:
    report, findings = judged("torchvision:maskrcnn_resnet50_fpn", phase)
    assert report.failure is None and not findings
    called = {one.operator: one for one in report.operators}
    assert called["torchvision::nms"].verdict == called["torchvision::roi_align"].verdict == "native"
    assert ("torchvision::_roi_align_backward" in called) == (phase == "training")


def test_before_torchvision_0_16_a_detector_has_no_kernels_of_its_own() -> None:
    _, findings = judged("torchvision:fasterrcnn_mobilenet_v3_large_320_fpn", release="2.0.1")
    assert findings["torchvision::nms"].verdict == findings["torchvision::roi_align"].verdict == "missing"


def test_the_operators_of_torchvision_take_no_bfloat16() -> None:
    name = "torchvision:fasterrcnn_mobilenet_v3_large_320_fpn"
    _, findings = judged(name, dtype="bfloat16")
    assert {one: finding.verdict for one, finding in findings.items()} == {
        "torchvision::nms": "unsupported",
        "torchvision::roi_align": "unsupported",
    }
    assert not judged(name, dtype="float16")[1]


def test_an_auxiliary_classifier_pools_sizes_that_do_not_divide() -> None:
    _, findings = judged("torchvision:googlenet", "training")
    assert findings["aten::_adaptive_avg_pool2d"].verdict == "unsupported"
    assert not judged("torchvision:googlenet")[1]


def test_a_converted_model_stops_at_its_first_quantized_kernel() -> None:
    engine = torch.backends.quantized.engine
    report, findings = judged("torchvision:quantized_mobilenet_v2")
    assert torch.backends.quantized.engine == engine
    assert findings["aten::quantize_per_tensor"].verdict == "missing"
    assert any(name.startswith("quantized::conv2d") for name in findings) and report.failure is not None
    assert "the run stops at the first of them" in report.workload.notes[0]
    assert not judged("torchvision:quantized_mobilenet_v2", "training")[1]


def test_optical_flow_and_clips() -> None:
    flow, clips = (TorchvisionWorkload(f"torchvision:{name}").build(RunOptions()) for name in ("raft_small", "r3d_18"))
    assert [one.shape for one in flow.args] == [(1, 3, 520, 960)] * 2
    assert [one.shape for one in clips.args] == [(1, 3, 16, 112, 112)]


def test_the_tag_of_a_checkpoint_decides_the_size() -> None:
    sizes = [
        TimmWorkload(f"timm:{name}").build(RunOptions()).args[0].shape[-1]
        for name in ("test_vit", "eva02_tiny_patch14_336.mim_in22k_ft_in1k", "vgg11/embedding")
    ]
    assert sizes == [160, 336, 224]


def test_an_unknown_tag() -> None:
    with pytest.raises(UnknownName) as caught:
        TimmWorkload("timm:resnet50.a1_in2k")
    assert "resnet50.a1_in1k" in caught.value.nearest
