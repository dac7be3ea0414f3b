"""What is recorded besides a verdict: advisories, derivatives of fallbacks, calls in inference mode, on other releases.

They run in one process of their own: the device can be opened only before torch has looked for MPS.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

CHILD = """
import json, sys
import torch
from mpsprobe_coverage.judging.chain import Chain
from mpsprobe_coverage.kernels.mps import load_table
from mpsprobe_programs.native.device import NativeDevice

def on(release="2.13.0", lines=False):
    return NativeDevice(Chain(load_table(release)), lines=lines)

def calls(device):
    device.finish()
    return {c.operator: c.calls for c in device.recorder.calls() if c.operator[6:] in ("exp", "cos", "sin")}

for line in sys.stdin:
    names = {**globals()}
    exec(json.loads(line), names)
    print(json.dumps(names["found"]), flush=True)
"""
Run = Callable[[str], Any]


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """Runs a program there; returns its ``found``."""
    command = [sys.executable, "-W", "ignore", "-c", CHILD]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None and child.stdout is not None
        asked, answers = child.stdin, child.stdout

        def run(program: str) -> Any:
            print(json.dumps(program), file=asked, flush=True)
            return json.loads(answers.readline())

        yield run
        asked.close()


def test_advisories_are_counted(run: Run) -> None:
    found = run("""
with on("2.12.0") as device:
    q = torch.zeros(1, 4, 16, 64, device="mps", dtype=torch.float16)
    for causal in (True, True, False):
        torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=causal)
    device.finish()
found = [(a.advisory, a.calls) for a in device.recorder.advisories()]
""")
    assert found == [["attention-causal-half", 2]]


def test_the_derivative_of_a_fallback_is_one_call(run: Run) -> None:
    found = run("""
with on() as device:
    matrix = torch.rand(4, 3, device="mps", requires_grad=True)
    values = torch.linalg.svd(matrix, full_matrices=False)[1]
    for _ in range(2):
        values.sum().backward(retain_graph=True)
    device.finish()
def shapes(specs):
    return [list(one.shape) for one in specs]
found = [[(c.phase, c.calls, shapes(c.outputs)) for c in device.recorder.calls() if c.operator == "aten::linalg_svd"],
         [shapes(c.inputs) for c in device.recorder.calls() if (c.operator, c.phase) == ("aten::copy_", "backward")]]
""")
    assert found[0] == [["forward", 1, [[4, 3], [3], [3, 3]]], ["backward", 2, [[4, 3]]]]
    assert [[3], [3]] not in found[1], "its copies belong to it"


def test_inference_mode_on_an_older_release(run: Run) -> None:
    found = run("""
with on("2.4.0") as device, torch.inference_mode():
    q = torch.rand(1, 2, 3, 4, device="mps")
    view = q.view(2, 3, 4)
    result = torch.nn.functional.scaled_dot_product_attention(q, q, q)
    device.finish()
found = [result.is_inference(), sorted({c.operator for c in device.recorder.calls()})]
""")
    assert found[0]
    assert "aten::_softmax" in found[1] and "aten::isneginf" not in found[1], "2.4 has no safe softmax"


def test_phases_are_those_of_the_thread_also_without_lines(run: Run) -> None:
    found = run("""
import threading
class Optimizer(torch.optim.SGD):
    def step(self, closure=None):
        thread = threading.Thread(target=lambda: weight.exp())
        thread.start()
        thread.join()
        super().step(closure)
with on() as device:
    weight = torch.ones(3, device="mps", requires_grad=True)
    Optimizer([weight], lr=0.1).step(lambda: weight.cos().sum().backward())
    device.finish()
phases = {c.operator: c.phase for c in device.recorder.calls()}
found = [*(phases[f"aten::{name}"] for name in ("exp", "cos", "sin", "add_.Tensor")), device.threads]
""")
    assert found == ["forward", "forward", "backward", "optimizer", 2]


THREADS = """
import threading, torch
together = threading.Barrier(2)
def work(cos):
    x = torch.ones(3, device="mps", requires_grad=True)
    if cos:
        y = x.cos()
    else:
        y = x.sin()
    together.wait()
    y.sum().backward()
both = [threading.Thread(target=work, args=(cos,)) for cos in (True, False)]
for thread in both: thread.start()
for thread in both: thread.join()
"""


def test_nodes_of_one_number_are_told_apart_by_their_thread(run: Run, tmp_path: Path) -> None:
    script = tmp_path / "threads.py"
    script.write_text(THREADS, encoding="utf-8")
    found = run(f"""
import runpy
import mpsprobe_programs
with on(lines=True) as device:
    device.attribution.follow_program(print, mpsprobe_programs.__path__[0])
    runpy.run_path({str(script)!r})
    device.finish()
found = sorted((c.operator, c.origin.line) for c in device.recorder.calls()
               if c.phase == "backward" and c.operator in ("aten::sin", "aten::cos"))
""")
    assert found == [["aten::cos", 9], ["aten::sin", 7]]


def test_no_call_is_lost_when_counts_are_taken_meanwhile(run: Run) -> None:
    found = run("""
import threading
with on() as device:
    started, taken = threading.Event(), threading.Event()
    own = device._recording._judge_call
    def judge_call(name, place):
        slot = own(name, place)
        if name == "aten::exp":
            started.set()
            taken.wait()
        return slot
    device._recording._judge_call = judge_call
    x = torch.ones(3, device="mps")
    device.finish()
    thread = threading.Thread(target=x.exp)
    thread.start()
    started.wait()
    x.cos()
    device.finish()
    x.sin()
    taken.set()
    thread.join()
    found = calls(device)
""")
    assert found == {"aten::cos": 1, "aten::exp": 1, "aten::sin": 1}


def test_ctrl_c_during_a_question_ends_the_program(run: Run) -> None:
    found = run("""
with on(lines=True) as device:
    x, own, seen = torch.ones(3, device="mps"), device.attribution.current, []
    def current():
        device.attribution.current = own
        raise KeyboardInterrupt
    device.attribution.current = current
    try:
        x.exp()
    except KeyboardInterrupt:
        seen.append("ended")
    x.exp()
    found = [seen, calls(device)]
""")
    assert found == [["ended"], {"aten::exp": 2}]


def test_python_waits_for_the_thread_of_autograd(run: Run) -> None:
    found = run("""
import atexit, threading, time
from unittest.mock import patch
with patch.object(atexit, "register") as register, on():
    x, begun, ended = torch.ones(3, device="mps", requires_grad=True), threading.Event(), []
    def slow(_):
        begun.set()
        time.sleep(0.3)
        ended.append(True)
    y = x * 2
    y.register_hook(slow)
    thread = threading.Thread(target=y.sum().backward)
    thread.start()
    begun.wait()
    register.call_args.args[0]()
    found = [*ended]
    thread.join()
""")
    assert found == [True]
