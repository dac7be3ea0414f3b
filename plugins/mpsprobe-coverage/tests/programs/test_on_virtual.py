"""``mpsprobe.observe("mps")`` where torch has no MPS."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import mpsprobe
from mpsprobe.errors import UsageError

CALLS = {"aten::cos": 1, "aten::empty.memory_format": 1, "aten::fill_.Scalar": 1}


def _cos() -> None:
    torch.ones(2, device="mps").cos()


def _counts(run: Any) -> dict[str, int]:
    return {one.operator: one.calls for one in run.report()}


def _training(device: str) -> list[Any]:
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 2)).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    losses = []
    for _ in range(3):
        x = torch.rand(4, 8, device=device) + torch.rand(4, 8).to(device)
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return [*losses, *(one.tolist() for one in model.state_dict().values())]


def _lstm(device: str) -> list[Any]:
    model = torch.nn.LSTM(4, 3, dropout=0.5, num_layers=2).to(device)
    return [one.tolist() for one in model(torch.randn(5, 2, 4, device=device))[1]]


def _sampled(device: str) -> list[Any]:
    scores = torch.nn.Conv1d(2, 4, 3).to(device)(torch.randn(1, 2, 9, device=device)).softmax(-1)[0]
    return [torch.multinomial(scores, 3).tolist(), torch.linalg.eigvals(torch.eye(3, device=device)).tolist()]


@pytest.mark.parametrize("program", [_training, _lstm, _sampled])
def test_numbers_are_the_cpus_random_ones_after_it_too(program: Callable[[str], list[Any]]) -> None:
    def all_of_it(device: str) -> list[Any]:
        torch.manual_seed(7)
        random.seed(7)
        return program(device)

    wanted = [all_of_it("cpu"), torch.rand(2).tolist(), random.random()]
    with mpsprobe.observe("mps") as run:
        found = [all_of_it("mps")]
    found += [torch.rand(2).tolist(), random.random()]
    assert found == wanted
    assert run.report().method == "predicted" and run.report().summary.calls
    assert not torch.backends.mps.is_available()


def test_phases_modules_and_lines() -> None:
    with mpsprobe.observe("mps") as run:
        _training("mps")
    kinds = [one.kind for one in run.calls() if "linear" in one.kind.operator]
    assert {(kind.phase, kind.origin.module) for kind in kinds} >= {
        ("forward", "Sequential.0"),
        ("backward", "Sequential.2"),
    }
    assert {kind.origin.file for kind in kinds} == {__file__}
    assert "optimizer" in {one.kind.phase for one in run.calls()}


def test_nested_opened_again_and_in_threads() -> None:
    with mpsprobe.observe("mps") as outer:
        with mpsprobe.observe() as inner, outer:  # the accelerator that is there is the virtual one
            thread = threading.Thread(target=_cos)
            thread.start()
            thread.join()
            assert _counts(inner) == _counts(outer) == CALLS
        _cos()
    with outer:
        _cos()
    assert _counts(inner) == CALLS
    assert _counts(outer) == dict.fromkeys(CALLS, 3)


def test_what_raises_inside_and_what_stops_halfway_close_it() -> None:
    def generator() -> Iterator[Any]:
        with mpsprobe.observe("mps") as run:
            for _ in range(3):
                _cos()
                yield run

    running = generator()
    run = next(running)
    next(running)
    running.close()
    assert _counts(run) == dict.fromkeys(CALLS, 2)
    with pytest.raises(ZeroDivisionError), run:
        1 / 0  # noqa: B018
    assert mpsprobe.coverage(torch.nn.Linear(2, 2), torch.ones(1, 2)).summary.calls == 1


def test_the_release_is_the_one_that_was_asked_for() -> None:
    with mpsprobe.observe("mps", torch="2.1") as old:
        torch.ones(3, device="mps").cumprod(0)
        with (
            pytest.raises(UsageError, match=r"judges torch 2\.1\.2, not 2\.13\.0"),
            mpsprobe.observe("mps", torch="2.13"),
        ):
            pass
    assert old.report().target.torch == "2.1.2"
    with pytest.raises(UsageError, match="what runs on cpu runs on the installed torch"):
        mpsprobe.observe("cpu", torch="2.13")
    with pytest.raises(UsageError, match="unknown torch release"):
        mpsprobe.observe("mps", torch="9.9")


def test_the_device_is_closed_by_the_thread_that_opened_it() -> None:
    run, is_open, may_close = mpsprobe.observe("mps"), threading.Event(), threading.Event()

    def owner() -> None:
        with run:
            is_open.set()
            may_close.wait(60)

    thread = threading.Thread(target=owner)
    thread.start()
    is_open.wait(60)
    with pytest.raises(UsageError, match="belongs to another thread"):
        run.__exit__()
    may_close.set()
    thread.join()
    assert mpsprobe.coverage(torch.nn.Linear(2, 2), torch.ones(1, 2)).summary.calls == 1


PROGRAM = """
import json, sys
import torch, mpsprobe
with mpsprobe.observe("mps") as run:
    torch.linalg.eigvals(torch.eye(2, device="mps"))
    with mpsprobe.observe() as inner:
        torch.ones(2, device="mps").cos()
torch.ones(2, device="mps").sin()
report = run.report()
print(json.dumps([report.method, [one.operator for one in report.findings], [one.operator for one in inner.report()]]))
print("aten::sin" in [one.operator for one in report], report.target.torch)
"""


@pytest.mark.slow
def test_in_a_program_it_is_the_device_of_the_program(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.py").write_text(PROGRAM, encoding="utf-8")
    whole = mpsprobe.run_script(tmp_path / "mine.py", torch="2.6")
    assert whole.program is not None and whole.program.exit_code == 0, whole.failure
    seen, sin = capfd.readouterr().out.splitlines()
    assert seen == (
        '["predicted", ["aten::_linalg_eigvals"], ["aten::cos", "aten::empty.memory_format", "aten::fill_.Scalar"]]'
    )
    assert sin == "False 2.6.0" and "aten::sin" in [one.operator for one in whole]
