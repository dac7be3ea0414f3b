"""Each clause of the contract for workloads can be broken, and a sound workload breaks none."""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from typing import Any

import pytest
import torch

from mpsprobe.declarations import WorkloadDeclaration
from mpsprobe.errors import UnknownName, UsageError
from mpsprobe.protocols import RunOptions
from mpsprobe_devkit.testing import FakeWorkload, TinyWorkload, broken_clauses, workload_contract


def broken(workload: Any, **more: Any) -> dict[str, str]:
    """The clauses that it breaks, with what is said."""
    suite: Any = workload_contract(workload, **more)
    return {one.clause: one.problem for one in suite.broken()}


def named(name: str) -> TinyWorkload:
    """The workload of a name, as a plugin's target makes it."""
    if name != "tiny":
        raise UnknownName("workload", name, ["tiny"])
    return TinyWorkload()


def changed(change: Any) -> type:
    """Builds as the tiny one does, and then changes something."""

    def build(self: Any, options: RunOptions) -> Any:
        run = TinyWorkload.build(self, options)
        change(run, options)
        return run

    return type("Changed", (TinyWorkload,), {"build": build})


def asked(**other: Any) -> type:
    """Builds with other options than those that it is asked for."""
    build = TinyWorkload.build
    return type("Asked", (TinyWorkload,), {"build": lambda self, options: build(self, replace(options, **other))})


def said(name: str, value: Any) -> type:
    """Says something else about what it builds."""
    return changed(lambda run, options: setattr(run, name, value))


def test_sound_ones_break_nothing() -> None:
    assert broken(TinyWorkload) == {}
    assert broken(named, name="tiny") == {}
    assert broken(FakeWorkload()) == {}


def _on_the_cpu(self: Any, options: RunOptions) -> Any:
    with torch.device("cpu"):
        run = TinyWorkload.build(self, options)
        run.model.register_buffer("table", torch.zeros(2_000_000, dtype=getattr(torch, options.dtype)))
    return run


def _inputs_in_float32(run: Any, _options: RunOptions) -> None:
    dtype = run.model[0].weight.dtype
    run.args = (run.args[0].float(),)
    run.call = lambda model, args, kwargs: model(args[0].to(dtype))


def _narrow_in_inference(run: Any, options: RunOptions) -> None:
    if options.phase == "inference":
        run.args = (run.args[0][:, :2],)


def _other(**methods: Any) -> type:
    return type("Other", (TinyWorkload,), methods)


def _leaving(action: Any) -> type:
    return changed(lambda run, options: action())


CASES: list[tuple[str, str, Any, dict[str, Any]]] = [
    ("is_what_it_declares", "no 'describe'", type("X", (), {"name": "x", "framework": "torch", "build": 3}), {}),
    ("is_what_it_declares", "its name is 'another'", lambda name: TinyWorkload("another"), {"name": "tiny"}),
    ("is_what_it_declares", "its phases are ('sleep',)", TinyWorkload, {"phases": ("sleep",)}),
    ("says_no_to_another_name", "KeyError", {"tiny": TinyWorkload()}.__getitem__, {"name": "tiny"}),
    ("describes_itself", "not JSON serializable", _other(describe=lambda self: {"size": self}), {}),
    ("describes_itself", "a str, not a mapping", _other(describe=lambda self: "small"), {}),
    ("builds_for_each_phase", "a Linear, not a TorchRun", _other(build=lambda self, o: torch.nn.Linear(1, 1)), {}),
    ("builds_for_each_phase", "in eval() mode", changed(lambda run, options: run.model.eval()), {}),
    ("builds_for_each_phase", "batch_size is 0", said("batch_size", 0), {}),
    ("refuses_a_phase_that_it_does_not_have", "no phase 'training'", TinyWorkload, {"phases": ("inference",)}),
    ("builds_without_memory", "8 MB are elsewhere", _other(build=_on_the_cpu), {}),
    ("honours_the_dtype", "30 of 30 parameters", asked(dtype="float32"), {}),
    ("honours_the_dtype", "inputs are of 'torch.float32'", changed(_inputs_in_float32), {}),
    ("honours_the_batch_size", "it says that it has 2", asked(batch_size=None), {}),
    ("honours_the_sequence_length", "it says that it has None", asked(seq_len=None), {}),
    ("runs_a_step", "raised RuntimeError", changed(_narrow_in_inference), {}),
    (
        "has_a_loss_with_a_gradient",
        "does not depend on any parameter",
        said("loss", lambda output: output.detach().sum()),
        {},
    ),
    ("leaves_the_process_alone", "torch's default dtype", _leaving(lambda: torch.set_default_dtype(torch.half)), {}),
    ("leaves_the_process_alone", "torch's random numbers", _leaving(lambda: torch.rand(1, device="cpu")), {}),
    ("leaves_the_process_alone", "Python's random numbers", _leaving(random.random), {}),
    ("leaves_the_process_alone", "torch's grad mode", _leaving(lambda: torch.set_grad_enabled(False)), {}),
    ("leaves_the_process_alone", "prints 'loading", _leaving(lambda: sys.stdout.write("loading\n")), {}),
]
ALSO = {"8 MB are elsewhere": {"leaves_the_process_alone"}, "torch's grad mode": {"has_a_loss_with_a_gradient"}}


@pytest.mark.parametrize(("clause", "says", "workload", "more"), CASES)
def test_each_clause_can_be_broken(clause: str, says: str, workload: Any, more: dict[str, Any]) -> None:
    before = random.getstate()
    found = broken(workload, **more)
    assert says in found[clause], found
    assert set(found) - ALSO.get(says, set()) == {clause}
    assert random.getstate() == before and torch.get_default_dtype() == torch.float32 and torch.is_grad_enabled()


def test_a_model_that_reads_values_is_told_once() -> None:
    assert set(broken(changed(lambda run, options: run.args[0][0, 0].item()))) == {"builds_without_memory"}


def test_a_workload_that_is_too_large_to_step_for_real_steps_on_meta() -> None:
    large = changed(
        lambda run, o: run.model.append(torch.nn.Linear(2, 12_000_000, dtype=getattr(torch, o.dtype), device="meta"))
    )
    assert broken(large) == {}


def test_one_that_needs_something_else_is_broken_for_that(plugin_folder: Any) -> None:
    (plugin_folder / "nets.py").write_text("import no_such_library_here\n", encoding="utf-8")
    [found] = broken_clauses(WorkloadDeclaration("tiny", "nets:make", "x"))
    assert found.clause == "is_what_it_declares" and "no_such_library_here" in found.problem


def test_an_error_of_its_own_is_no_finding_where_it_refuses() -> None:
    def refuse(run: Any, options: RunOptions) -> None:
        if options.batch_size not in (None, 2) or options.dtype != "float32":
            raise UsageError("it has one size and one dtype")

    assert broken(changed(refuse)) == {}
