"""``--processes``: fresh processes and one report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from mpsprobe.cli import processes
from mpsprobe.engine.request import ProfileRequest
from mpsprobe.errors import MpsprobeError
from mpsprobe.plugins.registry import get_registry
from mpsprobe.protocols import RunOptions
from mpsprobe_devkit.testing import run_cli

MODEL = """
import os, signal, torch

def make():
    return torch.nn.Linear(4, 2), (torch.ones(3, 4),)

def dies():
    os._exit(7)

def interrupted():
    '''Ctrl-C at the fourth timed step: the terminal sends it to both processes.'''
    class Interrupted(torch.nn.Module):
        calls = 0
        def forward(self, x):
            self.calls += 1
            if self.calls == 5:
                os.kill(os.getppid(), signal.SIGINT)
                signal.raise_signal(signal.SIGINT)
            return x
    return Interrupted(), (torch.ones(1),)
"""


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "tiny.py"
    path.write_text(MODEL, encoding="utf-8")
    return str(path)


@pytest.mark.thorough
def test_each_process_is_fresh_and_its_steps_are_told_apart(model: str, tmp_path: Path) -> None:
    output = tmp_path / "r.json"
    flags = ("--device", "cpu", "--steps", "3", "--warmup", "1", "--processes", "2", "--probe", "none")
    ran = run_cli("profile", "--workload", f"{model}:make", *flags, "--phase", "training", "-o", output)
    assert ran.code == 0, ran.stderr
    report = json.loads(output.read_text(encoding="utf-8"))
    (cell,) = report["cells"]
    assert [step["process"] for step in cell["steps"]] == [0, 0, 0, 1, 1, 1]
    assert len(cell["first_call_ns"]) == 2 and report["plan"]["processes"] == 2 and report["complete"]
    assert all(len(samples) == 10 for samples in cell["phase_samples_ns"].values())


def test_a_request_arrives_as_it_was_sent() -> None:
    options = RunOptions(dtype="float16", grad_accum=2, trust_remote_code=True)
    request = ProfileRequest(
        ("a", "b"), phase="both", batch_sizes=(1, 8), options=options, probes=("energy",), warmup=0, clock="device"
    )
    adapter = TypeAdapter(ProfileRequest)
    assert adapter.validate_json(adapter.dump_json(request)) == request


def test_a_process_that_dies_is_told(model: str) -> None:
    with pytest.raises(MpsprobeError, match="process 1 of 2 ended with exit code 2 and no report"):
        processes.measure(get_registry(), ProfileRequest((f"{model}:dies",), device="cpu", processes=2))


def test_wrong_use_is_told_before_a_process_starts(model: str) -> None:
    flags = ("--workload", f"{model}:make", "--device", "cpu", "--processes", "2", "--runner", "trianer")
    ran = run_cli("profile", *flags, process=False)
    assert ran.code == 2 and ran.stderr.count("Error") == 1 and "process" not in ran.stderr


def test_ctrl_c_keeps_what_was_measured(model: str, tmp_path: Path) -> None:
    output = tmp_path / "r.json"
    flags = ("--device", "cpu", "--steps", "1000", "--warmup", "0", "--processes", "2", "--probe", "none")
    ran = run_cli("profile", "--workload", f"{model}:interrupted", *flags, "-o", output)
    assert ran.code == 0, ran.stderr
    report = json.loads(output.read_text(encoding="utf-8"))
    assert not report["complete"] and len(report["cells"][0]["steps"]) == 3
    assert "1 of 2 processes measured something" in report["notes"]
