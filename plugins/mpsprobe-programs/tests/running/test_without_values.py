"""``--values none``: a program makes a model on the CPU that is larger than the memory that it takes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from mpsprobe_devkit.testing import run_cli

TRAINING = """
import resource, sys
import torch

UNIT = 1 if sys.platform == "darwin" else 1024
def most():  # bytes of memory
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * UNIT

torch.empty(2**21).normal_()  # what this imports is not the model's
torch.ones(2, device="mps").sum().item()
before = most()
model = torch.nn.Sequential(*(torch.nn.Linear(4096, 4096) for _ in range(24)))
optimizer = torch.optim.AdamW(model.parameters())
model.to("mps")
loss = model(torch.randn(512, 4096).to("mps")).sum()
loss.backward()
optimizer.step()
print(loss.item(), (most() - before) / sum(p.nbytes for p in model.parameters()))
"""

if sys.platform != "win32":

    @pytest.mark.thorough
    def test_a_model_takes_a_fraction_of_its_memory(tmp_path: Path) -> None:
        (tmp_path / "train.py").write_text(TRAINING, encoding="utf-8")
        ran = run_cli("run", "--values", "none", "-o", "report.json", "train.py", cwd=tmp_path)
        assert ran.code == 0, ran.stderr
        loss, ratio = map(float, ran.stdout.split())
        assert loss == 1.0
        assert ratio < 0.05, "weights, gradients and two moments are four times the weights"
        report = json.loads((tmp_path / "report.json").read_bytes())
        assert report["workload"]["parameters"] == 24 * (4096 + 1) * 4096
        assert "aten::_local_scalar_dense" in {one["operator"] for one in report["data_dependence"]}
