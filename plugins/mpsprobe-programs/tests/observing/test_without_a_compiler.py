"""``observe()`` where nothing can be compiled."""

from __future__ import annotations

import pytest
import torch
from small_training import counts, training

from mpsprobe.errors import UsageError
from mpsprobe_programs.observing import observe as module
from mpsprobe_programs.observing.in_python import ObserverInPython
from mpsprobe_programs.observing.observe import observe
from mpsprobe_programs.observing.reporting import report


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


def test_a_device_that_there_is_not() -> None:
    with pytest.raises(UsageError, match="no device 'gpu'"):
        observe("gpu")
