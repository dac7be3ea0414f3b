"""What a workload has to keep to. Of one of the framework ``torch`` its model is looked at as well."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, ClassVar
from unittest import mock

from mpsprobe.declarations import PHASES
from mpsprobe.errors import MpsprobeError
from mpsprobe.protocols import RunOptions, TorchRun, Workload
from mpsprobe.stepping import forward, loss_of
from mpsprobe.suggestions import an
from mpsprobe_devkit.testing.contracts import clauses
from mpsprobe_devkit.testing.contracts.clauses import Broken, Contract, clause, described, doing, listed, want

REAL_BYTES = 4 * 2**20  # on meta: small tables may be made of lists, a model may not
RUN_FOR_REAL = 20_000_000  # parameters, up to which a step that needs values is taken on the CPU
OTHER_NAME = "no-such-workload-of-a-contract"
OF_A_RUN: Mapping[str, Callable[[Any], bool]] = {
    "args": lambda value: isinstance(value, tuple),
    "kwargs": lambda value: isinstance(value, Mapping),
    "architecture": lambda value: isinstance(value, str),
    "notes": lambda value: not isinstance(value, str) and all(isinstance(one, str) for one in value),
    **dict.fromkeys(("batch_size", "seq_len"), lambda value: value is None or (type(value) is int and value > 0)),
    **dict.fromkeys(("call", "loss", "optimizer"), lambda value: value is None or callable(value)),
}
"""What each field of a ``TorchRun`` has to be, besides its model."""


class WorkloadContract(Contract):
    """The clauses.

    Attributes:
        factory: makes the workload of a name, as ``WorkloadDeclaration.target`` does; an object has none.
    """

    kind: ClassVar[str] = "workload"
    factory: Callable[[str], Any] | None

    def is_torch(self) -> bool:
        """Whether its model can be looked at."""
        return bool(self.declaration.framework == "torch")

    def options(self, **asked: Any) -> RunOptions:
        """Options for the first of its phases."""
        return replace(RunOptions(phase=self.declaration.phases[0]), **asked)

    @cached_property
    def builds_on_meta(self) -> bool:
        """Whether its tensors need no values, so that building draws no random numbers."""
        import torch

        try:
            with clauses.restored(), torch.device("meta"):
                self.made().build(self.options())
        except Exception:  # noqa: BLE001 - the clause on memory tells it
            return False
        return True

    def built(self, options: RunOptions, *, real: bool = False) -> Any:
        """What a new workload builds: without memory where torch is its framework and it can be, unless ``real``.

        Raises:
            Broken: it cannot be built.
            MpsprobeError: it refuses ``options``.
        """
        try:
            if self.is_torch() and not real and self.builds_on_meta:
                import torch

                with torch.device("meta"):
                    return self.made().build(options)
            return self.made().build(options)
        except MpsprobeError:
            raise
        except (Exception, SystemExit) as error:
            names = ("phase", "dtype", "batch_size", "seq_len")
            shown = " ".join(f"{one}={value}" for one in names if (value := getattr(options, one)) is not None)
            raise Broken(f"building it with {shown} raised {described(error)}") from error

    def built_or_refused(self, **asked: Any) -> Any:
        """What it builds with an option more, or ``None`` where it says that it cannot."""
        try:
            return self.built(self.options(**asked))
        except MpsprobeError:
            return None

    @clause(rested_on=True)
    def is_what_it_declares(self) -> None:
        """The target, called with the name, gives a workload of that name and framework."""
        declared = self.declaration
        want(declared.phases and set(declared.phases) <= set(PHASES), f"its phases are {declared.phases}")
        with doing(f"making the workload '{declared.name}'"):
            made = self.made()
        clauses.want_all(made, Workload, declared.name, "name", "framework", "build", "describe")
        framework = f"its framework is {made.framework!r}, and it declares {declared.framework!r}"
        want(made.framework == declared.framework, framework)

    @clause()
    def says_no_to_another_name(self) -> None:
        """Another name is refused with a ``WorkloadError``, or not looked at; no other exception is raised."""
        with doing(f"asked for the name '{OTHER_NAME}', it"), suppress(MpsprobeError):
            if self.factory is not None:
                self.factory(OTHER_NAME)

    @clause()
    def describes_itself(self) -> None:
        """``describe`` gives facts that JSON can hold, without building a model."""
        made, built = self.made(), list[str]()
        with doing("describe()"), _watching_models(built):
            facts = made.describe()
        want(isinstance(facts, Mapping), f"describe() gives {an(type(facts).__name__)}, not a mapping")
        want(not built, f"describe() builds a model ({listed(built[:1])}): it is to be found without")
        with doing("writing what describe() gives as JSON"):
            json.dumps(dict(facts), allow_nan=False)

    @clause(rested_on=True)
    def builds_for_each_phase(self) -> None:
        """``build`` gives something for each declared phase: for torch a ``TorchRun`` with sane fields, in its mode."""
        for phase in self.declaration.phases:
            with doing(f"building it for {phase}"):
                run = self.built(self.options(phase=phase))
            want(run is not None, f"built for {phase}, it gives nothing")
            if not self.is_torch():
                continue
            import torch

            gives = an(type(run).__name__)
            want(isinstance(run, TorchRun), f"built for {phase}, it gives {gives}, not a TorchRun")
            model = f"its model is {an(type(run.model).__name__)}, no nn.Module"
            want(isinstance(run.model, torch.nn.Module), model)
            mode = "train() mode" if run.model.training else "eval() mode"
            right = run.model.training == (phase == "training")
            want(right, f"built for {phase}, its model is in {mode}")
            values = {name: getattr(run, name) for name in OF_A_RUN}
            wrong = [f"its {name} is {value!r}" for name, value in values.items() if not OF_A_RUN[name](value)]
            want(not wrong, f"built for {phase}, {', '.join(wrong)}: protocols.TorchRun says what it should be")

    @clause(when=lambda contract: set(contract.declaration.phases) != set(PHASES))
    def refuses_a_phase_that_it_does_not_have(self) -> None:
        """A phase that it does not declare is refused with a ``UsageError`` or a ``WorkloadError``."""
        for phase in set(PHASES) - set(self.declaration.phases):
            run = self.built_or_refused(phase=phase)
            want(run is None, f"it declares no phase '{phase}', but builds for it anyway")

    @clause(when=is_torch)
    def builds_without_memory(self) -> None:
        """``build`` makes tensors on torch's default device: on ``meta``, a model of any size costs no memory."""
        import torch

        for phase in self.declaration.phases:
            with doing(f"building it for {phase} on the device meta"), torch.device("meta"):
                run = self.made().build(self.options(phase=phase))
            tensors = [*run.model.parameters(), *run.model.buffers(), *_inputs(run)]
            real = sum(one.numel() * one.element_size() for one in tensors if not one.is_meta)
            says = f"built for {phase} on the device meta, {real / 1e6:.0f} MB are elsewhere: name no device in build()"
            want(real <= REAL_BYTES, says)

    @clause(when=is_torch)
    def honours_the_dtype(self) -> None:
        """Parameters and floating-point inputs have the dtype that was asked for, or a ``UsageError`` refuses it."""
        import torch

        for dtype in ("float32", "float16", "bfloat16"):
            run, wanted = self.built_or_refused(dtype=dtype), getattr(torch, dtype)
            if run is None:
                continue
            floats = [one for one in run.model.parameters() if one.is_floating_point()]
            every, others = (sum(one.numel() for one in floats if one.dtype not in but) for but in ((), (wanted,)))
            # Some models keep a few layers in float32, as their checkpoints are loaded.
            want(2 * others <= every, f"asked for {dtype}, {others} of {every} parameters are of another")
            inputs = {str(one.dtype) for one in _inputs(run) if one.is_floating_point() and one.dtype != wanted}
            want(not inputs, f"asked for {dtype}, inputs are of {listed(sorted(inputs))}")

    @clause(when=is_torch)
    def honours_the_batch_size(self) -> None:
        """``batch_size`` is the number of samples in the inputs, or it is refused with a ``UsageError``."""
        asked = 3 if self.built(self.options()).batch_size != 3 else 2
        run = self.built_or_refused(batch_size=asked)
        if run is not None:
            says = f"asked for {asked} samples, it says that it has {run.batch_size}"
            want(run.batch_size == asked, says)
            has = not _inputs(run) or any(asked in one.shape for one in _inputs(run))
            want(has, f"asked for {asked} samples, no input has a dimension of {asked}")

    @clause(when=is_torch)
    def honours_the_sequence_length(self) -> None:
        """``seq_len`` is the length of the inputs, or it is refused with a ``UsageError`` (by images, for example)."""
        asked = max(2, (self.built(self.options()).seq_len or 16) // 2)
        run = self.built_or_refused(seq_len=asked)
        if run is not None:
            want(run.seq_len == asked, f"asked for a length of {asked}, it says that it has {run.seq_len}")

    @clause(when=lambda contract: contract.is_torch() and "inference" in contract.declaration.phases)
    def runs_a_step(self) -> None:
        """The model takes its inputs: one forward pass under ``no_grad`` gives something."""
        import torch

        def take(run: TorchRun, options: RunOptions) -> None:
            with torch.no_grad():
                want(_forward(run, options) is not None, "the model gives nothing for its inputs")

        self._take_step("inference", take)

    @clause(when=lambda contract: contract.is_torch() and "training" in contract.declaration.phases)
    def has_a_loss_with_a_gradient(self) -> None:
        """Built for training, its output has a loss, and ``backward`` gives some parameter a gradient."""

        def take(run: TorchRun, options: RunOptions) -> None:
            loss_of(run, _forward(run, options)).backward()
            has = any(one.grad is not None for one in run.model.parameters())
            want(has, "its loss gives no parameter a gradient")

        self._take_step("training", take)

    def _take_step(self, phase: str, take: Callable[[TorchRun, RunOptions], None]) -> None:
        """``take`` a step on meta, which costs nothing; what needs values there on the CPU, if it is small enough."""
        options = self.options(phase=phase)
        for real in (False, True):
            run = self.built(options, real=real)
            small = sum(one.numel() for one in run.model.parameters()) <= RUN_FOR_REAL
            try:
                with doing(f"one step of {phase}"):
                    take(run, options)
                return
            except Broken as broken:  # meta tensors have no values: that it raises there says nothing yet
                if real or broken.__cause__ is None or isinstance(broken.__cause__, MpsprobeError):
                    raise
            if not small:
                return

    @clause()
    def leaves_the_process_alone(self) -> None:
        """Building changes neither torch's defaults nor anything else of the process, draws and prints nothing."""
        for phase in self.declaration.phases:
            build = partial(self.built, self.options(phase=phase))
            clauses.want_no_traces(
                f"building it for {phase}", build, random_numbers=self.is_torch() and self.builds_on_meta
            )


@contextmanager
def _watching_models(built: list[str]) -> Iterator[None]:
    """Notes the class of each ``torch.nn.Module`` that is made inside."""
    torch: Any = sys.modules.get("torch")
    if torch is None:
        yield
        return
    real = torch.nn.Module.__init__

    def watched(self: Any, *args: Any, **kwargs: Any) -> None:
        built.append(type(self).__name__)
        real(self, *args, **kwargs)

    with mock.patch.object(torch.nn.Module, "__init__", watched):
        yield


def _forward(run: TorchRun, options: RunOptions) -> Any:
    return forward(run, options, "cpu", run.args, dict(run.kwargs))


def _inputs(run: TorchRun) -> list[Any]:
    import torch
    from torch.utils._pytree import tree_leaves

    return [one for one in tree_leaves((run.args, dict(run.kwargs))) if isinstance(one, torch.Tensor)]
