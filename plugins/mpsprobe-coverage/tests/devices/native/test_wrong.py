"""``run --with-bugs``: each advisory that says what it computes does so where its condition holds, and only there.

The calls are the pairs of the advisories, with numbers in place of their zeros, on each pair's release and on the CPU.
In a process of its own, as the device can be opened only before torch has looked for MPS.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
import torch

from mpsprobe_coverage.devices.native.wrong import KEEPS, OF_ARGUMENTS, OF_RESULTS
from mpsprobe_coverage.knowledge.advisories.store import all_advisories
from mpsprobe_coverage.knowledge.advisories.words import COMPUTED
from mpsprobe_devkit.testing import run_cli
from tests.house.tree import ROOT

PAIRS = Path(__file__).parents[2] / "knowledge" / "advisories"
aten = torch.ops.aten
_zeros = torch.Tensor.new_zeros


def _numbers(x: torch.Tensor, *shape: Any, **options: Any) -> torch.Tensor:
    """In place of ``new_zeros``: numbers that differ from their neighbours."""
    made = _zeros(x, *shape, **options)
    if made.numel() > 1e6:
        return made
    places = torch.arange(made.numel())
    real = made.is_floating_point() or made.is_complex()
    values = torch.sin(places * 1.7 + 1) if real else places % 2
    return made.copy_(values.reshape(made.shape).to(made.dtype))


def _rows(x: torch.Tensor) -> torch.Tensor:
    return torch.arange(6.0, device=x.device).view(2, 3)


def _masked(x: torch.Tensor, strided: bool) -> torch.Tensor:
    rows = _rows(x).t() if strided else _rows(x)
    return rows.masked_fill_(rows == 1, 9.0)


def _written(x: torch.Tensor, strided: bool) -> torch.Tensor:
    flags = torch.zeros(3, 4, dtype=torch.bool, device=x.device)
    out, one = (flags[:, 1:3] if strided else flags[:, :2].contiguous()), torch.tensor([[True, False]] * 3)
    torch.bitwise_or(one.to(x.device), one.to(x.device), out=out)
    return flags if strided else out


def _scaled(x: torch.Tensor, factor: float) -> Any:
    target, gradient = torch.tensor([0, 1], device=x.device), torch.tensor(factor, device=x.device)
    return aten.nll_loss_backward(gradient, _rows(x), target, None, 1, -100, torch.tensor(2.0, device=x.device))


# Pairs whose wrong results are equal to the right ones, whatever the numbers.
INSTEAD: dict[str, Any] = {
    "abs-integers-large": [lambda x, n=n: torch.tensor([n, 2], device=x.device).abs() % 8 for n in (2**24 + 1, 17)],
    "bitwise-strided-output": [lambda x, one=one: _written(x, one) for one in (True, False)],
    "copy-from-cpu-permuted-1-12": [
        lambda x: torch.arange(6.0).view(2, 3).t().to(x.device),
        lambda x: torch.arange(6.0).view(2, 3).to(x.device),
    ],
    "cpu-scalar-view": [lambda x, n=n: x * torch.arange(2.0, 6.0)[n] for n in (2, 0)],
    "masked-fill-strided": [lambda x, one=one: _masked(x, one) for one in (True, False)],
    "nll-loss-gradient-unscaled": [lambda x, factor=factor: _scaled(x, factor) for factor in (0.25, 1.0)],
    "silu-backward-permuted": [
        lambda x: aten.silu_backward(_rows(x), _rows(x).view(3, 2).t()),
        lambda x: aten.silu_backward(_rows(x), _rows(x)),
    ],
    "tanh-backward-permuted": [
        lambda x: aten.tanh_backward(_rows(x), _rows(x).view(3, 2).t()),
        lambda x: aten.tanh_backward(_rows(x), _rows(x)),
    ],
}  # fmt: skip


def _ran(function: Any, device: str, phase: str) -> list[torch.Tensor]:
    torch.manual_seed(0)
    x = torch.linspace(0.1, 1, 12).view(3, 4).to(device).requires_grad_(phase == "training")
    with torch.set_grad_enabled(phase == "training"):
        results = function(x)
    results = [*results] if isinstance(results, (tuple, list)) else [results]
    if phase == "training":
        results[0].square().sum().backward()
        results.append(x.grad)
    return [one.detach().cpu() for one in results if isinstance(one, torch.Tensor)]


def alike(function: Any, phase: str) -> bool:
    """Whether its results are on the device as on the CPU."""
    pairs = zip(_ran(function, "mps", phase), _ran(function, "cpu", phase), strict=True)
    return all(torch.allclose(one, other, rtol=1e-4, atol=1e-5, equal_nan=True) for one, other in pairs)


def calls(names: list[str]) -> Iterator[tuple[str, tuple[Any, Any], str, str]]:
    """Each advisory of ``names``, a call of it and one next to it, phase and release; tensors of zeros get numbers."""
    sys.path.insert(0, str(PAIRS))
    pairs = {name: pair for path in PAIRS.glob("pairs*.py") for name, pair in import_module(path.stem).PAIRS.items()}
    vars(torch)["Tensor"].new_zeros = _numbers
    for name in sorted(names, key=lambda name: pairs[name].release):
        pair = pairs[name]
        yield (
            name,
            INSTEAD.get(name, (pair.hit, pair.miss)),
            "inference" if name in INSTEAD else pair.phase,
            pair.release,
        )


def child() -> None:
    """Print, for each advisory, whether its two calls are as on the CPU, and how many of each came out wrong."""
    from mpsprobe_coverage.devices.native.device import NativeDevice
    from mpsprobe_coverage.knowledge.judging.chain import Chain
    from mpsprobe_coverage.knowledge.kernels.mps import load_table

    found: dict[str, Any] = {}
    for release, group in groupby(calls([one.id for one in all_advisories() if one.computes]), key=itemgetter(3)):
        with NativeDevice(Chain(load_table(release)), lines=False, with_bugs=True) as device:
            assert device.wrong is not None
            for name, functions, phase, _ in group:
                found[name] = []
                for function in functions:
                    device.wrong.computed.clear()
                    right = alike(function, phase)
                    found[name].append([right, sum(n for (one, _), n in device.wrong.computed.items() if one == name)])
    sys.stdout.write(json.dumps(found) + "\n")


@pytest.fixture(scope="module")
def found() -> Any:
    command = [sys.executable, "-W", "ignore", __file__]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_each_result_is_wrong_where_the_condition_holds_and_right_next_to_it(found: Any) -> None:
    assert len(found) >= 60
    wrong = {name: pair for name, pair in found.items() if pair[0][0] or not pair[0][1] or pair[1] != [True, 0]}
    assert not wrong


def test_each_word_is_computed() -> None:
    assert {*COMPUTED} == {KEEPS, *OF_ARGUMENTS, *OF_RESULTS}
    assert {one.computes[0] for one in all_advisories() if one.computes} == {*COMPUTED}


PROGRAM = """
import torch
conv = torch.nn.Conv2d(4, 2, 3).to("mps")
images = torch.ones(1, 2, 5, 5, device="mps")
weight = torch.arange(72.0, device="mps").view(2, 4, 3, 3)
print(torch.nn.functional.conv2d(images, weight[:, ::2]).sum().item())
"""


def test_a_program_prints_what_it_would_there_and_the_report_names_the_calls(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM, encoding="utf-8")
    printed = {}
    for flags in ((), ("--with-bugs",)):
        ended = run_cli("run", *flags, "-o", str(tmp_path / "report.json"), str(path))
        assert ended.code == 0, ended.stderr
        printed[flags] = float(ended.stdout)
    notes = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["program"]["notes"]
    assert printed[()] == 10044.0 and printed["--with-bugs",] != printed[()]
    assert any("1 call of aten::_mps_convolution came out wrong" in one for one in notes)
    ended = run_cli("run", "--with-bugs", "--values", "none", str(path))
    assert ended.code == 2 and "--with-bugs" in ended.stderr


if __name__ == "__main__":
    child()
