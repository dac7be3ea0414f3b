"""What a workload has to keep to. Of one of the framework ``torch`` its model is looked at as well."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

from mpsprobe.declarations import PHASES
from mpsprobe.errors import MpsprobeError
from mpsprobe.protocols import RunOptions, TorchRun, Workload
from mpsprobe.stepping import forward, loss_of
from mpsprobe.suggestions import an
from mpsprobe_devkit.testing.contracts import clauses
from mpsprobe_devkit.testing.contracts.clauses import Broken, Contract, listed, want

REAL_BYTES = 4 * 2**20  # on meta: small tables may be made of lists, a model may not
RUN_FOR_REAL = 20_000_000  # parameters, up to which a step that needs values is taken on the CPU
OTHER_NAME = "no-such-workload-of-a-contract"

__tracebackhide__ = True  # under pytest: a failure shows the plugin's own code


class WorkloadContract(Contract):
    """The clauses. ``factory`` makes the workload of a name, as its target does; an object has none."""

    kind = "workload"
    rested_on = ("is_what_it_declares", "builds_for_each_phase")
    factory: Callable[[str], Any] | None

    @classmethod
    def unasked(cls) -> Iterable[str]:
        """A model of torch can be looked at; what has no phase or no name cannot be asked for it."""
        of_torch = (
            "builds_without_memory",
            "honours_the_dtype",
            "honours_the_batch_size",
            "honours_the_sequence_length",
        )
        phases, is_torch = cls.declaration.phases, cls.declaration.framework == "torch"
        yield from () if is_torch else of_torch
        yield from () if is_torch and "inference" in phases else ("runs_a_step",)
        yield from () if is_torch and "training" in phases else ("has_a_loss_with_a_gradient",)
        yield from ("refuses_a_phase_that_it_does_not_have",) if set(phases) == set(PHASES) else ()
        yield from ("says_no_to_another_name",) if cls.factory is None else ()

    def is_torch(self) -> bool:
        """Whether its model can be looked at."""
        return bool(self.declaration.framework == "torch")

    @cached_property
    def builds_on_meta(self) -> bool:
        """Whether its tensors need no values, so that building draws no random numbers."""
        import torch

        with suppress(Exception), clauses.restored(), torch.device("meta"):
            self.made().build(self.options())
            return True
        return False  # the clause on memory tells it

    def options(self, **asked: Any) -> RunOptions:
        """Options for the first of its phases."""
        return replace(RunOptions(phase=self.declaration.phases[0]), **asked)

    def built(self, real: bool = False, **asked: Any) -> Any:
        """What a new workload builds: without memory where torch is its framework and it can be, unless ``real``."""
        if not self.is_torch() or real or not self.builds_on_meta:
            return self.made().build(self.options(**asked))
        import torch

        with torch.device("meta"):
            return self.made().build(self.options(**asked))

    def built_or_refused(self, **asked: Any) -> Any:
        """What it builds with an option more, or ``None`` where it says that it cannot."""
        with suppress(MpsprobeError):
            return self.built(**asked)
        return None

    def test_is_what_it_declares(self) -> None:
        """The target, called with the name, gives a workload of that name and framework."""
        declared = self.declaration
        want(declared.phases and set(declared.phases) <= set(PHASES), f"its phases are {declared.phases}")
        made = self.made()
        clauses.want_all(made, Workload, declared.name, "name", "framework", "build", "describe")
        wanted = f"its framework is {made.framework!r}, and it declares {declared.framework!r}"
        want(made.framework == declared.framework, wanted)

    def test_says_no_to_another_name(self) -> None:
        """Another name is refused with a ``WorkloadError``, or not looked at; no other exception is raised."""
        assert self.factory is not None
        with suppress(MpsprobeError):
            self.factory(OTHER_NAME)

    def test_describes_itself(self) -> None:
        """``describe`` gives facts that JSON can hold."""
        facts = self.made().describe()
        want(isinstance(facts, Mapping), f"describe() gives {an(type(facts).__name__)}, not a mapping")
        json.dumps(dict(facts), allow_nan=False)

    def test_builds_for_each_phase(self) -> None:
        """``build`` gives something for each declared phase: for torch a ``TorchRun``, its model in that mode."""
        for phase in self.declaration.phases:
            run = self.built(phase=phase)
            want(run is not None, f"built for {phase}, it gives nothing")
            if self.is_torch():
                is_run = isinstance(run, TorchRun) and hasattr(run.model, "parameters")
                want(is_run, f"built for {phase}, it gives {an(type(run).__name__)}, not a TorchRun with a model")
                mode = "train() mode" if run.model.training else "eval() mode"
                right = run.model.training == (phase == "training")
                want(right, f"built for {phase}, its model is in {mode}")
                for name in ("batch_size", "seq_len"):
                    size = getattr(run, name)
                    right = size is None or (type(size) is int and size > 0)
                    want(right, f"its {name} is {size!r}: 1 or more, or None where there is no such thing")

    def test_refuses_a_phase_that_it_does_not_have(self) -> None:
        """A phase that it does not declare is refused with a ``UsageError`` or a ``WorkloadError``."""
        for phase in set(PHASES) - set(self.declaration.phases):
            run = self.built_or_refused(phase=phase)
            want(run is None, f"it declares no phase '{phase}', but builds for it anyway")

    def test_builds_without_memory(self) -> None:
        """``build`` makes tensors on torch's default device: on ``meta``, a model of any size costs no memory."""
        import torch

        for phase in self.declaration.phases:
            with torch.device("meta"):
                run = self.made().build(self.options(phase=phase))
            tensors = [*run.model.parameters(), *run.model.buffers(), *_inputs(run)]
            real = sum(tensor.numel() * tensor.element_size() for tensor in tensors if not tensor.is_meta)
            says = f"built for {phase} on the device meta, {real / 1e6:.0f} MB are elsewhere: name no device in build()"
            want(real <= REAL_BYTES, says)

    def test_honours_the_dtype(self) -> None:
        """Parameters and floating-point inputs have the dtype that was asked for, or a ``UsageError`` refuses it."""
        for dtype in ("float32", "float16", "bfloat16"):
            if (run := self.built_or_refused(dtype=dtype)) is None:
                continue
            floats = [parameter for parameter in run.model.parameters() if parameter.is_floating_point()]
            every = sum(tensor.numel() for tensor in floats)
            others = sum(tensor.numel() for tensor in floats if str(tensor.dtype) != f"torch.{dtype}")
            # Some models keep a few layers in float32, as their checkpoints are loaded.
            want(2 * others <= every, f"asked for {dtype}, {others} of {every} parameters are of another")
            inputs = {str(tensor.dtype) for tensor in _inputs(run) if tensor.is_floating_point()} - {f"torch.{dtype}"}
            want(not inputs, f"asked for {dtype}, inputs are of {listed(sorted(inputs))}")

    def test_honours_the_batch_size(self) -> None:
        """``batch_size`` is the number of samples in the inputs, or it is refused with a ``UsageError``."""
        asked = 3 if self.built().batch_size != 3 else 2
        if (run := self.built_or_refused(batch_size=asked)) is not None:
            want(run.batch_size == asked, f"asked for {asked} samples, it says that it has {run.batch_size}")
            has = not _inputs(run) or any(asked in tensor.shape for tensor in _inputs(run))
            want(has, f"asked for {asked} samples, no input has a dimension of {asked}")

    def test_honours_the_sequence_length(self) -> None:
        """``seq_len`` is the length of the inputs, or it is refused with a ``UsageError`` (by images, for example)."""
        asked = max(2, (self.built().seq_len or 16) // 2)
        if (run := self.built_or_refused(seq_len=asked)) is not None:
            want(run.seq_len == asked, f"asked for a length of {asked}, it says that it has {run.seq_len}")

    def test_runs_a_step(self) -> None:
        """The model takes its inputs: one forward pass under ``no_grad`` gives something."""
        import torch

        def take(run: TorchRun, output: Any) -> None:
            want(output is not None, "the model gives nothing for its inputs")

        with torch.no_grad():
            self._take_step("inference", take)

    def test_has_a_loss_with_a_gradient(self) -> None:
        """Built for training, its output has a loss, and ``backward`` gives some parameter a gradient."""

        def take(run: TorchRun, output: Any) -> None:
            loss_of(run, output).backward()
            has = any(parameter.grad is not None for parameter in run.model.parameters())
            want(has, "its loss gives no parameter a gradient")

        self._take_step("training", take)

    def _take_step(self, phase: str, take: Callable[[TorchRun, Any], None]) -> None:
        """``take`` a step on meta, which costs nothing; what needs values there on the CPU, if it is small enough."""
        for real in (False, True):
            run = self.built(phase=phase, real=real)
            try:
                take(run, forward(run, self.options(phase=phase), "cpu", run.args, dict(run.kwargs)))
            except (Broken, MpsprobeError):
                raise
            except Exception:  # meta tensors have no values: that it raises there says nothing yet
                if real:
                    raise
            else:
                return
            if sum(parameter.numel() for parameter in run.model.parameters()) > RUN_FOR_REAL:
                return

    def test_leaves_the_process_alone(self) -> None:
        """Building changes neither torch's defaults nor anything else of the process, draws and prints nothing."""
        draws_none = self.is_torch() and self.builds_on_meta
        for phase in self.declaration.phases:
            build = partial(self.built, phase=phase)
            clauses.want_no_traces(f"building it for {phase}", build, random_numbers=draws_none)


def _inputs(run: TorchRun) -> list[Any]:
    import torch
    from torch.utils._pytree import tree_leaves

    return [leaf for leaf in tree_leaves((run.args, dict(run.kwargs))) if isinstance(leaf, torch.Tensor)]
