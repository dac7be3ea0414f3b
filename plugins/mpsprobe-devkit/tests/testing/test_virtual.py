"""The virtual device for tests, the fixtures, and what is said if its plugin is not installed."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import torch

from mpsprobe.declarations import ScannerDeclaration
from mpsprobe.errors import MissingPackage, UsageError
from mpsprobe.plugins.discovery import CORE
from mpsprobe.plugins.registry import Registry
from mpsprobe_devkit.testing import OpenDevice, assert_verdicts, open_virtual_device

TESTS = """
import pytest
import torch

def test_device(virtual_device):
    with virtual_device("2.6.0") as device:
        device.run(torch.linalg.qr, torch.ones(3, 3))
    assert device.verdicts()["aten::linalg_qr.out"] == "missing"

def test_samples(sample_report):
    assert sample_report().kind == "coverage"
    assert sample_report("profile").kind == "profile"
    with pytest.raises(Exception, match="unknown kind of report 'profil'; did you mean 'profile'"):
        sample_report("profil")

def test_command(mpsprobe_command):
    assert mpsprobe_command("--version").code == 0
"""


def test_a_call_has_its_verdict_and_the_reason() -> None:
    with open_virtual_device("2.6.0") as device:
        assert isinstance(device, OpenDevice) and (device.name, device.release) == ("mps", "2.6.0")
        device.run(torch.linalg.qr, torch.ones(3, 3))
    assert device.verdicts()["aten::linalg_qr.out"] == "missing"
    assert "PYTORCH_ENABLE_MPS_FALLBACK" in device.reasons()["aten::linalg_qr.out"]
    assert device.calls()["aten::linalg_qr.out"] == 1 and not device.not_judged()
    with pytest.raises(AssertionError, match=r"is missing on mps with torch 2\.6\.0, not native: no MPS kernel"):
        assert_verdicts(device, {"aten::linalg_qr.out": "native"})
    with pytest.raises(AssertionError, match=r"aten::linalg_qr was not called: aten::linalg_qr\.out was"):
        assert_verdicts(device, {"aten::linalg_qr": "native"})


def test_a_model_in_training_and_one_built_without_memory() -> None:
    with open_virtual_device("2.13.0") as device:
        model = torch.nn.Linear(4, 2)
        loss = device.run(lambda net, x: net(x).pow(2).mean(), model, torch.ones(3, 4))
        device.run(loss.backward, phase="backward")
        assert model.weight.grad is not None and model.weight.grad.shape == (2, 4)
        assert torch.ones(2, device="mps").device.type == device.name
        with device.construction():
            model = torch.nn.Linear(100_000, 100_000)
        assert device.run(model, torch.ones(1, 100_000)).shape == (1, 100_000)
    assert_verdicts(device, {"aten::linear": "native", "aten::linear_backward": "native"})


def _raise() -> None:
    raise ValueError("mine")


def test_only_one_at_a_time_and_none_is_left_after_an_error() -> None:
    with pytest.raises(ValueError, match="mine"), open_virtual_device("2.6.0") as device:
        with pytest.raises(UsageError, match="open in this process already"), open_virtual_device("2.13.0"):
            raise AssertionError
        device.run(_raise)
    with open_virtual_device("2.13.0") as after:
        after.run(torch.ones, 2, device="mps")


def test_what_there_is_not_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for release, backend in (("0.0.1", "mps"), ("latest", "no-such-backend")):
        with pytest.raises(UsageError):
            open_virtual_device(release, backend=backend)
    with pytest.raises(MissingPackage, match="mpsprobe-coverage") as caught:
        open_virtual_device(registry=Registry([CORE]))
    assert "pip install" in str(caught.value)
    registry = Registry([CORE])
    declared = {"other": ScannerDeclaration("other", "mpsprobe_devkit.testing.fakes:FakeScanner", "x")}
    monkeypatch.setattr(registry, "declared", lambda kind: declared)
    monkeypatch.setattr(registry, "made", lambda kind, name: object())
    with pytest.raises(UsageError, match="opens no device"):
        open_virtual_device(registry=registry)


@pytest.mark.thorough
def test_the_fixtures_in_a_project_of_a_stranger(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["mpsprobe_devkit.testing.fixtures"]\n', encoding="utf-8")
    (tmp_path / "test_mine.py").write_text(TESTS, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0 and "3 passed" in done.stdout, done.stdout + done.stderr


def test_the_kit_is_asked_for_and_not_brought() -> None:
    """A suite that has it installed for another reason has no fixtures of it, and importing it brings little."""
    assert not [one for one in entry_points(group="pytest11") if "mpsprobe_devkit" in one.value]
    program = "import mpsprobe_devkit.testing, sys; print({'pytest', 'hypothesis', 'torch', 'rich'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == "set()\n", done.stderr
