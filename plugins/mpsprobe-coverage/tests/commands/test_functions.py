"""``mpsprobe.coverage`` and ``mpsprobe.check``: what they take, say and leave as it was."""

from __future__ import annotations

import copy
import dataclasses
import random
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

import mpsprobe
from mpsprobe.errors import CheckFailed, MpsprobeError, UsageError
from mpsprobe.protocols import TorchRun
from mpsprobe.schemas import CoverageReport, MatrixReport
from mpsprobe_coverage.commands.coverage import coverage as command
from mpsprobe_coverage.commands.failing import is_allowed
from mpsprobe_coverage.commands.functions import CoverageOptions
from mpsprobe_coverage.devices.virtual import VirtualDevice
from mpsprobe_coverage.knowledge.kernels.mps import load_table

RELEASE = "2.13.0"
INPUT = torch.ones(2, 4)
judge = partial(mpsprobe.coverage, torch=RELEASE)


class Net(torch.nn.Module):
    """A linear layer whose output goes through an operator without a kernel for MPS; remembers what it has seen."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)
        self.seen: list[torch.Size] = []
        self.calls = 0

    def forward(self, x: torch.Tensor, twice: bool = False) -> torch.Tensor:
        self.seen.append(x.shape)
        self.calls += 1
        y: torch.Tensor = torch.nn.functional.dropout(self.norm(self.first(x)), training=True) + random.random()
        distinct = torch.diag(torch.arange(4.0, device=x.device))  # eigenvalues, which have a derivative then
        return torch.linalg.eigvals(y.T @ y + distinct).abs().sum() * (2 if twice else 1)


def operators(report: CoverageReport) -> set[str]:
    return {one.operator for one in report}


def test_a_module_with_inputs_of_each_form() -> None:
    for inputs in (INPUT, (INPUT,), [INPUT], {"x": INPUT}, (INPUT, True), {"x": INPUT, "twice": True}):
        report = judge(Net(), inputs)
        assert [one.operator for one in report.findings] == ["aten::_linalg_eigvals"]
        assert report.workload.name == report.workload.architecture == "Net"
        assert report.workload.parameters == 28 and report.failure is None
        assert "first" in report.operators[-1].modules or len(report.operators) > 2


def test_a_function_and_the_modules_that_it_refers_to() -> None:
    net, gate = Net(), torch.nn.Linear(4, 1)

    def both(x: torch.Tensor) -> torch.Tensor:
        return net(x) * gate(x).sum()

    report = judge(both, INPUT)
    assert report.workload.name == "both" and report.workload.parameters == 33
    assert {"gate", "net.first"} <= {module for one in report for module in one.modules}
    assert {"aten::_linalg_eigvals", "aten::linear"} <= operators(report)
    assert (
        operators(judge(net.forward, INPUT))
        == operators(judge(net, INPUT))
        == operators(judge(partial(net, INPUT), ()))
    )
    assert "aten::linalg_qr" in operators(judge(torch.linalg.qr, torch.ones(3, 3)))
    made = judge(lambda: torch.ones(2, device="mps").cumsum(0), ())
    assert "aten::cumsum" in {name.partition(".")[0] for name in operators(made)}


def test_what_makes_a_model_and_its_inputs(tmp_path: Path) -> None:
    def make(phase: str) -> tuple[torch.nn.Module, torch.Tensor]:
        assert phase == "training"
        return Net(), INPUT

    assert "aten::linear_backward" in operators(judge(make, phase="training"))
    (tmp_path / "mine.py").write_text("import torch\ndef make(): return torch.nn.Linear(4, 2), torch.ones(1, 4)\n")
    assert operators(judge(f"{tmp_path / 'mine.py'}:make")) == {"aten::linear"}
    assert operators(judge(TorchRun(Net(), (INPUT,)))) == operators(judge(Net(), INPUT))


def test_the_model_and_the_program_are_as_before() -> None:
    net = Net().train()
    net.first.eval()
    net(INPUT).backward()
    hooked: list[Any] = []
    handle = net.first.register_forward_hook(lambda *_: hooked.append(1))
    before = copy.deepcopy(net.state_dict())
    objects = [id(one) for one in (*net.parameters(), *net.buffers())]
    gradients = [one.grad for one in net.parameters()]
    flags = [module.training for module in net.modules()]
    drawn = torch.get_rng_state(), random.getstate()
    for options in ({}, {"phase": "training"}, {"phase": "training", "weights": True}):
        judge(net, INPUT, **options)  # type: ignore[arg-type]
    assert hooked, "the program's own hooks see the run"
    assert [id(one) for one in (*net.parameters(), *net.buffers())] == objects
    assert [one.grad for one in net.parameters()] == gradients
    assert [module.training for module in net.modules()] == flags
    assert (net.calls, len(net.seen)) == (1, 1)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert torch.equal(drawn[0], torch.get_rng_state()) and drawn[1] == random.getstate()
    handle.remove()
    assert not net.first._forward_hooks
    net(INPUT).backward()


def test_a_model_that_raises_is_as_before_too() -> None:
    class Raises(torch.nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise LookupError(f"no such word as {super().forward(x).shape}")

    net = Raises(4, 2)
    report = judge(net, INPUT)
    assert report.failure is not None and report.failure.error == "LookupError"
    assert type(net.weight) is torch.nn.Parameter
    with pytest.raises(MpsprobeError, match=r"the run stopped: LookupError in forward at .*: no such word"):
        mpsprobe.check(net, INPUT, torch=RELEASE)


@dataclasses.dataclass
class Batch:
    x: torch.Tensor


def test_inputs_are_as_before() -> None:
    class Takes(torch.nn.Linear):
        def forward(self, batch: Batch) -> torch.Tensor:  # type: ignore[override]
            return super().forward(batch.x.mul_(2))

    batch = Batch(torch.ones(2, 4))
    assert judge(Takes(4, 2), batch).failure is None
    assert type(batch.x) is torch.Tensor and torch.equal(batch.x, torch.ones(2, 4))


@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")  # of torch.export
def test_what_torch_makes_of_a_module() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()).eval()
    wanted = operators(judge(net, INPUT))
    for made in (torch.fx.symbolic_trace(net), torch.nn.DataParallel(net)):
        assert operators(judge(made, INPUT)) == wanted
    assert operators(judge(torch.export.export(net, (INPUT,)).module(), INPUT)) == wanted
    compiled = judge(torch.compile(net), INPUT)
    assert operators(compiled) == wanted and "without torch.compile" in compiled.workload.notes[0]
    assert operators(judge(torch.nn.Sequential(torch.nn.LazyLinear(3)), INPUT)) >= {"aten::linear"}


def test_the_dtype_of_a_model_is_its_own() -> None:
    assert judge(torch.nn.Linear(4, 2).bfloat16(), INPUT.bfloat16()).workload.dtype == "bfloat16"
    assert judge(torch.nn.Linear(4, 2), INPUT, dtype="float32").workload.dtype == "float32"
    with torch.device("meta"):
        large = torch.nn.Linear(2**16, 2**16)
    assert judge(large, torch.empty(1, 2**16, device="meta")).summary.parameters_bytes == 4 * (2**32 + 2**16)


def test_its_options_are_the_flags_of_the_command() -> None:
    flags = {option.opts[0].removeprefix("--").replace("-", "_") for option in command.params}
    of_the_command_line = {"names", "format", "o", "output", "export", "fail_on", "allow", "q", "torch", "all"}
    of_the_command_line |= {"workloads", "jobs", "timeout"}  # of several
    of_the_command_line |= {"vary", "watch", "compile", "metal"}  # several runs of one workload
    assert set(CoverageOptions.__annotations__) == {name.lstrip("_") for name in flags} - of_the_command_line


def test_check_returns_the_report_or_raises_with_the_findings() -> None:
    assert mpsprobe.check(torch.nn.Linear(4, 2), INPUT, torch=RELEASE).workload.name == "Linear"
    with pytest.raises(CheckFailed) as caught:
        mpsprobe.check(Net(), INPUT, torch=RELEASE)
    assert f"aten::_linalg_eigvals is missing on torch {RELEASE} (" in caught.value.message
    assert "test_functions.py:" in caught.value.message and caught.value.exit_code == 1
    assert isinstance(caught.value.report, CoverageReport)
    with pytest.raises(
        CheckFailed, match=r"aten::_linalg_eigvals is missing on torch 2\.6\.0\n.*on torch 2\.13\.0$"
    ) as of_both:
        mpsprobe.check(Net(), INPUT, torch=("2.6", RELEASE))
    matrix = of_both.value.report
    assert isinstance(matrix, MatrixReport) and [cell.target.torch for cell in matrix] == ["2.6.0", RELEASE]
    mpsprobe.check(Net(), INPUT, torch=RELEASE, fail_on=["fallback"])


def test_what_is_allowed_passes() -> None:
    mpsprobe.check(Net(), INPUT, torch=RELEASE, allow=["cumsum", "_linalg_eigvals"])
    named = ("aten::linalg_qr.out", "linalg_qr.out", "aten::linalg_qr", "linalg_qr", "*linalg_*", "aten::linalg*")
    assert all(is_allowed("aten::linalg_qr.out", ["cumsum", name]) for name in named)
    assert not any(is_allowed("aten::linalg_qr.out", [name]) for name in ("linalg", "qr", "aten::_linalg*"))


BAD = [
    (torch.nn.Linear(4, 2), None, {}, "Linear needs inputs"),
    ({"a": 1}, INPUT, {}, "nobody here runs a builtins.dict"),
    ("bert-bsae", None, {}, "did you mean 'bert-base'"),
    ("bert-base", INPUT, {}, "brings its own inputs"),
    (Net(), INPUT, {"phase": "trainign"}, "unknown phase 'trainign'; did you mean 'training'"),
    (Net(), INPUT, {"batch_size": 2}, "Leave --batch-size out"),
    (Net(), INPUT, {"dtype": "float16"}, "Net is made of float32, not of float16"),
    (Net(), INPUT, {"torch": []}, "--torch needs a release"),
    (Net(), INPUT, {"torch": 2.10}, "a torch release is written in quotes, not as 2.1"),
    (Net(), INPUT, {"torch": "2.6,2.13"}, "several torch releases are a list, not '2.6,2.13'"),
    (Net(), INPUT, {"torch": "all", "explain": True}, "--explain is about one torch release"),
    (Net(), INPUT, {"phaes": "training"}, "unknown option 'phaes'; did you mean 'phase'"),
    (torch.nn.ReLU(), INPUT, {"phase": "training"}, "no parameter of the model requires a gradient"),
    (lambda: 7, None, {}, "It should return \\(model, inputs\\)"),
]


@pytest.mark.parametrize(("model", "inputs", "options", "says"), BAD, ids=[one[3][:20] for one in BAD])
def test_what_cannot_work_is_an_error_with_the_words_of_the_command(
    model: Any, inputs: Any, options: dict[str, Any], says: str
) -> None:
    with pytest.raises(MpsprobeError, match=says):
        judge(model, inputs, **options)


def test_what_is_elsewhere_is_refused_and_where_the_device_is_open() -> None:
    net = Net()
    with VirtualDevice(load_table(RELEASE)) as device:
        moved, there = device.move(torch.nn.Linear(4, 2)), device.move(INPUT)
        with pytest.raises(UsageError, match="is open in this process already"):
            judge(net, INPUT)
    assert net.training and type(net.first.weight) is torch.nn.Parameter
    with pytest.raises(UsageError, match="Linear is on mps:0") as caught:
        judge(moved, INPUT)
    assert "copy.deepcopy(model).cpu()" in str(caught.value.hint)
    with pytest.raises(UsageError, match="an input of Linear is on mps:0"):
        judge(torch.nn.Linear(4, 2), there)


def test_a_model_that_another_thread_runs_is_refused() -> None:
    inside, done = threading.Event(), threading.Event()

    class Waits(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            inside.set()
            done.wait(60)
            return x

    net = Waits()
    thread = threading.Thread(target=net, args=(INPUT,))
    thread.start()
    try:
        assert inside.wait(60)
        with pytest.raises(UsageError, match="Waits is running in another thread"):
            judge(net, INPUT)
    finally:
        done.set()
        thread.join()


def test_one_thread_at_a_time() -> None:
    refused: list[str] = []

    class Starts(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            def other() -> None:
                try:
                    judge(torch.nn.Linear(4, 2), INPUT)
                except UsageError as error:
                    refused.append(error.message)

            thread = threading.Thread(target=other)
            thread.start()
            thread.join()
            return x + 1

    assert judge(Starts(), INPUT).failure is None
    assert refused == ["another thread of this process has a model on the virtual device"]


def test_generate_of_a_model_that_has_it() -> None:
    class Writes(torch.nn.Linear):
        def generate(self, x: torch.Tensor, max_new_tokens: int, **_: Any) -> torch.Tensor:
            for _step in range(max_new_tokens):
                x = self(x)
            return x

    found = judge(Writes(4, 4), INPUT, phase="generate", new_tokens=3)
    assert found.operators[0].calls == 3


def test_a_report_is_saved_loaded_exported_and_compared(tmp_path: Path) -> None:
    report = judge(Net(), INPUT)
    path = report.save(tmp_path / "net.json")
    loaded = mpsprobe.load_report(path)
    assert loaded == report
    assert str(report.to("html")).startswith("<!DOCTYPE html>") and "Net" in str(report.to("markdown"))
    report.save(tmp_path / "net.html")
    assert "<html" in (tmp_path / "net.html").read_text(encoding="utf-8")
    compared = mpsprobe.compare(path, judge(Net(), INPUT, torch="2.6.0"))
    assert (compared.old.source, compared.new.source) == (path, "new")
    for name, says in (("htlm", "did you mean 'html'"), ("chrome", "this report is a 'coverage'")):
        with pytest.raises(UsageError, match=says):
            report.to(name)
    (tmp_path / "new.json").write_text('{"kind": "coverage", "schema_version": 2}', encoding="utf-8")
    with pytest.raises(MpsprobeError, match="version 2, which this mpsprobe does not know") as error:
        mpsprobe.load_report(tmp_path / "new.json")
    assert error.value.hint == "Upgrade mpsprobe, or the plugin that wrote it."
