"""What is written for CUDA is noted with its line, and answered as on a Mac."""

from __future__ import annotations

import inspect
import runpy
import warnings
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from mpsprobe_coverage.programs import cuda as module
from mpsprobe_coverage.programs.cuda import ASKED, NO_CUDA, CudaHints

INSIDE = (str(Path(torch.__file__).parent), module.__file__, "<")


def _hints() -> CudaHints:
    return CudaHints(lambda file: file.startswith(INSIDE), absent=True)


def _program() -> None:
    torch.cuda.is_available()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.autocast("cuda")
        torch.autocast("cpu")
        torch.amp.GradScaler()
        torch.cuda.amp.GradScaler()
    DataLoader(TensorDataset(torch.ones(2)), pin_memory=True)
    DataLoader(TensorDataset(torch.ones(2)))
    for moved in (torch.ones(1).cuda, torch.nn.Linear(1, 1).cuda, lambda: torch.ones(1, device="cuda")):
        with pytest.raises(AssertionError, match=NO_CUDA):
            moved()
    with pytest.raises(ModuleNotFoundError):
        import flash_attn  # type: ignore[import-not-found]  # noqa: F401


def test_each_thing_is_noted_once_with_its_lines() -> None:
    hints, first = _hints(), inspect.getsourcelines(_program)[1]
    before = torch.cuda.is_available, torch.cuda._lazy_init, DataLoader.__init__
    with hints():
        _program()
    assert before == (torch.cuda.is_available, torch.cuda._lazy_init, DataLoader.__init__)
    found = {hint.what: hint for hint in hints.found(on_the_device=False, on_the_cpu=True)}
    lines = {what: [int(place.rpartition(":")[2]) - first for place in one.call_sites] for what, one in found.items()}
    assert lines == {
        ASKED: [1],
        'autocast("cuda")': [4],
        'GradScaler("cuda")': [6, 7],
        "pin_memory=True": [8],
        "a CUDA device": [12, 10],
        "import flash_attn": [14],
    }
    assert found["a CUDA device"].calls == 3
    assert all(one.instead for one in found.values())


def test_to_ask_is_no_finding_where_the_device_did_the_work() -> None:
    hints = _hints()
    with hints():
        assert torch.cuda.is_available() is False
        assert torch.cuda.device_count() == 0
    assert hints.found(on_the_device=True, on_the_cpu=False) == []


SCRIPT = """
import torch
teacher = "cuda" if torch.cuda.is_available() else "cpu"
student = "mps" if torch.backends.mps.is_available() else "cpu"
whole = ("cuda" if torch.cuda.is_available()
         else "mps" if torch.backends.mps.is_available() else "cpu")
if torch.backends.mps.is_available():
    device = "mps"
elif torch.cuda.is_available():
    device = "cuda"
def chosen():
    if torch.cuda.is_available():
        return "cuda"
    if torch.backends.mps.is_available():
        return "mps"
    return "cpu"
def main():
    if student:
        tower = torch.cuda.is_available()
chosen(), main()
"""


def test_to_ask_is_a_finding_where_only_a_part_ran_on_the_device(tmp_path: Path) -> None:
    hints, path = _hints(), tmp_path / "train.py"
    path.write_text(SCRIPT, encoding="utf-8")
    with hints():
        runpy.run_path(str(path))
    (found,) = hints.found(on_the_device=True, on_the_cpu=True)
    assert [place.rpartition(":")[2] for place in found.call_sites] == ["3", "19"]
    assert found.calls == 2


def test_the_compiler_of_torch_is_not_the_program() -> None:
    hints, names = _hints(), {"torch": torch}
    properties = "def properties():\n    torch.cuda.get_device_properties(0)\n"
    exec(compile(properties, str(Path(torch.__file__).parent / "_inductor" / "codecache.py"), "exec"), names)
    with hints(), pytest.raises(AssertionError, match=NO_CUDA):
        names["properties"]()  # type: ignore[operator]
    assert hints.found(on_the_device=True, on_the_cpu=False) == []


def test_a_library_that_asks_is_not_the_program() -> None:
    hints = _hints()
    hints._own[__file__] = False
    with hints():
        _program()
    assert {one.what for one in hints.found(on_the_device=False, on_the_cpu=True)} == {"a CUDA device"}


def test_process_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.distributed, "init_process_group", lambda *_, **__: None)
    hints = _hints()
    with hints():
        torch.distributed.init_process_group("nccl")
        torch.distributed.init_process_group(backend="mpi")
    assert [one.what for one in hints.found(on_the_device=True, on_the_cpu=True)] == ["nccl"]


def test_torch_is_built_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    with _hints()():
        assert torch.version.cuda is None
    assert torch.version.cuda == "13.0"
