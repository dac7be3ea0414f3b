"""What ``mpsprobe doctor PATH`` finds in a project: each thing once, with its line, and nothing in one that is fine."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpsprobe.errors import MpsprobeError
from mpsprobe_devkit.testing import run_cli
from mpsprobe_fix.project import findings

FILES = {
    "requirements.txt": "--extra-index-url https://builds.example.org/whl/cu118\ntorch==2.6.0+cu118\n"
    'flash-attn ; sys_platform == "linux"\ntriton==2.1.0 \\\n  --hash=sha256:00\nnvidia-cublas-cu12\n'
    "-r other.txt\nnot a line\n",
    "pyproject.toml": '[project]\nname = "x"\nrequires-python = ">=3.7,<3.8"\n'
    'dependencies = ["torch>=2.0", "decord"]\n',
    "setup.cfg": "[options]\ninstall_requires =\n    deepspeed\n",
    "environment.yml": "dependencies:\n  - pytorch-cuda=11.8\n  - pip:\n    - vllm\n",
    "broken/pyproject.toml": "[project\n",
    "train.py": """\
import os
import threading
import torch
import torch.nn.functional as F
from transformers import TrainingArguments
os.environ["PYTORCH_ENABLE_MPS_FALLBACK"] = "1"
os.environ["CUDA_VISIBLE_DEVICES"] = "0"
args = TrainingArguments("x", evaluation_strategy="epoch")
x = torch.cummax(torch.ones(3).cuda(), 0)
model = torch.compile(x)
torch.multiprocessing.set_start_method("fork")
threading.Thread(target=print).start()
loader = torch.utils.data.DataLoader([1], num_workers=2)
""",
}
# The line of each finding, what it says, and the torch of which it is true.
FOUND = {
    "requirements.txt:1: https://builds.example.org/whl/cu118 is an index of CUDA builds": "2.6.0",
    "requirements.txt:2: torch==2.6.0+cu118 is a build for cu118": "2.6.0",
    "requirements.txt:4: triton has no wheel": "2.6.0",
    "requirements.txt:6: nvidia-cublas-cu12 is a part of CUDA": "2.6.0",
    "pyproject.toml:4: decord has no wheel": "2.6.0",
    "python>=3.7,<3.8: Python has builds for Apple silicon": "2.6.0",
    "setup.cfg:3: deepspeed installs": "2.6.0",
    "environment.yml:2: pytorch-cuda is a part of CUDA": "2.6.0",
    "environment.yml:4: vllm has no wheel": "2.6.0",
    "train.py:6 (PYTORCH_ENABLE_MPS_FALLBACK) is set after torch": "2.6.0",
    "train.py:7: CUDA_VISIBLE_DEVICES does nothing": "2.6.0",
    "train.py:8: TrainingArguments(evaluation_strategy=…) is gone": "2.6.0",
    "train.py:9: torch.cummax: torch 2.6.0 has no kernel for aten::_cummax_helper": "2.6.0",
    "train.py:10: torch.compile works on MPS from torch 2.8 on": "2.6.0",
    "train.py:11: a process that is forked": "2.6.0",
    "train.py:12: two threads that use the device end the process on torch 2.15.0 (pytorch#197805)": "2.15.0",
    "train.py:13: macOS starts workers anew": "2.6.0",
    "1 place is written for CUDA": "2.15.0",
    "does not allow torch 2.15.0": "2.15.0",
    "torch 2.15.0 needs macOS 15.0 for MPS, and the Mac has 14": "2.15.0",
}


def test_each_thing_is_found_with_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    said = {
        release: [one.message for one in findings(".", {"torch": release, "macos": "14", "chip": "m1"})]
        for release in ("2.6.0", "2.15.0")
    }
    for text, release in FOUND.items():
        for judged, messages in said.items():
            count = sum(text in one for one in messages)
            assert count == 1 if judged == release else count <= 1, (text, judged, messages)
    assert not any("flash" in one or "cummax:" in one for one in said["2.15.0"])


def test_a_project_that_is_fine_has_no_finding(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text('torch>=2.8\nnumpy\ntriton; sys_platform == "linux"\n')
    (tmp_path / "a.py").write_text("import torch\n\nprint(torch.ones(3))\n")
    result = run_cli("doctor", str(tmp_path), "--fail-on", "warning", process=False)
    assert result.code == 0 and "Nothing was found." in result.stdout


def test_for_names_a_mac(tmp_path: Path) -> None:
    for text in ("mac=1", "macos=old", "macos=", "torch=0.1", "chip=z9"):
        result = run_cli("doctor", str(tmp_path), "--for", text, process=False)
        assert result.code == 2, (text, result.stderr)
    with pytest.raises(MpsprobeError):
        list(findings(str(tmp_path), {"torch": "0.1"}))
