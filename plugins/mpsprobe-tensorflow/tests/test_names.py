"""Names, releases, and what says that TensorFlow is missing: without TensorFlow."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from mpsprobe.errors import MissingPackage, UnknownName, WorkloadError
from mpsprobe_tensorflow import libraries, releases
from mpsprobe_tensorflow.applications import snake_case
from mpsprobe_tensorflow.plugin import mpsprobe_resolve_workload, mpsprobe_workload_space


@pytest.mark.parametrize("name", ["keras", "timm:resnet50", "kerasx:vgg16", "keras:vgg\n16", "/no/such/folder"])
def test_other_names_are_not_ours(name: str) -> None:
    assert mpsprobe_resolve_workload(name) is None


def test_a_name_of_keras_is_ours() -> None:
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


@pytest.mark.parametrize(
    ("function", "name"),
    [
        ("MobileNetV2", "mobilenet_v2"),
        ("MobileNetV3Small", "mobilenet_v3_small"),
        ("ResNet50", "resnet50"),
        ("ResNet152V2", "resnet152_v2"),
        ("InceptionResNetV2", "inception_resnet_v2"),
        ("EfficientNetB0", "efficientnet_b0"),
        ("EfficientNetV2L", "efficientnet_v2_l"),
        ("ConvNeXtXLarge", "convnext_xlarge"),
        ("NASNetMobile", "nasnet_mobile"),
        ("VGG16", "vgg16"),
    ],
)
def test_functions_in_snake_case(function: str, name: str) -> None:
    assert snake_case(function) == name


def test_tensorflow_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named '{name}'", name=name)

    monkeypatch.setattr(libraries.importlib, "import_module", absent)
    with pytest.raises(MissingPackage, match="needs the package tensorflow, which is not installed") as caught:
        libraries.import_tensorflow("the workload 'keras:vgg16'")
    assert "pip install" in str(caught.value.hint)


def test_tensorflow_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    class Old:
        __version__ = "2.15.1"

    monkeypatch.setattr(libraries.importlib, "import_module", lambda _: Old)
    with pytest.raises(WorkloadError, match=r"tensorflow 2\.15\.1 is too old"):
        libraries.import_tensorflow("the workload")


def test_tensorflow_does_not_load(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: str) -> Any:
        raise ImportError("symbol not found")

    monkeypatch.setattr(libraries.importlib, "import_module", broken)
    with pytest.raises(WorkloadError, match="tensorflow cannot be imported: ImportError: symbol not found"):
        libraries.import_tensorflow("the workload")


@pytest.mark.parametrize(
    ("text", "found"),
    [("latest", ["1.2.0"]), ("installed", ["1.2.0"]), ("1.0", ["1.0.1"]), ("1.2.0,0.5.0", ["0.5.0", "1.2.0"])],
)
def test_releases(text: str, found: list[str]) -> None:
    assert releases.chosen(text) == found


def test_a_release_without_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnknownName, match=r"unknown release of tensorflow-metal '1\.9'"):
        releases.chosen("1.9")
    monkeypatch.setattr(importlib.metadata, "version", lambda _: "1.1.7")
    assert releases.chosen("installed") == ["1.1.0"]
    assert releases.notes("1.1.0") == [
        "there is no table of the installed tensorflow-metal 1.1.7: that of 1.1.0 was taken"
    ]
