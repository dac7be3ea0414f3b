"""On a build of torch that has MPS: its own registrations are the ones that count, and none is added or run.

Simulated in a process of its own: the build flag is set and a few kernels are registered for MPS, as they are on a Mac
before mpsprobe starts.
"""

from __future__ import annotations

import json

from tests.forking import run_python

_MAC = """
import json, platform
import torch
platform.system = lambda: "Darwin"
torch._C._has_mps = True

def on_the_gpu(*args, **kwargs):
    raise AssertionError("a kernel of MPS was run")

live = torch.library.Library("aten", "IMPL", "MPS")
for name in ("linear", "linear_backward", "sin", "empty.memory_format", "empty_strided", "sum.dim_IntList"):
    live.impl(name, on_the_gpu)

def registered():
    # torch imports modules of its own when they are first needed, and those register operators of theirs.
    names = torch._C._dispatch_get_registrations_for_dispatch_key("MPS")
    return sorted(name for name in names if name.startswith("aten::"))

from mpsprobe.protocols import RunOptions, TorchRun
from mpsprobe_devkit.testing import FakeProgress
from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.kernels.mps import MPS_FAMILY
from mpsprobe_coverage.kernels.mps import load_table
from mpsprobe_coverage.scanner.scan import CoverageScanner
before = registered()
found = {}
with VirtualDevice(load_table("2.13.0")) as device:
    found["added"] = sorted(set(registered()) - set(before))
    layer = device.move(torch.nn.Linear(4, 3))
    with device.recording("forward"):
        loss = layer(torch.ones(2, 4, device="mps")).sin().sum()
    with device.recording("backward"):
        loss.backward()
    found["gradient"] = list(layer.weight.grad.shape)
    found["calls"] = {r.operator: r.judgement.verdict for r in device.recorder.calls()}
found["left"] = sorted(set(registered()) ^ set(before))

class Made:
    name, framework = "made", "torch"
    def build(self, options):
        return TorchRun(torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh()), (torch.ones(2, 4),))

def scan(release):
    report = CoverageScanner().scan(Made(), RunOptions(), [release], FakeProgress())
    return {
        "torch": report.target.torch,
        "table": report.target.table is not None,
        "verdicts": {one.operator: one.verdict for one in report.operators},
        "failure": report.failure and report.failure.message,
    }

found["installed"], found["2.13.0"] = scan("installed"), scan("2.13.0")
live = MPS_FAMILY.installed()
found["live"] = {name: live.verdict("aten::" + name) for name in ("linear", "sin", "tanh.out", "nonzero")}
print(json.dumps(found))
"""


def test_the_dispatcher_of_a_mac_is_asked_and_not_changed() -> None:
    done = run_python(_MAC)
    assert done.code == 0, done.stderr
    found = json.loads(done.stdout)
    # Nothing is registered for MPS, the run is judged by the table, and no kernel is run.
    assert found["added"] == [] and found["left"] == []
    assert found["gradient"] == [3, 4]
    assert found["calls"]["aten::linear"] == found["calls"]["aten::linear_backward"] == "native"
    live, shipped = found["installed"], found["2.13.0"]
    assert live["failure"] is None and shipped["failure"] is None
    # Of the two operators only linear was registered; no wheel stands behind such a table.
    assert live["table"] is False and shipped["table"] is True
    assert live["verdicts"]["aten::linear"] == "native" and live["verdicts"]["aten::tanh.out"] == "missing"
    assert shipped["verdicts"] == {"aten::linear": "native", "aten::tanh": "native"}
    assert found["live"] == {"linear": "native", "sin": "native", "tanh.out": "missing", "nonzero": "missing"}
