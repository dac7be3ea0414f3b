"""What is built and trained, with stand-ins for the libraries."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from mpsprobe.errors import WorkloadError
from mpsprobe.protocols import RunOptions, TorchRun
from mpsprobe.stepping import TorchStep
from mpsprobe_hf.vision.timm_models import TimmWorkload
from mpsprobe_hf.vision.torchvision_models import TorchvisionWorkload

KINDS: dict[str, Any] = {"timm": TimmWorkload, "torchvision": TorchvisionWorkload}
pytestmark = pytest.mark.usefixtures("libraries")


def built(name: str, **options: Any) -> TorchRun:
    """The run of a workload."""
    run: TorchRun = KINDS[name.partition(":")[0]](name).build(RunOptions(**options))
    return run


@pytest.mark.parametrize(
    ("name", "shape", "loss"),
    [
        ("timm:net", (8, 3, 32, 32), 0.69),
        ("torchvision:net", (8, 3, 32, 32), 0.69),
        ("torchvision:clips", (2, 3, 3, 32, 32), 0.69),
        ("torchvision:segmenter", (8, 3, 32, 32), 1.5 * 0.69),
    ],
)
def test_a_step_of_training(name: str, shape: tuple[int, ...], loss: float) -> None:
    run = built(name, phase="training")
    [pixels] = run.args
    assert pixels.shape == shape and run.batch_size == shape[0] and run.model.training
    assert run.loss is not None
    torch.nn.init.zeros_(run.model.head.weight), torch.nn.init.zeros_(run.model.head.bias)
    found = run.loss(run.model(*run.args))
    assert float(found.detach()) == pytest.approx(loss, abs=0.01)
    found.backward()
    assert run.model.head.weight.grad is not None


def test_a_step_of_a_detector() -> None:
    run = built("torchvision:detector", phase="training", batch_size=3, dtype="bfloat16")
    images, targets = run.args
    assert [(image.shape, image.dtype) for image in images] == [((3, 480, 640), torch.bfloat16)] * 3
    assert all(float(image.min()) >= 0 and float(image.max()) <= 1 for image in images)
    [target, *_] = targets
    assert {key: (tuple(one.shape), one.dtype) for key, one in target.items()} == {
        "boxes": ((5, 4), torch.float32),
        "labels": ((5,), torch.int64),
        "masks": ((5, 480, 640), torch.uint8),
        "keypoints": ((5, 17, 3), torch.float32),
    }
    left, top, right, bottom = target["boxes"].unbind(1)
    assert bool((left < right).all() and (top < bottom).all() and (right <= 640).all() and (bottom <= 480).all())
    x, y, _ = target["keypoints"].unbind(2)
    assert bool(((left[:, None] <= x) & (x <= right[:, None]) & (top[:, None] <= y) & (y <= bottom[:, None])).all())
    assert bool((target["labels"] == 1).all()) and bool((target["masks"].sum(0) == 1).all())
    TorchStep(run, RunOptions(phase="training"), "cpu").take()
    assert run.model.scale.grad is None or run.model.scale != 1


def test_a_detector_gets_no_targets_in_inference() -> None:
    run = built("torchvision:detector")
    assert len(run.args) == 1 and run.loss is None and len(run.model(*run.args)) == 1


def test_the_model_without_its_classifier_or_what_timm_cannot_make() -> None:
    run = built("timm:net/embedding", phase="training")
    assert run.notes == ["it has no classifier: trained with the mean of its features"]
    assert run.loss is not None
    assert run.loss([torch.ones(2), {"a": torch.zeros(3), "labels": torch.ones(1, dtype=torch.int64)}]) == 1
    assert not built("timm:net/embedding").notes
    with pytest.raises(WorkloadError, match=r"RuntimeError: features_only not implemented\n") as caught:
        built("timm:net/features")
    assert caught.value.hint


@pytest.mark.parametrize("name", ["timm:net.in1k", "torchvision:net"])
def test_a_description_is_plain_data(name: str) -> None:
    facts = KINDS[name.partition(":")[0]](name).describe()
    assert json.loads(json.dumps(facts)) == facts
    assert facts["classes"] == 2 and facts["checkpoint"]


@pytest.mark.parametrize("name", ["timm:net", "torchvision:net"])
def test_a_dtype_reaches_everything(name: str) -> None:
    run = built(name, dtype="float16")
    assert {one.dtype for one in (*run.args, *run.model.parameters())} == {torch.float16}
