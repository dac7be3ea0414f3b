"""Each clause of the contract for workloads can be broken, and a sound workload breaks none."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Mapping
from typing import Any

import pytest
import torch

from mpsprobe.errors import UnknownName, UsageError
from mpsprobe.protocols import RunOptions, TorchRun
from mpsprobe_devkit.testing import FakeWorkload, TinyWorkload, broken_clauses
from mpsprobe_devkit.testing.contracts.entries import _workload_subject
from mpsprobe_devkit.testing.contracts.workload import WORKLOAD


def broken(workload: Any, name: str | None = None, phases: tuple[str, ...] = ("inference", "training")) -> Any:
    """The clauses that it breaks, with what is said."""
    found = WORKLOAD.broken(_workload_subject(workload, name, phases))
    return {one.clause: one.problem for one in found}


def named(name: str) -> TinyWorkload:
    """The workload of a name, as a plugin's target makes it."""
    if name != "tiny":
        raise UnknownName("workload", name, ["tiny"])
    return TinyWorkload()


def test_sound_ones_break_nothing() -> None:
    assert broken(TinyWorkload) == {}
    assert broken(named, name="tiny") == {}
    assert broken(FakeWorkload()) == {}


class NoDescription:
    name, framework = "tiny", "torch"

    def build(self, options: RunOptions) -> Any:
        raise NotImplementedError


class OtherName(TinyWorkload):
    name = "other"

    def __init__(self, name: str) -> None:
        super().__init__("another")


def table(name: str) -> TinyWorkload:
    """Raises the wrong kind of error."""
    return {"tiny": TinyWorkload()}[name]


class DescribesAnObject(TinyWorkload):
    def describe(self) -> Mapping[str, Any]:
        return {"size": self}


class DescribesByBuilding(TinyWorkload):
    def describe(self) -> Mapping[str, Any]:
        return {"parameters": sum(one.numel() for one in self.build(RunOptions()).model.parameters())}


class Changed(TinyWorkload):
    """Builds as its parent does, and then changes something."""

    def build(self, options: RunOptions) -> Any:
        run = super().build(options)
        self.change(run, options)
        return run

    def change(self, run: TorchRun, options: RunOptions) -> None:
        raise NotImplementedError


class BuildsNoRun(TinyWorkload):
    def build(self, options: RunOptions) -> Any:
        return super().build(options).model


class StaysInEval(Changed):
    def change(self, run: TorchRun, options: RunOptions) -> None:
        run.model.eval()


class HalfABatch(Changed):
    def change(self, run: TorchRun, options: RunOptions) -> None:
        run.batch_size = 0


class NotesAText(Changed):
    def change(self, run: TorchRun, options: RunOptions) -> None:
        run.notes = "labels are random"


class NamesItsDevice(TinyWorkload):
    def build(self, options: RunOptions) -> Any:
        with torch.device("cpu"):
            run = super().build(options)
            run.model.register_buffer("table", torch.zeros(2_000_000, dtype=getattr(torch, options.dtype)))
        return run


class AlwaysFloat32(TinyWorkload):
    def build(self, options: RunOptions) -> Any:
        return super().build(RunOptions(phase=options.phase, batch_size=options.batch_size, seq_len=options.seq_len))


class InputsInFloat32(Changed):
    def change(self, run: TorchRun, options: RunOptions) -> None:
        dtype = run.model[0].weight.dtype
        run.args = (run.args[0].float(),)
        run.call = lambda model, args, kwargs: model(args[0].to(dtype))


class OneSize(TinyWorkload):
    def build(self, options: RunOptions) -> Any:
        return super().build(RunOptions(phase=options.phase, dtype=options.dtype, seq_len=options.seq_len))


class SaysTheSize(OneSize):
    def build(self, options: RunOptions) -> Any:
        run = super().build(options)
        run.batch_size = options.batch_size or run.batch_size
        return run


class IgnoresLengths(TinyWorkload):
    def build(self, options: RunOptions) -> Any:
        return super().build(RunOptions(phase=options.phase, dtype=options.dtype, batch_size=options.batch_size))


class Grows(Changed):
    count = 0

    def change(self, run: TorchRun, options: RunOptions) -> None:
        Grows.count += 1
        run.model.append(torch.nn.Linear(2, 2 + Grows.count, dtype=getattr(torch, options.dtype)))


class WrongInputs(Changed):
    def change(self, run: TorchRun, options: RunOptions) -> None:
        if options.phase == "inference":
            run.args = (run.args[0][:, :2],)


class NoLoss(Changed):
    def change(self, run: TorchRun, options: RunOptions) -> None:
        run.loss = lambda output: output.detach().sum()


class SetsTheDefaultDtype(Changed):
    def change(self, run: TorchRun, options: RunOptions) -> None:
        torch.set_default_dtype(torch.bfloat16)


class Seeds(Changed):
    def change(self, run: TorchRun, options: RunOptions) -> None:
        torch.manual_seed(0)


class SeedsPython(Changed):
    def change(self, run: TorchRun, options: RunOptions) -> None:
        random.seed(0)


class SwitchesGradientsOff(Changed):
    def change(self, run: TorchRun, options: RunOptions) -> None:
        torch.set_grad_enabled(False)


