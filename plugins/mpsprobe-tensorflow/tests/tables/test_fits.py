"""Which plugin goes with which TensorFlow, and what doctor says about it. Nothing of it is installed here."""

from __future__ import annotations

from collections.abc import Mapping

from mpsprobe.declarations import DoctorFinding
from mpsprobe_tensorflow import doctor
from mpsprobe_tensorflow.tables import fits, table
from mpsprobe_tensorflow.tables.advisories import all_advisories


def _found(
    versions: Mapping[str, str],
    macos: str = "15.1",
    architecture: str = "arm64",
    python: str = "3.11.9",
    **variables: str,
) -> list[DoctorFinding]:
    platform = f"macos-{macos}-{architecture}" if macos else "linux-x86_64"
    return list(doctor.findings({"platform": platform, "python": python}, variables, versions.get))


def _one(found: list[DoctorFinding], level: str) -> str:
    [finding] = [one for one in found if one.level == level]
    return f"{finding.message} | {finding.hint}"


def test_every_release_has_its_tensorflow() -> None:
    listed = [release for fit in fits.all_fits() for release in fit.releases]
    assert listed == list(table.releases())
    assert all(fit.sources and fit.error for fit in fits.all_fits() if fit.fails)


def test_the_plugin_for_a_tensorflow() -> None:
    best = {
        "2.5.0": "0.1.2",
        "2.9.3": "0.5.1",
        "2.13.1": "1.0.1",
        "2.16.2": "1.1.0",
        "2.18.0": "1.2.0",
        "2.19.1": "1.2.0",
    }
    assert {tensorflow: fits.releases_for(tensorflow)[-1] for tensorflow in best} == best
    assert fits.releases_for("2.20.0") == []
    said = _one(_found({"tensorflow": "2.20.0"}), "warning")
    assert "runs on the CPU" in said
    assert "tensorflow==2.19.*' tensorflow-metal==1.2.0" in said


def test_what_does_not_load() -> None:
    said = _one(_found({"tensorflow": "2.18.0", "tensorflow-metal": "1.1.0"}), "error")
    assert "Symbol not found" in said
    assert "pip install tensorflow-metal==1.2.0 (tensorflow/tensorflow#84167" in said
    said = _one(_found({"tensorflow": "2.21.0", "tensorflow-metal": "1.2.0"}), "error")
    assert "_pywrap_tensorflow_internal.so" in said
    """0.5.1 has wheels for macOS 12, and a library for macOS 13."""
    said = _one(_found({"tensorflow": "2.9.0", "tensorflow-metal": "0.5.1"}, macos="12.6", python="3.10.1"), "error")
    assert "built for macOS 13.0, and this is 12.6 | pip install tensorflow-metal==0.5.0" in said
    said = _one(_found({"tensorflow": "2.19.0"}, python="3.13.1"), "warning")
    assert "has wheels for Python 3.9, 3.10, 3.11, 3.12" in said
    assert "No matching distribution found" in said
    assert "Apple silicon alone" in _one(_found({"tensorflow": "2.18.0"}, architecture="x86_64"), "warning")


def test_what_fits_is_said() -> None:
    levels = {one.level for one in _found({"tensorflow": "2.18.1", "tensorflow-metal": "1.2.0"})}
    assert levels == {"ok", "note"}
    assert _found({"torch": "2.13.0"}) == []
    [elsewhere] = _found({"tensorflow-cpu": "2.18.0"}, macos="")
    assert "on a Mac, TensorFlow 2.18.0 goes with tensorflow-metal 1.2.0" in elsewhere.message
    assert "not known to go with" in _one(_found({"tensorflow": "2.18.0", "tensorflow-metal": "9.9"}), "warning")


def test_tf_keras() -> None:
    with_keras = {"tensorflow": "2.18.0", "keras": "3.8.0"}
    assert "cannot be imported" in _one(_found(with_keras, macos="", TF_USE_LEGACY_KERAS="1"), "error")
    other = {**with_keras, "tf-keras": "2.16.0"}
    assert "pip install 'tf-keras==2.18.*'" in _one(_found(other, macos=""), "warning")
    fitting = {**with_keras, "tf-keras": "2.18.0"}
    said = [one.message for one in _found(fitting, macos="", TF_USE_LEGACY_KERAS="1")]
    assert "tf.keras is tf-keras 2.18.0" in said
    assert "tf.keras is Keras 3.8.0" in [one.message for one in _found(with_keras, macos="")]


def test_advisories() -> None:
    identifiers = [one.id for one in all_advisories()]
    assert len(set(identifiers)) == len(identifiers)
    for one in all_advisories():
        assert one.sources
        assert set(one.releases) <= set(table.releases())
        assert set(one.operators) <= table.load("1.2.0").operators
    concerned = {one.id for one in all_advisories() if one.concerns("1.1.0", "2.14.0", {"MatMul"})}
    assert concerned == {
        "metal-training-diverges",
        "metal-inference-differs",
        "keras-optimizers-slow",
        "profiler-without-gpu",
    }
