"""vgg16 with torchvision, without it, and with one that does not fit."""

from __future__ import annotations

import importlib
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from meta_forward import build_on_meta, run_on_meta, run_once

from mpsprobe.errors import MissingPackage, WorkloadError
from mpsprobe.protocols import RunOptions
from mpsprobe_hf import workload
from mpsprobe_hf.workload import named


class Vgg(torch.nn.Module):
    """As much of it as the workload sees."""

    def __init__(self) -> None:
        super().__init__()
        self.features = torch.nn.Conv2d(3, 4, 3, stride=32)
        self.classifier = torch.nn.Linear(4 * 7 * 7, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.classifier(self.features(x).flatten(1))
        return result


def vgg16(*, weights: Any = None) -> Vgg:
    assert weights is None
    return Vgg()


@pytest.fixture
def torchvision(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in that only mpsprobe sees: transformers would remember for good that torchvision is there."""
    real = importlib.import_module
    stand_in = {"torchvision.models": SimpleNamespace(vgg16=vgg16)}
    monkeypatch.setattr("importlib.import_module", lambda name, package=None: stand_in.get(name) or real(name, package))
    monkeypatch.setitem(workload.IMPORT_NAMES, "torchvision", "torch")


def test_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingPackage) as caught:
        named("vgg16").build(RunOptions())
    assert caught.value.distribution == "torchvision"


def test_build_and_train(torchvision: None) -> None:
    run = named("vgg16").build(RunOptions(phase="training", batch_size=2))
    assert run.architecture == "vgg16" and run.model.training
    assert run.kwargs["x"].shape == (2, 3, 224, 224)
    run_once(run, training=True)
    assert run.model.classifier.weight.grad is not None


def test_on_meta_with_a_dtype(torchvision: None) -> None:
    run = build_on_meta(named("vgg16"), dtype="bfloat16")
    assert run_on_meta(run, training=False).dtype == torch.bfloat16


def test_one_that_does_not_fit(torchvision: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> ModuleType:
        raise RuntimeError("operator torchvision::nms does not exist")

    monkeypatch.setattr("importlib.import_module", broken)
    with pytest.raises(WorkloadError, match="torchvision::nms") as caught:
        named("vgg16").build(RunOptions())
    assert "built for another torch" in str(caught.value.hint)
