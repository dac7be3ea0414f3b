"""Without TensorFlow: tables of tensorflow-metal, which plugin goes with which TensorFlow, and names of workloads."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from mpsprobe.declarations import DoctorFinding
from mpsprobe.errors import MissingPackage, TableError, UnknownName, WorkloadError
from mpsprobe_devkit.testing.commands import run_cli
from mpsprobe_tensorflow import doctor, libraries
from mpsprobe_tensorflow.plugin import mpsprobe_resolve_workload, mpsprobe_workload_space
from mpsprobe_tensorflow.tables import releases, table
from mpsprobe_tensorflow.tables.releases import all_advisories
from mpsprobe_tensorflow.workloads import snake_case

# Counted by somebody else, with an emulator of their own, who answered every question to macOS by no.
COUNTED = {"0.5.0": (285, None), "0.8.0": (477, None), "1.0.1": (505, None), "1.1.0": (521, None), "1.2.0": (537, 174)}


def registered(release: str, macos: str | None = None) -> list[dict[str, Any]]:
    build = table.load(release)
    return [asdict(one) for one in (build.registrations if macos is None else build.on(macos))]


def test_counts_of_another_reading_and_one_registration() -> None:
    for release, (registrations, operators) in COUNTED.items():
        found = registered(release)
        assert len(found) == registrations, release
        assert operators in (None, len({one["operator"] for one in found})), release
    conv = {"operator": "Conv2D", "device": "GPU", "types": {"T": "float32"}, "host": []}
    assert conv in registered("1.2.0")
    [fill] = [one for one in registered("1.2.0") if one["operator"] == "Fill"]
    assert fill["types"] == {"T": "float32", "index_type": "int32"}
    assert fill["host"] == ["dims", "value"]


def test_what_some_macos_have_besides() -> None:
    """Random numbers without state, which dropout of Keras uses, need macOS 13."""
    [group] = table.load("1.2.0").conditional
    assert (group.macos, len(group.registrations)) == ("13.0", 24)
    assert len(registered("1.2.0", "12.7")) == 537
    assert len(registered("1.2.0", "13.0")) == 561
    assert "StatelessRandomUniformV2" in {one.operator for one in table.load("1.2.0").on()}
    assert [len(registered("1.1.0", macos)) for macos in ("11.7", "12.1", "14")] == [521, 537, 561]


def test_builds_of_a_release_can_differ() -> None:
    """Of 0.8.0, the wheel for Python 3.11 alone has float16 and bfloat16."""
    counts = {
        (build.architecture, len(build.registrations), any("cp311" in name for name in build.wheels))
        for build in table.all_builds("0.8.0")
    }
    assert counts == {
        ("arm64", 282, False), ("arm64", 477, True), ("x86_64", 282, False), ("x86_64", 477, True),
    }  # fmt: skip


def test_every_file_can_be_read() -> None:
    assert len(table.releases()) == 16
    for release in table.releases():
        for build in table.all_builds(release):
            assert build.release == release
            assert build.macos_minimum
            assert build.wheels
            assert {one.device for one in build.on()} == {"GPU"}
            assert all(len(digest) == 64 for digest in build.wheels.values())


def test_releases_that_are_not_there() -> None:
    assert table.resolve("1.2") == table.resolve("latest") == "1.2.0"
    with pytest.raises(UnknownName, match="unknown release"):
        table.resolve("1.2.1")
    with pytest.raises(TableError, match="damaged"):
        table.decode(b'{"builds": [{}]}', "name")


def _command(*arguments: str) -> Any:
    return run_cli("kernels", *arguments, "--backend", "tensorflow-metal", process=False)


def test_the_commands() -> None:
    document = json.loads(_command("list", "--release", "1.2.0", "--format", "json").stdout)
    assert document["registrations"] == registered("1.2.0")
    said = [document[key] for key in ("release", "backend", "macos_minimum")]
    assert said == ["1.2.0", "tensorflow-metal", "12.1"]
    assert "Conv2D" in _command("show", "conv2d", "--release", "0.1,1.2.0").stdout
    difference = json.loads(_command("diff", "0.5.0", "latest", "--format", "json").stdout)
    assert (difference["from"], difference["to"]) == ("0.5.0", "1.2.0")
    assert "StatelessRandomNormal" in difference["gained"]
    assert json.loads(_command("since", "Conv2D", "--format", "json").stdout)[0]["native_since"] == "0.1.0"


def test_what_the_commands_refuse() -> None:
    for arguments, said in (
        (("list", "--release", "1.2.1"), "There are: 0.1.0"),
        (("show", "Svd"), "would run on the CPU"),
        (("show", "Conv2d_"), "did you mean 'Conv2D'"),
        (("list", "--key", "MPS"), "--key means nothing there"),
        (("list", "--library", "torchvision"), "--library means nothing there"),
    ):
        result = _command(*arguments)
        assert result.code == 2 and said in result.stderr, arguments


def _found(
    versions: Mapping[str, str], system: str = "macos-15.1-arm64", python: str = "3.11.9", **variables: str
) -> list[DoctorFinding]:
    return list(doctor.findings({"platform": system, "python": python}, variables, versions.get))


def _one(found: list[DoctorFinding], level: str) -> str:
    [finding] = [one for one in found if one.level == level]
    return f"{finding.message} | {finding.hint}"


def test_every_release_has_its_tensorflow() -> None:
    listed = [release for fit in releases.all_fits() for release in fit.releases]
    assert listed == list(table.releases())
    assert all(fit.sources and fit.error for fit in releases.all_fits() if fit.fails)


def test_the_plugin_for_a_tensorflow() -> None:
    best = {"2.5.0": "0.1.2", "2.9.3": "0.5.1", "2.13.1": "1.0.1", "2.16.2": "1.1.0"}
    best |= dict.fromkeys(("2.18.0", "2.19.1"), "1.2.0")
    assert {tensorflow: releases.releases_for(tensorflow)[-1] for tensorflow in best} == best
    assert releases.releases_for("2.20.0") == []
    said = _one(_found({"tensorflow": "2.20.0"}), "warning")
    assert "runs on the CPU" in said
    assert "tensorflow==2.19.*' tensorflow-metal==1.2.0" in said


def test_what_does_not_load() -> None:
    said = _one(_found({"tensorflow": "2.18.0", "tensorflow-metal": "1.1.0"}), "error")
    assert "Symbol not found" in said
    assert "pip install tensorflow-metal==1.2.0 (tensorflow/tensorflow#84167" in said
    said = _one(_found({"tensorflow": "2.21.0", "tensorflow-metal": "1.2.0"}), "error")
    assert "_pywrap_tensorflow_internal.so" in said
    # 0.5.1 has wheels for macOS 12, and a library for macOS 13.
    said = _one(
        _found({"tensorflow": "2.9.0", "tensorflow-metal": "0.5.1"}, system="macos-12.6-arm64", python="3.10.1"),
        "error",
    )
    assert "built for macOS 13.0, and this is 12.6 | pip install tensorflow-metal==0.5.0" in said
    said = _one(_found({"tensorflow": "2.19.0"}, python="3.13.1"), "warning")
    assert "has wheels for Python 3.9, 3.10, 3.11, 3.12" in said
    assert "No matching distribution found" in said
    assert "Apple silicon alone" in _one(_found({"tensorflow": "2.18.0"}, system="macos-15.1-x86_64"), "warning")


def test_what_fits_is_said() -> None:
    levels = {one.level for one in _found({"tensorflow": "2.18.1", "tensorflow-metal": "1.2.0"})}
    assert levels == {"ok", "note"}
    assert _found({"torch": "2.13.0"}) == []
    [elsewhere] = _found({"tensorflow-cpu": "2.18.0"}, system="linux-x86_64")
    assert "on a Mac, TensorFlow 2.18.0 goes with tensorflow-metal 1.2.0" in elsewhere.message
    assert "not known to go with" in _one(_found({"tensorflow": "2.18.0", "tensorflow-metal": "9.9"}), "warning")


def test_tf_keras() -> None:
    with_keras = {"tensorflow": "2.18.0", "keras": "3.8.0"}
    assert "cannot be imported" in _one(_found(with_keras, system="linux-x86_64", TF_USE_LEGACY_KERAS="1"), "error")
    other = {**with_keras, "tf-keras": "2.16.0"}
    assert "pip install 'tf-keras==2.18.*'" in _one(_found(other, system="linux-x86_64"), "warning")
    fitting = {**with_keras, "tf-keras": "2.18.0"}
    said = [one.message for one in _found(fitting, system="linux-x86_64", TF_USE_LEGACY_KERAS="1")]
    assert "tf.keras is tf-keras 2.18.0" in said
    assert "tf.keras is Keras 3.8.0" in [one.message for one in _found(with_keras, system="linux-x86_64")]


def test_advisories() -> None:
    identifiers = [one.id for one in all_advisories()]
    assert len(set(identifiers)) == len(identifiers)
    for one in all_advisories():
        assert one.sources
        assert set(one.releases) <= set(table.releases())
        assert set(one.operators) <= {kernel.operator for kernel in table.load("1.2.0").on()}
    about = [one for one in all_advisories() if not one.operators or "MatMul" in one.operators]
    concerned = {one.id for one in about if one.concerns("1.1.0", "2.14.0")}
    metal = {"metal-training-diverges", "metal-inference-differs"}
    assert concerned == metal | {"keras-optimizers-slow", "profiler-without-gpu"}


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


def test_tensorflow_is_missing_or_does_not_do(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = ModuleNotFoundError("No module named 'tensorflow'", name="tensorflow")
    cases: list[tuple[Any, type[Exception], str]] = [
        (absent, MissingPackage, "needs the package tensorflow, which is not installed.*pip install"),
        (ImportError("symbol not found"), WorkloadError, "cannot be imported: ImportError: symbol not found"),
        (SimpleNamespace(__version__="2.15.1"), WorkloadError, r"tensorflow 2\.15\.1 is too old"),
    ]
    monkeypatch.setattr(libraries.importlib, "import_module", Mock(side_effect=[found for found, _, _ in cases]))
    for _, error, said in cases:
        with pytest.raises(error, match=f"(?s){said}"):
            libraries.import_tensorflow("the workload 'keras:vgg16'")


def test_releases() -> None:
    chosen = {"latest": ["1.2.0"], "installed": ["1.2.0"], "1.0": ["1.0.1"], "1.2.0,0.5.0": ["0.5.0", "1.2.0"]}
    assert {text: table.chosen(text) for text in chosen} == chosen


def test_a_release_without_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnknownName, match=r"unknown release of tensorflow-metal '1\.9'"):
        table.chosen("1.9")
    monkeypatch.setattr(importlib.metadata, "version", lambda _: "1.1.7")
    assert table.chosen("installed") == ["1.1.0"]
    assert table.notes("1.1.0") == [
        "there is no table of the installed tensorflow-metal 1.1.7: that of 1.1.0 was taken"
    ]
