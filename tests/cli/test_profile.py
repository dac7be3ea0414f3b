"""``mpsprobe profile`` and ``mpsprobe.profile`` on the CPU: from flags to a plan, models, and fresh processes."""

from __future__ import annotations

import copy
import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import TypeAdapter

import mpsprobe
from mpsprobe.cli import processes
from mpsprobe.cli.functions import ProfileOptions
from mpsprobe.cli.planning import choose_probes, make_plan
from mpsprobe.cli.profile import profile as command
from mpsprobe.engine.request import ProfileRequest
from mpsprobe.errors import MpsprobeError, UsageError, WorkloadError
from mpsprobe.plugins.registry import Registry, get_registry
from mpsprobe.protocols import RunOptions
from mpsprobe_devkit.testing import install_plugin, run_cli
from tests.forking import run_command
from tests.thin import thin

MODEL = """
import os, signal, torch

def make():
    return torch.nn.Linear(4, 2), (torch.ones(3, 4),)

other = another = make

def fails():
    class Fails(torch.nn.Linear):
        def forward(self, x): raise ValueError('Torch not compiled with CUDA enabled')
    return Fails(4, 2), torch.ones(3, 4)

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
QUICK = ("--device", "cpu", "--steps", "1", "--warmup", "0", "--probe", "none", "--no-fallbacks", "--format", "json")
OPTIONS = ProfileOptions(device="cpu", steps=2, warmup=0, probe="none", no_fallbacks=True)
INPUT = torch.ones(2, 4)


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "tiny.py"
    path.write_text(MODEL, encoding="utf-8")
    return str(path)


def test_a_model_of_the_users_own(file: str, tmp_path: Path) -> None:
    output = tmp_path / "report.json"
    ran = run_command("profile", f"{file}:make", "--device", "cpu", "--steps", "3", "--warmup", "1", "-o", output)
    assert ran.code == 0, ran.stderr
    report = json.loads(output.read_text(encoding="utf-8"))
    assert report["kind"] == "profile" and report["complete"]
    (cell,) = report["cells"]
    assert len(cell["steps"]) == 3 and len(cell["warmup"]["durations_ns"]) == 1 and cell["first_call_ns"][0] > 0
    exported = run_command("export", output, "--to", "table")
    assert exported.code == 0 and "takes" in exported.stdout and "cpu" in exported.stdout


def test_names_and_flags_are_joined(file: str) -> None:
    model, other, another = (f"{file}:{name}" for name in ("make", "other", "another"))
    joined = run_command("profile", model, other, "--workload", another, "--workload", model, *QUICK).json()
    assert joined["plan"]["workloads"] == [model, other, another]
    named = run_command("profile", model, *QUICK, variables={"MPSPROBE_PROFILE_WORKLOAD": "nobody"}).json()
    assert named["plan"]["workloads"] == [model]


def test_wrong_use_says_what_to_do(file: str) -> None:
    for line, says in (
        ("--workload MODEL --preset pytorch-mps-2022", "--preset names the workloads itself"),
        ("MODEL --device cpu --baseline cpu", "measured anyway"),
        ("MODEL --device cpu --batch-size 1,x", "whole number from 1"),
        ("MODEL --device cpu --batch-size ,", "needs a number"),
        ("MODEL --device cpu --steps 0", "--steps takes a whole number from 1"),
        ("MODEL --device cpu --grad-accum 2", "--phase training only"),
        ("MODEL --device cpu --dtype float33", "did you mean 'float32'"),
        ("MODEL --device cpu --format tabel", "did you mean 'table'"),
        ("MODEL --device cpu -o report.foo", "no format has the extension '.foo'"),
    ):
        ran = run_command("profile", *(word.replace("MODEL", f"{file}:make") for word in line.split()))
        assert ran.code == 2 and says in ran.stderr and ran.stdout == ""


def test_the_cause_of_a_failed_run_is_said_once(file: str, tmp_path: Path) -> None:
    command = ("profile", f"{file}:fails", "--device", "cpu", "--probe", "none")
    shown = run_command(*command)
    assert shown.code == 2 and (shown.stdout + shown.stderr).count("Torch not compiled") == 1
    assert "A Mac has no CUDA" in shown.stderr
    written = run_command(*command, "-o", tmp_path / "report.json")
    assert written.stderr.startswith("Error: the run stopped: ValueError in first call: Torch not compiled with CUDA")


def test_an_unavailable_device_names_those_that_are_there(file: str) -> None:
    ran = run_command("profile", f"{file}:make", "--device", "mps")
    if ran.code:  # on a Mac it is there
        assert "mps cannot be used here" in ran.stderr and "cpu" in ran.stderr


def test_each_process_is_fresh_and_its_steps_are_told_apart(file: str, tmp_path: Path) -> None:
    output = tmp_path / "r.json"
    flags = ("--steps", "3", "--warmup", "1", "--processes", "2", "--phase", "training", "-o", output)
    ran = run_cli("profile", f"{file}:make", *QUICK, *flags)
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


def test_a_process_that_dies_is_told(file: str) -> None:
    with pytest.raises(MpsprobeError, match="process 1 of 2 ended with exit code 2 and no report"):
        processes.measure(get_registry(), ProfileRequest((f"{file}:dies",), device="cpu", processes=2))


def test_wrong_use_is_told_before_a_process_starts(file: str) -> None:
    flags = ("--device", "cpu", "--processes", "2", "--runner", "trianer")
    ran = run_cli("profile", f"{file}:make", *flags, process=False)
    assert ran.code == 2 and ran.stderr.count("Error") == 1 and "process" not in ran.stderr


def test_ctrl_c_keeps_what_was_measured(file: str, tmp_path: Path) -> None:
    output = tmp_path / "r.json"
    ran = run_cli("profile", f"{file}:interrupted", *QUICK, "--steps", "1000", "--processes", "2", "-o", output)
    assert ran.code == 0, ran.stderr
    report = json.loads(output.read_text(encoding="utf-8"))
    assert not report["complete"] and len(report["cells"][0]["steps"]) == 3
    assert "1 of 2 processes measured something" in report["notes"]


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = torch.nn.Linear(4, 2), torch.nn.BatchNorm1d(2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.layer(x)).square().sum()


def test_a_copy_is_run_and_the_model_is_as_before() -> None:
    net = Net()
    net.norm.eval()
    before = copy.deepcopy(net.state_dict())
    for phase in ("inference", "training"):
        [cell] = mpsprobe.profile(net, INPUT, phase=phase, **OPTIONS)
        assert cell.step is not None and cell.step.count == 2
        assert (cell.workload, cell.phase) == ("Net", phase)
    assert (net.training, net.norm.training) == (True, False)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert net.layer.weight.grad is None


def test_what_falls_back_is_predicted() -> None:
    class Slow(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.eigvals(x @ x.T).abs().sum()

    [cell] = mpsprobe.profile(Slow(), INPUT, **{**OPTIONS, "no_fallbacks": False})  # type: ignore[typeddict-item]
    assert [one.operator for one in cell.fallbacks] == ["aten::_linalg_eigvals"]


def test_a_function_that_makes_a_model() -> None:
    [cell] = mpsprobe.profile(lambda: (Net(), INPUT), phase="training", **OPTIONS)
    assert cell.failure is None


def test_what_cannot_work_is_told() -> None:
    class Unique(Net):
        def __deepcopy__(self, memo: object) -> Net:
            raise TypeError("there is one of me")

    net = Net()
    for model, options, error, says in (
        (lambda x: net(x), {}, UsageError, "would run the program's own model"),
        (Unique(), {}, WorkloadError, "'Unique' cannot be copied: TypeError: there is one of me"),
        (net, {"processes": 2}, UsageError, "--processes needs a workload with a name"),
        (net, {"steps": 0}, UsageError, "--steps takes a whole number from 1, not '0'"),
        (net, {"device": "gpu"}, UsageError, "unknown device 'gpu'"),
        (net, {"batch_size": 2}, UsageError, "Leave --batch-size out"),
    ):
        with pytest.raises(error, match=says):
            mpsprobe.profile(model, INPUT, **{**OPTIONS, **options})  # type: ignore[typeddict-item]
    with pytest.raises(UsageError, match="what should be run"):
        mpsprobe.profile()


def test_its_options_are_the_flags_of_the_command() -> None:
    flags = {option.opts[-1].removeprefix("--").replace("-", "_") for option in command.params}
    assert set(ProfileOptions.__annotations__) == flags - {"names", "workload", "export", "format", "output", "quiet"}


PLUGIN = thin(
    devices="[DeviceDeclaration(name, f'made_up:{name.upper()}', 'x') for name in ('gpu', 'cpu')]",
    probes="[ProbeDeclaration(n, f'made_up:{n.upper()}', 'x', default=n == 'quick') for n in ('quick', 'long')]",
    runners="[RunnerDeclaration('loop', 'made_up:LOOP', 'x')]",
    workloads="[WorkloadDeclaration(name, 'mpsprobe_devkit.testing:FakeWorkload', 'x') for name in ('one', 'two')]",
)
HEAVY = """
from mpsprobe_devkit.testing.fakes import FakeDevice, FakeProbe

