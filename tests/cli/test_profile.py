"""``mpsprobe profile`` with the CPU and a model in a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.forking import run_command

MODEL = """
import torch

def make():
    return torch.nn.Linear(4, 2), (torch.ones(3, 4),)

other = another = make
"""


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "tiny.py"
    path.write_text(MODEL, encoding="utf-8")
    return f"{path}:make"


def test_a_model_of_the_users_own(model: str, tmp_path: Path) -> None:
    output = tmp_path / "report.json"
    ran = run_command("profile", model, "--device", "cpu", "--steps", "3", "--warmup", "1", "-o", output)
    assert ran.code == 0, ran.stderr
    report = json.loads(output.read_text(encoding="utf-8"))
    assert report["kind"] == "profile" and report["complete"]
    (cell,) = report["cells"]
    assert len(cell["steps"]) == 3 and len(cell["warmup"]["durations_ns"]) == 1 and cell["first_call_ns"][0] > 0
    exported = run_command("export", output, "--to", "table")
    assert exported.code == 0 and "takes" in exported.stdout and "cpu" in exported.stdout


QUICK = ("--device", "cpu", "--steps", "1", "--warmup", "0", "--probe", "none", "--no-fallbacks", "--format", "json")


def test_names_and_flags_are_joined(model: str) -> None:
    other, another = (model.replace(":make", f":{name}") for name in ("other", "another"))
    joined = run_command("profile", model, other, "--workload", another, "--workload", model, *QUICK).json()
    assert joined["plan"]["workloads"] == [model, other, another]
    named = run_command("profile", model, *QUICK, variables={"MPSPROBE_PROFILE_WORKLOAD": "nobody"}).json()
    assert named["plan"]["workloads"] == [model]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("--workload MODEL --preset pytorch-mps-2022", "--preset names the workloads itself"),
        ("MODEL --device mpss", "did you mean 'mps'?"),
        ("MODEL --device cpu --baseline cpu", "measured anyway"),
        ("MODEL --device cpu --batch-size 1,x", "whole number from 1"),
        ("MODEL --device cpu --batch-size ,", "needs a number"),
        ("MODEL --device cpu --steps 0", "--steps takes a whole number from 1"),
        ("MODEL --device cpu --grad-accum 2", "--phase training only"),
        ("MODEL --device cpu --dtype float33", "did you mean 'float32'"),
        ("MODEL --device cpu --format tabel", "did you mean 'table'"),
        ("MODEL --device cpu -o report.foo", "no format has the extension '.foo'"),
    ],
)
def test_wrong_use_says_what_to_do(model: str, line: str, says: str) -> None:
    ran = run_command("profile", *(model if word == "MODEL" else word for word in line.split()))
    assert ran.code == 2 and says in ran.stderr and ran.stdout == ""


def test_the_cause_of_a_failed_run_is_said_once(tmp_path: Path) -> None:
    file = tmp_path / "fails.py"
    file.write_text(
        "import torch\n"
        "class M(torch.nn.Linear):\n"
        "    def forward(self, x): raise ValueError('Torch not compiled with CUDA enabled')\n"
        "def make(): return M(4, 2), torch.ones(3, 4)\n",
        encoding="utf-8",
    )
    command = ("profile", f"{file}:make", "--device", "cpu", "--probe", "none")
    shown = run_command(*command)
    assert shown.code == 2 and (shown.stdout + shown.stderr).count("Torch not compiled") == 1
    assert "A Mac has no CUDA" in shown.stderr
    written = run_command(*command, "-o", tmp_path / "report.json")
    assert written.stderr.startswith("Error: the run stopped: ValueError in first call: Torch not compiled with CUDA")


def test_an_unavailable_device_names_those_that_are_there(model: str) -> None:
    ran = run_command("profile", model, "--device", "mps")
    if ran.code:  # on a Mac it is there
        assert "mps cannot be used here" in ran.stderr and "cpu" in ran.stderr


def test_without_a_plugin_for_devices_it_says_why(model: str) -> None:
    ran = run_command("-p", "no:*", "-p", "no:devices", "profile", model)
    assert ran.code == 2 and "is installed but blocked: switched off by -p" in ran.stderr
