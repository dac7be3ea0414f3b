"""What is recorded besides a verdict: advisories, derivatives of fallbacks, calls in inference mode, on other releases.

Each runs in a process of its own: the device can be opened only before torch has looked for MPS.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

OPEN = """
import json, sys
import torch
from mpsprobe_coverage.judging.chain import Chain
from mpsprobe_coverage.kernels.mps import load_table
from mpsprobe_programs.native.device import NativeDevice

def on(release):
    return NativeDevice(Chain(load_table(release)), lines=False)

def shown(recorder):
    return [(c.operator, c.judgement.verdict, c.phase, [list(s.shape) for s in c.inputs]) for c in recorder.calls()]
"""


def _run(program: str) -> Any:
    done = subprocess.run([sys.executable, "-c", OPEN + program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_advisories_are_counted() -> None:
    found = _run("""
with on("2.12.0") as device:
    q = torch.zeros(1, 4, 16, 64, device="mps", dtype=torch.float16)
    for causal in (True, True, False):
        torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=causal)
    device.finish()
print(json.dumps([(a.advisory, a.calls) for a in device.recorder.advisories()]))
""")
    assert found == [["attention-causal-half", 2]]


def test_the_derivative_of_a_fallback_is_one_call() -> None:
    found = _run("""
with on("2.13.0") as device:
    matrix = torch.rand(4, 3, device="mps", requires_grad=True)
    values = torch.linalg.svd(matrix, full_matrices=False)[1]
    for _ in range(2):
        values.sum().backward(retain_graph=True)
    device.finish()
calls = [(c.phase, c.calls, [list(s.shape) for s in c.outputs]) for c in device.recorder.calls()
         if c.operator == "aten::linalg_svd"]
print(json.dumps([calls, [c for c in shown(device.recorder) if c[0] == "aten::copy_" and c[2] == "backward"]]))
""")
    assert found[0] == [["forward", 1, [[4, 3], [3], [3, 3]]], ["backward", 2, [[4, 3]]]]
    assert not [call for call in found[1] if call[3] == [[3], [3]]], "its copies belong to it"


def test_inference_mode_on_an_older_release() -> None:
    found = _run("""
with on("2.4.0") as device, torch.inference_mode():
    q = torch.rand(1, 2, 3, 4, device="mps")
    view = q.view(2, 3, 4)
    result = torch.nn.functional.scaled_dot_product_attention(q, q, q)
    device.finish()
print(json.dumps([result.is_inference(), sorted({c[0] for c in shown(device.recorder)})]))
""")
    assert found[0]
    assert "aten::_softmax" in found[1] and "aten::isneginf" not in found[1], "2.4 has no safe softmax"
