"""``observe()`` where nothing can be compiled; and what is loaded from the cache was written by this user alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from small_training import counts, training

from mpsprobe.errors import UsageError
from mpsprobe_coverage.devices.compiling import DEVICE, Library
from mpsprobe_coverage.devices.observed import observe as module
from mpsprobe_coverage.devices.observed.in_python import ObserverInPython
from mpsprobe_coverage.devices.observed.observe import observe
from mpsprobe_coverage.programs.observing import report


def test_without_a_compiler_python_observes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module._sharing, "_observer", ObserverInPython("for a test"))
    bare = training()
    with observe("cpu") as run:
        results = training()
    assert all(map(torch.equal, bare, results))
    found = counts(run)
    assert found["aten::addmm"] and found["aten::native_layer_norm_backward"] == 2 and found["aten::addcdiv_"]
    assert {call.kind.phase for call in run.calls()} == {"forward", "backward", "optimizer"}
    assert set(run.limits) <= set(report(run, "training").workload.notes)


def test_what_others_may_write_is_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    compiled: list[Path] = []
    monkeypatch.setattr(Library, "_compile", lambda _, target: compiled.append(target))
    DEVICE.kept.parent.mkdir(mode=0o700, parents=True)
    DEVICE.kept.write_text("foreign")
    if not hasattr(os, "getuid"):
        return  # Windows has no such bits
    DEVICE.kept.chmod(0o666)
    assert DEVICE.compile() == DEVICE.kept and compiled == [DEVICE.kept], "compiled again, in its place"
    DEVICE.kept.chmod(0o600)
    assert DEVICE.compile() == DEVICE.kept and len(compiled) == 1
    DEVICE.kept.parent.chmod(0o1777)
    with pytest.raises(UsageError, match="others may write to") as refused:
        DEVICE.compile()
    assert "chmod 700" in refused.value.hint
