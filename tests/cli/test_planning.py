"""From flags to a plan."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from mpsprobe.cli.planning import choose_probes, make_plan
from mpsprobe.engine.request import ProfileRequest
from mpsprobe.errors import MpsprobeError, UsageError
from mpsprobe.plugins.registry import Registry
from mpsprobe.protocols import RunOptions
from mpsprobe_devkit.testing import install_plugin
from tests.thin import thin

BODY = thin(
    devices="[DeviceDeclaration(name, f'made_up:{name.upper()}', 'x') for name in ('gpu', 'cpu')]",
    probes="[ProbeDeclaration(n, f'made_up:{n.upper()}', 'x', default=n == 'quick') for n in ('quick', 'long')]",
    runners="[RunnerDeclaration('loop', 'made_up:Loop', 'x')]",
    workloads="[WorkloadDeclaration(name, 'made_up:workload', 'x') for name in ('one', 'two')]",
)
HEAVY = """
from mpsprobe_devkit.testing.fakes import FakeDevice, FakeProbe, FakeWorkload

GPU, CPU = FakeDevice("gpu"), FakeDevice("cpu")
QUICK, LONG = FakeProbe("quick"), FakeProbe("long")

def workload(name):
    return FakeWorkload(name)

class Loop:
    name = "loop"
    def unavailable(self, device):
        return "it knows no cpu" if device.name == "cpu" else None
    def open(self, workload, options, device, *, compiled=False):
        raise AssertionError("not here")
"""


@pytest.fixture
def registry(plugin_folder: Path) -> Registry:
    install_plugin(plugin_folder, "fake", BODY)
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
