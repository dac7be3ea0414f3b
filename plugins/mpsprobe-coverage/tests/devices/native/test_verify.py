"""``mpsprobe.verify`` on the native device: wrong kernels are named first, and what cannot be compared is said.

In processes of their own, as the device can be opened only before torch has looked for MPS.
"""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import mpsprobe
from mpsprobe.errors import MpsprobeError
from mpsprobe.plugins.registry import get_registry
from mpsprobe.progress import SilentProgress
from mpsprobe.protocols import RunOptions
from mpsprobe.schemas import VerificationReport
from mpsprobe_coverage.verifying.device_to_compare import opened
from mpsprobe_coverage.verifying.verification import Verification
from tests.house.tree import ROOT

FAULTS = ROOT / "benchmarks" / "planted_faults.py"


class Chosen(nn.Module):
    """Takes one of two ways, by a number that an operator computes."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.one if int(x.exp().sum()) > 0 else self.other)(x)


class Sliced(nn.Module):
    """A convolution with every other channel of its weight."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(2, 4, 3, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.conv2d(x, self.weight[:, ::2]).relu()


class Attending(nn.Linear):
    """Attention with dropout, which draws inside of its kernel."""

    def __init__(self) -> None:
        super().__init__(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = super().forward(x)[None, None]
        return nn.functional.scaled_dot_product_attention(x, x, x, dropout_p=0.5)


class Cache:
    keys: torch.Tensor | None = None


class Caching(nn.Linear):
    """Adds to what an object holds that its caller has made."""

    def forward(self, x: torch.Tensor, cache: Cache | None = None) -> torch.Tensor:
        assert cache is not None
        x = super().forward(x)
        cache.keys = x if cache.keys is None else torch.cat([cache.keys, x])
        return cache.keys.cumsum(0)


class Cached(nn.Sequential):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        cache = Cache()
        for layer in self:
            x = layer(x, cache=cache)
        return x


class Uncopied(nn.Linear):
    def __deepcopy__(self, memo: object) -> Any:
        raise TypeError("it holds a lock")


def planted(name: str, kernel: Any) -> Any:
    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        library.impl(name, kernel, "MPS", allow_override=True)
    return library


def checked(model: nn.Module, **options: Any) -> VerificationReport:
    report = mpsprobe.verify(model, torch.linspace(-1, 1, 12).view(3, 4), device="virtual", **options)
    assert isinstance(report, VerificationReport)
    return report


def refused(model: nn.Module, inputs: Any) -> str:
    try:
        mpsprobe.verify(model, inputs, device="virtual")
    except MpsprobeError as error:
        return str(error)
    return "nothing"


def child(folder: str) -> None:
    """Print what the tests below ask."""
    torch.manual_seed(0)
    found: dict[str, Any] = {}
    differ = Verification._differ
    small = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, 4))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Verification, "_differ", lambda self: found.update(differ=dict(differ(self))))
        patch.setattr("mpsprobe_coverage.verifying.operators._first_wrong", lambda *given: found.update(again=given[0]))
        right = checked(small, phase="training")
    kinds = sorted({one.what for one in right.tensors})
    found["right"] = [len(right.wrong), right.calls > 20, kinds, any(one.wrong for one in right.tensors), right.notes]
    library = planted("tanh", lambda x: (x.cpu().tanh() + 0.01).to("mps"))
    path = Path(folder, "issue.py")
    wrong = checked(small, phase="training", reproduce=str(path))
    first = wrong.wrong[0]
    found["wrong"] = [first.operator, first.module, first.times, first.of_times, first.expected is not None]
    found["whole"] = [(one.name, one.cpu_error is not None) for one in wrong.tensors if one.what == "output"]
    found["whole"] += [next(one.name for one in wrong.tensors if one.wrong)]
    compile(path.read_text(encoding="utf-8"), str(path), "exec")
    found["program"] = path.read_text(encoding="utf-8")
    library._destroy()
    library = planted("tanh", lambda x: (x.cpu().tanh() + 0.01).to("mps"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mpsprobe_coverage.verifying.verification.free_bytes", lambda: 0)
        parts = checked(small, phase="training")
    rows = [(one.what, one.name, one.wrong, one.cpu_error is not None) for one in parts.tensors]
    found["windows"] = [len(parts.wrong), rows, parts.parted, parts.notes]
    library._destroy()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mpsprobe_coverage.verifying.verification.free_bytes", lambda: 0)
        found["attending"] = [one.wrong for one in checked(nn.Sequential(Attending()), phase="training").tensors]
        cached = checked(Cached(Caching(4, 4), Caching(4, 4)), phase="training")
        found["cached"] = [cached.failure, [(one.name, one.wrong) for one in cached.tensors], cached.notes[1:]]
    library = planted("exp", lambda x: x.cpu().exp().neg().to("mps"))
    found["parted"] = checked(Chosen(), phase="inference").parted
    library._destroy()

    def raises(x: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("out of threadgroups")

    library = planted("tanh", raises)
    failed = checked(small, phase="inference")
    found["failed"] = [failed.failure and failed.failure.message, failed.calls]
    library._destroy()
    library = planted("tanh", lambda x: (x.cpu().tanh() * float("nan")).to("mps"))
    begun = checked(small, phase="inference").nonfinite
    found["begins"] = [(one.operator, one.what, one.cpu_too) for one in begun]
    library._destroy()
    with opened(get_registry(), "virtual", "2.13.0", with_bugs=True) as device:
        workload = get_registry().workload_of(Sliced(), torch.randn(1, 2, 5, 5))
        report = Verification(workload, RunOptions(phase="training"), device, SilentProgress(), str).report()
    found["bugs"] = [(one.operator, one.phase, [known.id for known in one.advisories]) for one in report.wrong]
    with torch.no_grad():
        small[0].weight.fill_(1.0)
        small[3].weight.fill_(1.0)
    ones = torch.ones(3, 4)
    found["refused"] = [
        refused(small, ones),
        refused(Uncopied(4, 4), ones),
        refused(nn.Linear(4, 4), ones.to("meta")),
    ]
    sys.stdout.write(json.dumps(found) + "\n")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    command = [sys.executable, "-W", "ignore", __file__, str(tmp_path_factory.mktemp("issue"))]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_what_is_right_is_right_and_everything_is_compared(found: Any) -> None:
    assert found["right"] == [0, True, ["gradient", "loss", "output", "parameter"], False, []]


def test_where_both_agree_neither_float64_nor_an_operator_is_computed(found: Any) -> None:
    assert found["differ"] == {} and "again" not in found


def test_the_operator_that_makes_the_error_is_named_and_a_program_is_written(found: Any) -> None:
    assert found["wrong"] == ["aten::tanh", "1", 3, 3, True]
    assert found["whole"] == [["0", False], ["1", True], ["2", True], ["3", True], ["(model)", True], "1"]
    assert "torch.ops.aten.tanh.default(to(x0))" in found["program"] and "it is wrong too" in found["program"]


def test_a_model_that_does_not_fit_is_compared_in_windows(found: Any) -> None:
    wrong, rows, parted, notes = found["windows"]
    assert wrong and rows == [["output", name, name == "1", name == "1"] for name in "0123"] and parted is None
    assert any("in 4 windows of it" in one for one in notes)
    assert found["attending"] == [False]
    assert found["cached"] == [None, [["0", False], ["1", False]], []]


def test_where_control_flow_parts_and_where_numbers_end(found: Any) -> None:
    assert "ran 'other' and the CPU 'one'" in found["parted"]
    assert found["begins"] == [["aten::tanh", "NaN", False]]


def test_a_device_that_raises_is_reported_with_what_was_found(found: Any) -> None:
    message, calls = found["failed"]
    assert "out of threadgroups" in message and calls > 0


def test_a_known_wrong_result_is_found_with_its_advisory(found: Any) -> None:
    assert found["bugs"] == [["aten::convolution", "forward", ["conv-strided-weight"]]]


def test_what_cannot_be_compared_is_refused_in_a_line(found: Any) -> None:
    equal, uncopied, empty = found["refused"]
    assert "one number" in equal and "cannot be copied" in uncopied and "without values" in empty


LATE = """
import mpsprobe, torch
model, inputs = torch.nn.Linear(2, 2), torch.ones(1, 2)
model(inputs).sum().backward()
mpsprobe.verify(model, inputs, device="virtual")
"""


def test_a_virtual_device_that_comes_too_late_is_refused_with_what_to_do() -> None:
    done = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True, check=False, cwd=ROOT)
    error, hint = done.stderr.splitlines()[-2:]
    assert "looks only once" in error and "FILE.py:FUNCTION" in hint


@pytest.mark.slow
@pytest.mark.parametrize("count", [6, pytest.param(60, marks=pytest.mark.thorough)])
def test_planted_faults_are_named_first(count: int) -> None:
    command = [sys.executable, "-W", "ignore", str(FAULTS), "faults", "--count", str(count)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    planted = json.loads(done.stdout.splitlines()[-1])
    assert planted["planted"] == count and planted["found"] >= count * 57 // 60, planted["missed"]


if __name__ == "__main__":
    child(sys.argv[1])
