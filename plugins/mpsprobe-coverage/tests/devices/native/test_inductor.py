"""``coverage --compile``: what the installed Inductor generates for MPS, refuses, and leaves to operators."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mpsprobe_devkit.testing import run_cli

MODEL = """
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last, self.norm = torch.nn.Linear(32, 48), torch.nn.Linear(48, 8), torch.nn.LayerNorm(48)

    def forward(self, x):
        x = self.norm(torch.nn.functional.gelu(self.first(x)))
{more}
        return self.last(x).cumsum(-1)


def make():
    return Model(), torch.randn(16, 32)
"""


EXPERTS = """
        if not torch.compiler.is_compiling():  # as transformers has it: meta takes bfloat16 alone, MPS all
            weights, ends = x.new_ones(1, 48, 48), torch.tensor([16], dtype=torch.int32, device=x.device)
            x = torch._grouped_mm(x, weights, offs=ends)
"""


def _compiled(folder: Path, more: str, *options: str) -> dict[str, Any]:
    (folder / "model.py").write_text(MODEL.format(more=more), encoding="utf-8")
    arguments = ("coverage", "model.py:make", "--compile", *options, "-o", "report.json")
    ran = run_cli(*arguments, cwd=folder, process=False)
    assert ran.code == 0, ran.stderr
    step: dict[str, Any] = json.loads((folder / "report.json").read_bytes())["compiled"]
    assert step["failure"] is None
    return step


@pytest.mark.slow
def test_kernels_of_a_step_and_the_operators_that_are_left(tmp_path: Path) -> None:
    step = _compiled(tmp_path, "", "--metal", "kernels", "--chip", "m2-pro")
    assert (step["graphs"], step["breaks"], step["refused"]) == (1, [], [])
    time = json.loads((tmp_path / "report.json").read_bytes())["time"]
    gain = time["step_ms"][1] / step["step_ms"][1]
    assert [one["gain"] for one in time["faster"] if one["kind"] == "compile"] == (
        [round(gain, 2)] if gain >= 1.05 else []
    )
    [kernel] = step["kernels"]
    assert kernel["operators"] == ["aten::linear", "aten::gelu", "aten::native_layer_norm"]
    assert kernel["call_sites"] == ["model.py:11"] and kernel["phases"] == {"forward": 1}
    assert kernel["moved_bytes"] == 4 * (16 * 48 * 2 + 48 * 3)  # what it reads and writes, weights and biases
    calls = {one["operator"]: one["calls"] for one in step["operators"] if one["verdict"] == "native"}
    assert calls["aten::cumsum"] == 1 and calls["aten::mm.out"] + calls.get("aten::addmm.out", 0) == 2
    assert step["eager"]["launches"] == 5 and step["compiled"]["launches"] == 4
    written = (tmp_path / "kernels/graph_0/generated_kernel_0.metal").read_text(encoding="utf-8")
    assert "c10::metal::threadgroup_welford_reduce" in written and "kernel void generated_kernel_0(" in written


@pytest.mark.slow
def test_where_graphs_end_and_what_inductor_refuses(tmp_path: Path) -> None:
    step = _compiled(tmp_path, "        print('between')\n        x = torch.nextafter(x, x + 1)")
    [broken] = step["breaks"]
    assert broken["call_site"] == "model.py:12" and broken["times"] == 1
    [refused] = step["refused"]
    assert (refused["operator"], refused["call_site"]) == ("aten::nextafter", "model.py:13")
    assert refused["reason"] == "its generator for Metal does not have this operation"
    assert step["graphs"] == 2
    [nextafter] = [one for one in step["operators"] if one["operator"] == "aten::nextafter"]
    assert nextafter["calls"] == 1  # run as an operator, so that what follows is seen


@pytest.mark.slow
def test_kernels_of_the_backward_pass(tmp_path: Path) -> None:
    step = _compiled(tmp_path, EXPERTS, "--phase", "training")
    phases = [phase for kernel in step["kernels"] for phase in kernel["phases"]]
    assert "forward" in phases and "backward" in phases
    calls = {one["operator"]: one["phases"] for one in step["operators"]}
    assert calls["aten::linear_backward"] == {"backward": 2}  # its forward is MPS's own, unlike the CPU's
    assert "optimizer" in calls["aten::_fused_adamw_"]


READS = """
        rows = int((x[:, 0] > 0).sum()) % 7 + 1
        x = x[:rows]
        return self.last(x).cumsum(-1), (x > 0).nonzero()
"""


@pytest.mark.slow
def test_what_reads_a_value_runs_with_values(tmp_path: Path) -> None:
    step = _compiled(tmp_path, READS, "--phase", "inference")
    assert step["values"] and [one["call_site"] for one in step["breaks"]] == ["model.py:13", "model.py:15"]
    assert step["graphs"] > 1 and all(one["compared"] and not one["faults"] for one in step["kernels"])
    assert {"aten::nonzero", "aten::_local_scalar_dense"} <= {one["operator"] for one in step["operators"]}
    assert step["compiled"]["launches"] < step["eager"]["launches"]


LEFT_AS_IT_IS = """
        for _ in range(2):
            try:
                print(int((x > 0).sum()))
                x = x.index_put((torch.tensor([0], device=x.device),), torch.ones(x.shape[-1], device=x.device))
            finally:
                pass
        return self.last(x)
