"""``mpsprobe verify SCRIPT``: a program runs once, and each operator that it calls on the device is compared."""

from __future__ import annotations

import json
from pathlib import Path

from mpsprobe_devkit.testing import run_cli

PROGRAM = """
import sys
import torch

torch.manual_seed(3)
first, last = torch.nn.Linear(4, 8), torch.nn.Linear(8, 1)
model = torch.nn.Sequential(first, torch.nn.Tanh(), torch.nn.Dropout(0.5), last).to("mps")
if "harmed" in sys.argv:
    library = torch.library.Library("aten", "IMPL")
    library.impl("tanh_backward", lambda grad, y: (grad.cpu() * 1.5).to("mps"), "MPS", allow_override=True)
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(2):
    optimizer.zero_grad()
    loss = model(torch.ones(16, 4, device="mps")).square().mean()
    loss.backward()
    optimizer.step()
print(f"{loss.item():.4f}")
sys.exit(3 if "harmed" in sys.argv else 0)
"""


def test_a_script_is_compared_and_ends_as_it_would(tmp_path: Path) -> None:
    script, output = tmp_path / "train.py", tmp_path / "report.json"
    script.write_text(PROGRAM, encoding="utf-8")
    asked = ["verify", "--device", "virtual", "-o", str(output), str(script)]
    right = run_cli(*asked)
    assert right.code == 0, right.stderr
    assert right.stdout == run_cli("run", str(script)).stdout  # it keeps its own random numbers
    report = json.loads(output.read_text(encoding="utf-8"))
    assert report["wrong"] == [] and report["calls"] > 40 and report["workload"]["phase"] == "program"
    assert report["workload"]["architecture"] == "Sequential" and report["workload"]["parameters"] == 49
    assert {"aten::_foreach_addcdiv_.ScalarList", "aten::bernoulli_.float"} & set(report["operators"])
    wrong = run_cli(*asked, "--", "harmed")
    assert wrong.code == 3, wrong.stderr
    [one] = json.loads(output.read_text(encoding="utf-8"))["wrong"]
    assert (one["operator"], one["phase"]) == ("aten::tanh_backward", "backward") and one["module"] == "Sequential.1"
    assert one["call_site"].endswith("train.py:14") and one["calls"] == 2


def test_wrong_use_is_one_line(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("print(1)", encoding="utf-8")
    for arguments, said in (
        ([str(tmp_path / "no.py")], "there is no script"),
        ([str(script), "--dtype", "float16"], "a script runs as it is"),
        (["bert-base", "--", "--epochs"], "takes no arguments"),
    ):
        result = run_cli("verify", "--device", "virtual", *arguments, process=False)
        assert result.code == 2 and said in result.stderr and "Traceback" not in result.stderr
    result = run_cli("verify", "--device", "virtual", str(script))
    assert result.code == 0 and result.stdout == "1\n" and "no report" in result.stderr