class TalksALot(Changed):
    def change(self, run: TorchRun, options: RunOptions) -> None:
        sys.stdout.write("loading\n")


CASES: list[tuple[Any, str, str, dict[str, Any]]] = [
    (NoDescription, "is_what_it_declares", "no 'describe'", {}),
    (OtherName, "is_what_it_declares", "its name is 'another'", {"name": "tiny"}),
    (TinyWorkload, "is_what_it_declares", "its phases are ('sleep',)", {"phases": ("sleep",)}),
    (table, "says_no_to_another_name", "KeyError", {"name": "tiny"}),
    (DescribesAnObject, "describes_itself", "not JSON serializable", {}),
    (DescribesByBuilding, "describes_itself", "builds a model", {}),
    (BuildsNoRun, "builds_for_each_phase", "a Sequential, not a TorchRun", {}),
    (StaysInEval, "builds_for_each_phase", "in eval() mode", {}),
    (HalfABatch, "builds_for_each_phase", "batch_size is 0", {}),
    (NotesAText, "builds_for_each_phase", "not a list of sentences", {}),
    (TinyWorkload, "refuses_a_phase_that_it_does_not_have", "no phase 'training'", {"phases": ("inference",)}),
    (NamesItsDevice, "builds_without_memory", "8 MB are elsewhere", {}),
    (AlwaysFloat32, "honours_the_dtype", "30 of 30 parameters", {}),
    (InputsInFloat32, "honours_the_dtype", "inputs are of 'torch.float32'", {}),
    (OneSize, "honours_the_batch_size", "it says that it has 2", {}),
    (SaysTheSize, "honours_the_batch_size", "no input has a dimension of 3", {}),
    (IgnoresLengths, "honours_the_sequence_length", "it says that it has None", {}),
    (Grows, "is_built_the_same_twice", "the parameter 3.weight", {}),
    (WrongInputs, "runs_a_step", "one step of inference raised RuntimeError", {}),
    (NoLoss, "has_a_loss_with_a_gradient", "does not depend on any parameter", {}),
    (SetsTheDefaultDtype, "leaves_the_process_alone", "torch's default dtype", {}),
    (Seeds, "leaves_the_process_alone", "torch's random numbers", {}),
    (SeedsPython, "leaves_the_process_alone", "Python's random numbers", {}),
    (SwitchesGradientsOff, "leaves_the_process_alone", "torch's grad mode", {}),
    (TalksALot, "leaves_the_process_alone", "prints 'loading", {}),
]
ALSO: dict[Any, set[str]] = {  # what follows from what is broken
    NamesItsDevice: {"leaves_the_process_alone"},  # there, it draws random numbers
    SwitchesGradientsOff: {"has_a_loss_with_a_gradient"},
}


@pytest.mark.parametrize(("workload", "clause", "says", "more"), CASES, ids=lambda one: getattr(one, "__name__", None))
def test_each_clause_can_be_broken(workload: Any, clause: str, says: str, more: dict[str, Any]) -> None:
    found = broken(workload, **more)
    assert says in found[clause], found
    assert set(found) - ALSO.get(workload, set()) == {clause}


def test_what_a_clause_changed_is_put_back() -> None:
    before = random.getstate()
    for workload in (SeedsPython, SetsTheDefaultDtype, SwitchesGradientsOff):
        assert broken(workload)
    assert random.getstate() == before
    assert torch.get_default_dtype() == torch.float32 and torch.is_grad_enabled()


def test_describing_may_not_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0.0, 7.5] * 50)
    monkeypatch.setattr(time, "monotonic", lambda: next(times))
    assert "7.5 s" in broken(TinyWorkload)["describes_itself"]


def test_a_model_that_reads_values_is_told_once() -> None:
    class Reads(Changed):
        def change(self, run: TorchRun, options: RunOptions) -> None:
            run.notes = [f"the first input is {run.args[0][0, 0].item()}"]

    found = broken(Reads)
    assert set(found) == {"builds_without_memory"}


def test_a_workload_that_is_too_large_to_step_for_real_steps_on_meta() -> None:
    class Large(Changed):
        def change(self, run: TorchRun, options: RunOptions) -> None:
            dtype = getattr(torch, options.dtype)
            run.model.append(torch.nn.Linear(2, 12_000_000, dtype=dtype))

    with torch.device("meta"):
        assert broken(Large) == {}


def test_one_that_needs_something_else_is_broken_for_that(plugin_folder: Any) -> None:
    from mpsprobe.declarations import WorkloadDeclaration

    (plugin_folder / "nets.py").write_text("import no_such_library_here\n", encoding="utf-8")
    [found] = broken_clauses(WorkloadDeclaration("tiny", "nets:make", "x"))
    assert found.clause == "is_what_it_declares" and "no_such_library_here" in found.problem


def test_an_error_of_its_own_is_no_finding_where_it_refuses() -> None:
    class Small(TinyWorkload):
        def build(self, options: RunOptions) -> Any:
            if options.batch_size not in (None, 2) or options.dtype != "float32":
                raise UsageError("it has one size and one dtype")
            return super().build(options)

    assert broken(Small) == {}
