"""Observed fallbacks, compared with the counts of a small backend in C++, that of mpsprobe-coverage's tests.

All of its operators run on the CPU. What it registers stays, so that a process of its own runs this file as a script.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import types
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from mpsprobe_coverage.devices.observed.observe import Happened, Observation, observe
from mpsprobe_coverage.programs.observing import report

SOURCE = Path(__file__).parents[2] / "virtual/fallback_backend.cpp"
MANY = 10_000


def training() -> list[torch.Tensor]:
    """Two steps, in whose backward pass the engine's own thread for the device works."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3)).to("made")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x = torch.rand(4, 6).to("made")
    for _ in range(2):
        optimizer.zero_grad()
        loss = torch.linalg.svd(model(x))[1].sum()
        (loss + model(x).cumsum(0).pow(2).sum()).backward()
        optimizer.step()
    return [parameter.detach().cpu() for parameter in model.parameters()]


def threads() -> list[torch.Tensor]:
    """Threads that are started inside, at once."""
    found: list[Any] = [None] * 4

    def work(number: int) -> None:
        x = torch.full((8, number + 1), 0.5).to("made").requires_grad_()
        for _ in range(20):
            x.sin().sum().backward()
        assert x.grad is not None
        found[number] = x.grad.cpu()

    started = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    return found


def many() -> list[torch.Tensor]:
    """Fallbacks in a row."""
    x = torch.ones(7).to("made")
    for _ in range(MANY):
        y = torch.erfinv(x)
    return [y.cpu()]


def in_place() -> list[torch.Tensor]:
    """What is written goes back; views and lists of tensors are among the arguments."""
    x = torch.arange(12.0).to("made").view(3, 4)
    x[:, 1:3].sigmoid_()
    y = torch.cat([x, x[:1]]).index_add_(0, torch.tensor([0, 2]).to("made"), x[:2])
    return [y.cpu(), torch.stack([x, x]).cpu()]


PROGRAMS: dict[str, Callable[[], list[torch.Tensor]]] = {
    "training": training, "threads": threads, "many": many, "in place": in_place,
}  # fmt: skip


def counted() -> list[int]:
    """Fallbacks, bytes to the CPU, bytes from the CPU, as the backend counts them."""
    return list(torch.ops.mpsprobe_test_backend.counted())


def as_observed(run: Observation) -> tuple[Counter[str], list[int]]:
    """Fallbacks by operator and phase; the same sums."""
    calls, fell_back = list(run.calls()), Counter[str]()
    for call in calls:
        if Happened.FELL_BACK in call.kind.happened:
            fell_back[f"{call.kind.operator} {call.kind.phase}"] += call.calls
    return fell_back, [fell_back.total(), sum(c.to_cpu_bytes for c in calls), sum(c.from_cpu_bytes for c in calls)]


def every_fallback_and_every_byte_is_seen() -> None:
    """Also those of the backward pass, which runs on the engine's own thread, and of other threads."""
    for name, program in PROGRAMS.items():
        bare, before = program(), counted()
        with observe("made") as run:
            results = program()
        assert all(map(torch.equal, bare, results)), name
        fell_back, sums = as_observed(run)
        assert sums == [after - earlier for after, earlier in zip(counted(), before, strict=True)], name
        if name == "many":
            assert fell_back["aten::erfinv.out forward"] == MANY and len(list(run.calls())) < 20
        if name == "training":
            phases_and_lines(run, fell_back)
            the_report_tells_registered_fallbacks_from_missing_kernels(run)


def phases_and_lines(run: Observation, fell_back: Counter[str]) -> None:
    assert fell_back["aten::linalg_svd forward"] == 2
    assert {key.rpartition(" ")[2] for key in fell_back} == {"forward", "backward", "optimizer"}
    assert len({call.kind.origin.line for call in run.calls() if call.kind.phase == "backward"}) > 1


def the_report_tells_registered_fallbacks_from_missing_kernels(run: Observation) -> None:
    found = report(run, "training")
    by_name = {one.operator: one for one in found.operators}
    assert (found.method, found.target.backend) == ("observed", "made")
    assert by_name["aten::linalg_svd"].verdict == "fallback" and by_name["aten::cumsum.out"].verdict == "missing"
    assert "bytes" in (by_name["aten::linalg_svd"].reason or "")


def test_what_is_observed_is_what_the_backend_did(tmp_path_factory: pytest.TempPathFactory) -> None:
    from tests.once import built_library  # where the script runs, there is no such package

    library = built_library(tmp_path_factory.getbasetemp(), SOURCE)
    done = subprocess.run([sys.executable, __file__, library], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]


if __name__ == "__main__":
    torch.utils.rename_privateuse1_backend("made")
    module = types.ModuleType("torch.made")
    module._lazy_init = lambda: None  # type: ignore[attr-defined]
    torch._register_device_module("made", module)
    torch.ops.load_library(sys.argv[1])
    every_fallback_and_every_byte_is_seen()
