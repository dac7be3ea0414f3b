"""``run --compile``: a compiled step runs the kernels of Inductor, and what is wrong with a kernel is noted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mpsprobe_devkit.testing import run_cli

PROGRAM = """
import torch
torch.manual_seed(0)
from torch import nn; net = nn.Sequential(nn.Linear(32, 64), nn.LayerNorm(64), nn.GELU(), nn.Linear(64, 4)).to("mps")
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
step, x, y = torch.compile(net), torch.randn(64, 32).to("mps"), torch.randint(0, 4, (64,)).to("mps")
for _ in range(3):
    loss = torch.nn.functional.cross_entropy(step(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"{loss.item():.3f}")
code = "kernel void twice(device float* o, uint i [[thread_position_in_grid]]) { o[i + 1] = 2.0; }"
torch.mps.compile_shader(code).twice(torch.zeros(8, device="mps"))
print(torch.compile(lambda a: torch.nextafter(a, a + 1))(x).shape)
patches = nn.Conv2d(3, 128, 14, 14).to("mps")  # Inductor makes its tensors channels last
print(torch.compile(lambda a: patches(a))(torch.randn(1, 3, 28, 28, device="mps")).shape)
"""


@pytest.mark.slow
def test_a_program_prints_the_same_with_its_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (temporary := tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    (tmp_path / "train.py").write_text(PROGRAM, encoding="utf-8")
    printed, reports = [], []
    for more in ([], ["--compile"]):
        ran = run_cli("run", *more, "-o", "report.json", "train.py", cwd=tmp_path)
        assert ran.code == 0 and "is deprecated" not in ran.stderr, ran.stderr  # Dynamo asks for all of torch
        printed.append(ran.stdout)
        reports.append(json.loads((tmp_path / "report.json").read_bytes()))
    assert printed[0] == printed[1] and len(printed[0].splitlines()) == 5
    outside = "the Metal kernel twice: o[8] is outside its tensor, in thread (7, 0, 0)"
    assert [report["program"]["notes"] for report in reports] == [[outside], [outside]]
    sites = {site.partition(":")[0] for report in reports for one in report["operators"] for site in one["call_sites"]}
    assert sites == {"train.py"}  # and not what Inductor generates, into a folder with the user's name
    assert not [*temporary.rglob("tmp*")]
    assert reports[0]["compiled"] is None
    made = reports[1]["compiled"]
    assert made["refused"] == [{
        "reason": "its generator for Metal does not have this operation", "operator": "aten::nextafter",
        "call_site": "train.py:15",
    }]  # fmt: skip
    assert made["graphs"] == 3 and not made["recompiled"] and made["eager"] is None
    assert not any(kernel["faults"] for kernel in made["kernels"])
    assert sum(kernel["compared"] > 0 for kernel in made["kernels"]) >= len(made["kernels"]) / 2
    assert {phase for kernel in made["kernels"] for phase in kernel["phases"]} == {"forward", "backward"}


def test_kernels_need_values(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch", encoding="utf-8")
    ran = run_cli("run", "--compile", "--values", "none", "train.py", cwd=tmp_path, process=False)
    assert ran.code == 2 and "--compile runs kernels on the virtual device, with values" in ran.stderr