GPU, CPU = FakeDevice("gpu"), FakeDevice("cpu")
QUICK, LONG = FakeProbe("quick"), FakeProbe("long")

class Loop:
    name = "loop"
    def unavailable(self, device): return "it knows no cpu" if device.name == "cpu" else None
    def open(self, workload, options, device, *, compiled=False): return device.open(workload, options)

LOOP = Loop()
"""


@pytest.fixture
def registry(plugin_folder: Path) -> Registry:
    install_plugin(plugin_folder, "fake", PLUGIN)
    (plugin_folder / "made_up.py").write_text(HEAVY, encoding="utf-8")
    return Registry(strict=True, blocked=["devices", "hf", "coverage", "exporters"])


def _cells(registry: Registry, **asked: Any) -> list[tuple[Any, ...]]:
    plan = make_plan(registry, ProfileRequest(**{"workloads": ("one",), **asked}))
    return [
        (one.workload.name, one.options.phase, one.device.name, one.options.seq_len, one.options.batch_size)
        for one in plan.runs
    ]


def test_the_baseline_follows_upon_what_is_compared_with_it(registry: Registry) -> None:
    found = _cells(registry, workloads=("one", "two", "one"), phase="both", baseline="cpu", batch_sizes=(1, 8))
    cells = product(("one", "two"), ("inference", "training"), (1, 8), ("gpu", "cpu"))
    assert found == [(workload, phase, device, None, batch) for workload, phase, batch, device in cells]


def test_how_a_model_is_trained_is_for_training_only(registry: Registry) -> None:
    for options in (RunOptions(grad_accum=4), RunOptions(lora=True, lora_rank=4)):
        plan = make_plan(registry, ProfileRequest(("one",), phase="both", options=options))
        found = [(one.options.grad_accum, one.options.lora) for one in plan.runs]
        assert found == [(1, False), (options.grad_accum, options.lora)]


def test_what_all_runs_share_reaches_each(registry: Registry) -> None:
    request = ProfileRequest(("one", "two"), options=RunOptions(dtype="float16", weights=True), seq_lens=(5,))
    plan = make_plan(registry, request)
    assert plan.request is request and [probe.name for probe in plan.probes] == ["quick"]
    assert [run.options for run in plan.runs] == [RunOptions(dtype="float16", weights=True, seq_len=5)] * 2


def test_probes_by_name_all_and_none(registry: Registry) -> None:
    def names(asked: tuple[str, ...] | None) -> list[str]:
        return [probe.name for probe in choose_probes(registry, asked)]

    assert names(None) == ["quick"] and names(("all",)) == ["quick", "long"] and names(("none",)) == []
    assert names(("long", "quick", "long")) == ["long", "quick"]
    with pytest.raises(MpsprobeError, match="did you mean 'quick'"):
        names(("quik",))


def test_flags_go_before_a_preset(registry: Registry, tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    text = 'phases = ["training"]\nbaseline = "cpu"\nnotes = ["a note"]\n[[workloads]]\nname = "two"\nbatch_size = 4\n'
    path.write_text(text + '[[workloads]]\nname = "one"\nseq_len = 9\n', encoding="utf-8")
    preset = {"workloads": (), "preset": str(path)}
    assert _cells(registry, **preset) == [
        ("two", "training", "gpu", None, 4),
        ("two", "training", "cpu", None, 4),
        ("one", "training", "gpu", 9, None),
        ("one", "training", "cpu", 9, None),
    ]
    changed = _cells(registry, **preset, phase="inference", batch_sizes=(2,), device="cpu")
    assert changed == [("two", "inference", "cpu", None, 2), ("one", "inference", "cpu", 9, 2)]
    plan = make_plan(registry, ProfileRequest(**preset, device="cpu"))
    assert plan.notes[0] == "a note" and "it was measured alone" in plan.notes[1]


def test_a_runner_is_there_for_each_run(registry: Registry) -> None:
    plan = make_plan(registry, ProfileRequest(("one",), phase="training", runner="loop"))
    assert [one.runner.name for one in plan.runs if one.runner is not None] == ["loop"]


def test_what_cannot_be_planned_says_why(registry: Registry) -> None:
    for request_, says in (
        (ProfileRequest(), "what should be run"),
        (ProfileRequest(("one",), preset="pytorch-mps-2022"), "names the workloads itself"),
        (ProfileRequest(("one",), options=RunOptions(grad_accum=4)), "--phase training only"),
        (ProfileRequest(("one",), options=RunOptions(lora=True)), "--phase training only"),
        (ProfileRequest(("one",), phase="training", options=RunOptions(lora_rank=4)), "sense with --lora only"),
        (ProfileRequest(("one",), device="atuo"), "did you mean 'auto'"),
        (ProfileRequest(("one",), runner="loop"), "--runner loop does not run inference"),
        (ProfileRequest(("one",), phase="training", runner="loop", device="cpu"), "on cpu here: it knows no cpu"),
        (ProfileRequest(("one",), phase="training", runner="lop"), "did you mean 'loop'"),
        (ProfileRequest(("one",), phase="training", runner="trainer"), r"mpsprobe-hf \S+ is installed but blocked"),
    ):
        with pytest.raises(UsageError, match=says):
            make_plan(registry, request_)


@pytest.mark.parametrize("asked", [{}, {"device": "gpu"}])
def test_a_device_whose_plugin_is_switched_off_says_so(asked: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="is installed but blocked: switched off by -p"):
        make_plan(Registry(strict=True, blocked=["*"]), ProfileRequest(("one",), **asked))