"""


@pytest.mark.slow
def test_what_is_asked_of_calls_is_not_compiled(tmp_path: Path) -> None:
    """TorchDynamo leaves such a function as it is, and follows what is called in it."""
    step = _compiled(tmp_path, LEFT_AS_IT_IS, "--phase", "inference")
    assert step["values"] and step["failure"] is None


BOTH_WAYS = """
import logging
import sys

logging.disable()
from mpsprobe.plugins.registry import get_registry
from mpsprobe.protocols import RunOptions
from mpsprobe_coverage.knowledge.kernels.mps import load_table
from mpsprobe_coverage.knowledge.kernels.releases import installed_release
from mpsprobe_coverage.programs.compiled_step import compiled_step

steps = []
for values in (False, True):
    workload, options = get_registry().workload("model.py:make"), RunOptions(phase=sys.argv[1])
    step, _ = compiled_step(workload, options, load_table(installed_release()), values=values)
    kernels = [one.model_copy(update={"compared": 0}) for one in step.kernels]
    views = ("aten::detach", "aten::as_strided")  # fake tensors call these for themselves
    operators = [one for one in step.operators if one.operator not in views]
    steps.append(step.model_copy(update={"values": False, "kernels": kernels, "operators": operators}))
assert steps[0].kernels and steps[0] == steps[1], steps
"""


@pytest.mark.slow
@pytest.mark.parametrize("phase", ["inference", "training"])
def test_a_step_has_the_same_answer_with_values(tmp_path: Path, phase: str) -> None:
    (tmp_path / "model.py").write_text(MODEL.format(more="        print('between')"), encoding="utf-8")
    command = [sys.executable, "-c", BOTH_WAYS, phase]  # a process in which nothing has asked torch for MPS
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.slow
def test_what_many_sizes_compile_again(tmp_path: Path) -> None:
    arguments = ("hf:albert", "--size", "small", "--compile", "--vary", "batch-size=1..8", "-o", "report.json")
    ran = run_cli("coverage", *arguments, cwd=tmp_path, process=False)
    assert ran.code == 0, ran.stderr
    report = json.loads((tmp_path / "report.json").read_bytes())
    step = report["compiled"]
    assert report["growth"]["tried"] == [1, 4, 8]
    # Its own size is 1 too; 4 compiles for any size, which 8 has.
    [again] = step["recompiled"]
    assert again["times"] == 1 and "size" in again["reason"] and again["call_site"], again
    assert step["graphs"] == 1 and step["failure"] is None


IMAGES = """
import torch


class Inner(torch.nn.Module):
    def forward(self, x):
        print("inside")
        return torch.nn.functional.gelu(x)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.inner = torch.nn.Conv2d(3, 4, 3), Inner()
        self.first.register_forward_hook(lambda module, args, result: result * 2)

    def forward(self, x):
        return self.inner(self.first(x)).mean()


def make():
    return Model(), torch.randn(1, 3, 16, 16)


if __name__ == "__main__":
    model = torch.compile(Model().to("mps"))
    for size in (16, 12):
        model(torch.randn(1, 3, size, size, device="mps"))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [("coverage", "model.py:make", "--compile", "--vary", "size=12..16"), ("run", "--compile")]
)
def test_only_the_programs_own_lines_are_named(tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "model.py").write_text(IMAGES, encoding="utf-8")
    program = ("model.py",) if command[0] == "run" else ()
    ran = run_cli(*command, "-o", "report.json", *program, cwd=tmp_path)
    assert ran.code == 0, ran.stderr
    step = json.loads((tmp_path / "report.json").read_bytes())["compiled"]
    assert {one["call_site"] for one in step["breaks"]} == {"model.py:7"}
    again = [one["call_site"] for one in step["recompiled"]]
    assert again and all(site and site.startswith("model.py:") for site in again), step["recompiled"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--metal", "kernels"], "--metal writes the kernels that --compile generates"),
        (["--compile", "--torch", "2.6.0,2.13.0"], "--compile is about one workload on one torch release"),
        (["--compile", "--torch", "2.6.0"], "whose generator it runs, not 2.6.0"),
        (["--compile", "--phase", "generate"], "--compile is about a step of the model"),
    ],
)
def test_what_does_not_go_together(tmp_path: Path, options: list[str], said: str) -> None:
    (tmp_path / "model.py").write_text(MODEL.format(more=""), encoding="utf-8")
    ran = run_cli("coverage", "model.py:make", *options, cwd=tmp_path, process=False)
    assert ran.code == 2 and said in " ".join(ran.stderr.split())
