"""Names, releases, and what says that TensorFlow is missing: without TensorFlow."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from mpsprobe.errors import MissingPackage, UnknownName, WorkloadError
from mpsprobe_tensorflow import libraries, releases
from mpsprobe_tensorflow.applications import snake_case
from mpsprobe_tensorflow.plugin import mpsprobe_resolve_workload, mpsprobe_workload_space


def test_names_of_keras_are_ours_and_no_others() -> None:
    others = ("keras", "timm:resnet50", "kerasx:vgg16", "keras:vgg\n16", "/no/such/folder")
    assert [name for name in others if mpsprobe_resolve_workload(name) is not None] == []
    found = mpsprobe_resolve_workload("keras:mobilenet_v2")
    assert found is not None
    assert (found.name, found.framework) == ("keras:mobilenet_v2", "tensorflow")
    assert mpsprobe_workload_space("timm") is None


def test_a_saved_model_is_ours_unless_it_is_a_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "saved_model.pb").touch()
    found = mpsprobe_resolve_workload(str(tmp_path))
    assert found is not None and found.phases == ("inference",)
    (tmp_path / "config.json").touch()
    assert mpsprobe_resolve_workload(str(tmp_path)) is None


def test_functions_in_snake_case() -> None:
    names = {
        "MobileNetV2": "mobilenet_v2",
        "MobileNetV3Small": "mobilenet_v3_small",
        "ResNet50": "resnet50",
        "ResNet152V2": "resnet152_v2",
        "InceptionResNetV2": "inception_resnet_v2",
        "EfficientNetB0": "efficientnet_b0",
        "EfficientNetV2L": "efficientnet_v2_l",
        "ConvNeXtXLarge": "convnext_xlarge",
        "NASNetMobile": "nasnet_mobile",
        "VGG16": "vgg16",
    }
    assert {function: snake_case(function) for function in names} == names


@pytest.mark.parametrize(
    ("found", "error", "said"),
    [
        (
            ModuleNotFoundError("No module named 'tensorflow'", name="tensorflow"),
            MissingPackage,
            "needs the package tensorflow, which is not installed.*pip install",
        ),
        (
            ImportError("symbol not found"),
            WorkloadError,
            "tensorflow cannot be imported: ImportError: symbol not found",
        ),
        (SimpleNamespace(__version__="2.15.1"), WorkloadError, r"tensorflow 2\.15\.1 is too old"),
    ],
)
def test_tensorflow_is_missing_or_does_not_do(
    monkeypatch: pytest.MonkeyPatch, found: Any, error: type[Exception], said: str
) -> None:
    monkeypatch.setattr(libraries.importlib, "import_module", Mock(side_effect=[found]))
    with pytest.raises(error, match=f"(?s){said}"):
        libraries.import_tensorflow("the workload 'keras:vgg16'")


def test_releases() -> None:
    chosen = {"latest": ["1.2.0"], "installed": ["1.2.0"], "1.0": ["1.0.1"], "1.2.0,0.5.0": ["0.5.0", "1.2.0"]}
    assert {text: releases.chosen(text) for text in chosen} == chosen


def test_a_release_without_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnknownName, match=r"unknown release of tensorflow-metal '1\.9'"):
        releases.chosen("1.9")
    monkeypatch.setattr(importlib.metadata, "version", lambda _: "1.1.7")
    assert releases.chosen("installed") == ["1.1.0"]
    assert releases.notes("1.1.0") == [
        "there is no table of the installed tensorflow-metal 1.1.7: that of 1.1.0 was taken"
    ]
