"""The audit of PyTorch's modules, on a few of them, and of samples that no test of PyTorch has."""

from __future__ import annotations

import dataclasses

import pytest

from mpsprobe.progress import SilentProgress
from mpsprobe_tables.audit import modules
from mpsprobe_tables.audit.modules import ModuleAudit, audit_modules
from mpsprobe_tables.audit.untested import audit_untested
from mpsprobe_tables.module_marks import Mark, load_marks


def _audit(release: str, *names: str) -> ModuleAudit:
    [audited] = audit_modules([release], names, 1, SilentProgress())
    assert audited.internal == ()
    return audited


def test_what_is_refused_carries_a_mark() -> None:
    audited = _audit("2.2.0", "nn.Conv3d", "nn.Conv2d")
    outcomes = {(one.module, one.expected, one.outcome) for one in audited.tests}
    assert outcomes == {("nn.Conv3d", "skip", "refused"), ("nn.Conv2d", "pass", "runs")}
    assert (audited.recall, audited.precision, audited.disagreements) == (1.0, 1.0, [])


def test_modes_and_dtypes_and_gradients_are_tests_of_their_own() -> None:
    audited = _audit("2.13.0", "nn.InstanceNorm3d")
    tests = {(one.dtype, one.mode, one.gradient) for one in audited.tests}
    assert len(tests) == len(audited.tests) == 8
    # Its marks name a class that has no tests: it is expected to pass, and does.
    assert {(one.expected, one.outcome) for one in audited.tests} == {("pass", "runs")}
    assert audited.idle == ("nn.InstanceNorm3d",)


def test_a_failure_in_float16_against_a_reference_is_a_matter_of_numbers() -> None:
    audited = _audit("2.13.0", "nn.GELU")
    assert [(one.dtype, one.gradient) for one in audited.tests if one.expected == "numbers"] == [("float16", False)]


def test_disagreements_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = load_marks("2.2.0")
    fails = (Mark("fail", "TestModule", None, None, None),)
    changed = dataclasses.replace(shipped, modules={**shipped.modules, "nn.Conv3d": (), "nn.Conv2d": fails})
    monkeypatch.setattr(modules, "load_marks", lambda _release: changed)
    audited = _audit("2.2.0", "nn.Conv3d", "nn.Conv2d")
    assert (audited.recall, audited.precision) == (0.0, 0.0)
    assert {(one.module, one.expected, one.outcome) for one in audited.disagreements} == {
        ("nn.Conv3d", "pass", "refused"),
        ("nn.Conv2d", "fail", "runs"),
    }


def test_what_the_device_alone_raises_is_its_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    step = modules._step

    def broken(entry: object, given: object, dtype: str, mode: modules.Mode, device: object) -> None:
        if device is not None:
            raise RuntimeError("broken")
        step(entry, given, dtype, mode, None)

    monkeypatch.setattr(modules, "_step", broken)
    [audited] = audit_modules(["2.2.0"], ["nn.ReLU"], 1, SilentProgress())
    assert audited.internal == ("nn.ReLU with float32 on torch 2.2.0: RuntimeError: broken",)
    monkeypatch.setattr(modules, "_raises", lambda *_: True)
    [audited] = audit_modules(["2.2.0"], ["nn.ReLU"], 1, SilentProgress())
    assert audited.internal == ()
    assert {one.outcome for one in audited.tests} == {"raised"}


def test_each_entry_counts_once_for_each_kind_that_it_has() -> None:
    entries = ["exp", "linalg.eig", "nn.functional.conv2d"]
    [one] = audit_untested(["2.13.0"], entries, 1, SilentProgress())
    assert dict(one.counts["rank 6"]) == {"native": 1, "missing": 1}  # a convolution of images has no such rank
    assert "int64" in one.counts and one.counts["int64"]["missing"] == 1  # the CPU has exp of whole numbers, not eig
    assert one.counts["float8_e5m2"].total() == 3


def test_refusals_of_untested_samples_are_told_by_their_sources() -> None:
    [one] = audit_untested(["2.13.0"], ["erf", "nonzero"], 1, SilentProgress())
    assert one.counts["complex64"]["metal"] == 1
    assert one.counts["float8_e5m2"]["native"] == 0
