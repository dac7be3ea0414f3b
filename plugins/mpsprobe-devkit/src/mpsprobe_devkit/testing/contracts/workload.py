"""What a workload has to keep to. Of one of the framework ``torch`` its model is looked at as well."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any
from unittest import mock

from mpsprobe.declarations import PHASES, WorkloadDeclaration
from mpsprobe.errors import MpsprobeError
from mpsprobe.protocols import RunOptions, TorchRun, Workload
from mpsprobe.stepping import forward, loss_of
from mpsprobe.suggestions import an
from mpsprobe_devkit.testing.contracts.clauses import Broken, Contract, described, doing, listed, restored
from mpsprobe_devkit.testing.contracts.leaving import refuse_traces
from mpsprobe_devkit.testing.contracts.subjects import refuse_unless

LONGEST_DESCRIPTION_S = 5.0
REAL_BYTES = 4 * 2**20  # on meta: small tables may be made of lists, a model may not
RUN_FOR_REAL = 20_000_000  # parameters, up to which a step that needs values is taken on the CPU
OTHER_NAME = "no-such-workload-of-a-contract"


@dataclass
class WorkloadSubject:
    """A workload under test.

    Attributes:
        declaration: what it declares.
        factory: makes the workload of a name, as ``WorkloadDeclaration.target`` does.
        takes_names: whether ``factory`` looks at the name; an object that was given does not.
    """

    declaration: WorkloadDeclaration
    factory: Callable[[str], Any]
    takes_names: bool = True

    def made(self) -> Any:
        """The workload, anew."""
        return self.factory(self.declaration.name)

    @cached_property
    def default(self) -> Any:
        """What it builds for its first phase with no further options."""
        return self.built(self.options())

    @cached_property
    def builds_on_meta(self) -> bool:
        """Whether its tensors need no values, so that building draws no random numbers."""
        import torch

        try:
            with restored(), torch.device("meta"):
                self.made().build(self.options())
        except Exception:  # noqa: BLE001 - the clause on memory tells it
            return False
        return True

    def options(self, **asked: Any) -> RunOptions:
        """Options for the first of its phases."""
        return replace(RunOptions(phase=self.declaration.phases[0]), **asked)

    def built(self, options: RunOptions, *, real: bool = False) -> Any:
        """What a new workload builds: without memory where torch is its framework and it can be, unless ``real``.

        Raises:
            Broken: it cannot be built.
            MpsprobeError: it refuses ``options``.
        """
        with self._told(options):
            if self.declaration.framework != "torch" or real:
                return self.made().build(options)
            import torch

            try:
                with torch.device("meta"):
                    return self.made().build(options)
            except MpsprobeError:
                raise
            except Exception:  # noqa: BLE001 - it looks at values, which the clause on memory tells
                return self.made().build(options)

    @contextmanager
    def _told(self, options: RunOptions) -> Iterator[None]:
        try:
            yield
        except MpsprobeError:
            raise
        except (Exception, SystemExit) as error:
            raise Broken(f"building it with {_shown(options)} raised {described(error)}") from error


WORKLOAD: Contract[WorkloadSubject] = Contract("workload")


def _torch(subject: WorkloadSubject) -> bool:
    return subject.declaration.framework == "torch"


def _trains(subject: WorkloadSubject) -> bool:
    return _torch(subject) and "training" in subject.declaration.phases


def _does_not_train(subject: WorkloadSubject) -> bool:
    return set(subject.declaration.phases) != set(PHASES)


def _by_name(subject: WorkloadSubject) -> bool:
    return subject.takes_names


def _shown(options: RunOptions) -> str:
    usual = RunOptions()
    names = ("phase", "dtype", "batch_size", "seq_len")
    said = {name: getattr(options, name) for name in names if getattr(options, name) != getattr(usual, name)}
    return " ".join(f"{name}={value}" for name, value in said.items()) or "the usual options"


@WORKLOAD.clause(rested_on=True)
def is_what_it_declares(subject: WorkloadSubject) -> None:
    """The target, called with the name, gives a workload with that name and framework, ``build`` and ``describe``."""
    declared = subject.declaration
    refuse_unless(bool(declared.phases) and set(declared.phases) <= set(PHASES), f"its phases are {declared.phases}")
    with doing(f"making the workload '{declared.name}'"):
        made = subject.made()
    if not isinstance(made, Workload):
        missing = [name for name in ("name", "framework", "build", "describe") if not hasattr(made, name)]
        raise Broken(f"it is {an(type(made).__name__)}, which has no {listed(missing)}")
    for what, has, wanted in (
        ("name", made.name, declared.name),
        ("framework", made.framework, declared.framework),
    ):
        refuse_unless(has == wanted, f"its {what} is {has!r}, and it declares {wanted!r}")
    if declared.framework == "torch":
        with doing("importing torch, which is its framework,"):
            import torch  # noqa: F401


@WORKLOAD.clause(when=_by_name)
def says_no_to_another_name(subject: WorkloadSubject) -> None:
    """Another name is refused with a ``WorkloadError``, or not looked at; no exception of another type is raised."""
    try:
        subject.factory(OTHER_NAME)
    except MpsprobeError:
        return
    except Exception as error:
        raise Broken(
            f"asked for the name '{OTHER_NAME}' it raised {described(error)} instead of a WorkloadError"
        ) from error


@WORKLOAD.clause()
def describes_itself(subject: WorkloadSubject) -> None:
    """``describe`` gives facts that JSON can hold, soon and without building a model."""
    made = subject.made()
    built: list[str] = []
    with doing("describe()"), _watching_models(built):
        made.describe()
        started = time.monotonic()
        facts = made.describe()
        spent = time.monotonic() - started
    refuse_unless(isinstance(facts, Mapping), f"describe() gives {an(type(facts).__name__)}, not a mapping")
    refuse_unless(not built, f"describe() builds a model ({listed(built[:1])}): it is to be found without")
    refuse_unless(spent <= LONGEST_DESCRIPTION_S, f"describe() takes {spent:.1f} s, each time")
    with doing("writing what describe() gives as JSON"):
        json.dumps(dict(facts), allow_nan=False)


@WORKLOAD.clause(rested_on=True)
def builds_for_each_phase(subject: WorkloadSubject) -> None:
    """``build`` gives something for each declared phase: for torch a ``TorchRun`` with sane fields, in its mode."""
    for phase in subject.declaration.phases:
        options = subject.options(phase=phase)
        with doing(f"building it for {phase}"):
            run = subject.built(options)
        refuse_unless(run is not None, f"built for {phase}, it gives nothing")
        if _torch(subject):
            _refuse_run(run, phase)


def _refuse_run(run: Any, phase: str) -> None:
    import torch

    refuse_unless(isinstance(run, TorchRun), f"built for {phase}, it gives {an(type(run).__name__)}, not a TorchRun")
    refuse_unless(isinstance(run.model, torch.nn.Module), f"its model is {an(type(run.model).__name__)}, no nn.Module")
    training = phase == "training"
    modes = "train() mode" if run.model.training else "eval() mode"
    refuse_unless(run.model.training == training, f"built for {phase}, its model is in {modes}")
    refuse_unless(isinstance(run.args, tuple), f"args is {an(type(run.args).__name__)}, not a tuple")
    named = isinstance(run.kwargs, Mapping) and all(isinstance(name, str) for name in run.kwargs)
    refuse_unless(named, "kwargs is not a mapping of names")
    for name in ("batch_size", "seq_len"):
        size = getattr(run, name)
        whole = size is None or (isinstance(size, int) and not isinstance(size, bool) and size >= 1)
        refuse_unless(whole, f"{name} is {size!r}: a number of 1 or more, or None where there is no such thing")
    refuse_unless(isinstance(run.architecture, str), f"architecture is {an(type(run.architecture).__name__)}, no text")
    notes = not isinstance(run.notes, str) and all(isinstance(note, str) for note in run.notes)
    refuse_unless(notes, "notes is not a list of sentences")
    for name in ("call", "loss", "optimizer"):
        given = getattr(run, name)
        refuse_unless(given is None or callable(given), f"{name} is {an(type(given).__name__)}, which cannot be called")


@WORKLOAD.clause(when=_does_not_train)
def refuses_a_phase_that_it_does_not_have(subject: WorkloadSubject) -> None:
    """A phase that it does not declare is refused with a ``UsageError`` or a ``WorkloadError``."""
    for phase in set(PHASES) - set(subject.declaration.phases):
        try:
            subject.built(subject.options(phase=phase))
        except MpsprobeError:
            continue
        raise Broken(f"it declares no phase '{phase}', but builds for it anyway")


@WORKLOAD.clause(when=_torch)
def builds_without_memory(subject: WorkloadSubject) -> None:
    """``build`` makes tensors on torch's default device: with ``meta`` there, a model of any size costs no memory."""
    import torch

    for phase in subject.declaration.phases:
        with doing(f"building it for {phase} on the device meta"), torch.device("meta"):
            run = subject.made().build(subject.options(phase=phase))
        real = sum(one.numel() * one.element_size() for one in _tensors_of(run) if not one.is_meta)
        refuse_unless(
            real <= REAL_BYTES,
            f"built for {phase} on the device meta, {real / 1e6:.0f} MB are elsewhere: name no device in build()",
        )


@WORKLOAD.clause(when=_torch)
def honours_the_dtype(subject: WorkloadSubject) -> None:
    """Parameters and floating-point inputs have the dtype that was asked for, or a ``UsageError`` refuses it."""
    import torch

    for dtype in ("float32", "float16", "bfloat16"):
        run = _built_or_refused(subject, dtype=dtype)
        if run is None:
            continue
        wanted = getattr(torch, dtype)
        floats = [one for one in run.model.parameters() if one.is_floating_point()]
        having, every = (sum(p.numel() for p in floats if p.dtype in kinds) for kinds in ({wanted}, {*_dtypes(floats)}))
        # Some models keep a few layers in float32, as their checkpoints are loaded.
        refuse_unless(2 * having >= every, f"asked for {dtype}, {every - having} of {every} parameters are of another")
        others = _dtypes(one for one in _leaves((run.args, dict(run.kwargs))) if one.is_floating_point()) - {wanted}
        refuse_unless(not others, f"asked for {dtype}, inputs are of {listed(sorted(map(str, others)))}")


@WORKLOAD.clause(when=_torch)
def honours_the_batch_size(subject: WorkloadSubject) -> None:
    """``batch_size`` is the number of samples in the inputs, or it is refused with a ``UsageError``."""
    asked = 3 if subject.default.batch_size != 3 else 2
    run = _built_or_refused(subject, batch_size=asked)
    if run is None:
        return
    refuse_unless(run.batch_size == asked, f"asked for {asked} samples, it says that it has {run.batch_size}")
    inputs = _leaves((run.args, dict(run.kwargs)))
    refuse_unless(
        not inputs or any(asked in one.shape for one in inputs),
        f"asked for {asked} samples, no input has a dimension of {asked}",
    )


@WORKLOAD.clause(when=_torch)
def honours_the_sequence_length(subject: WorkloadSubject) -> None:
    """``seq_len`` is the length of the inputs, or it is refused with a ``UsageError`` (by images, for example)."""
    asked = max(2, (subject.default.seq_len or 16) // 2)
    run = _built_or_refused(subject, seq_len=asked)
    if run is not None:
        refuse_unless(run.seq_len == asked, f"asked for a length of {asked}, it says that it has {run.seq_len}")


@WORKLOAD.clause(when=_torch)
def is_built_the_same_twice(subject: WorkloadSubject) -> None:
    """Two builds agree in parameters and inputs: their names, shapes and dtypes."""
    for phase in subject.declaration.phases:
        with doing(f"building it for {phase} twice"):
            first, second = (_structure(subject.built(subject.options(phase=phase))) for _ in range(2))
        changed = [name for name in {**first, **second} if first.get(name) != second.get(name)]
        refuse_unless(not changed, f"built for {phase} twice, it differs in {listed(changed[:3])}")


@WORKLOAD.clause(when=_torch)
def runs_a_step(subject: WorkloadSubject) -> None:
    """The model takes its inputs: one forward pass under ``no_grad`` gives something."""
    if "inference" not in subject.declaration.phases:
        return
    import torch

    def take(run: TorchRun, options: RunOptions) -> None:
        with torch.no_grad():
            output = forward(run, options, "cpu", run.args, dict(run.kwargs))
        refuse_unless(output is not None, "the model gives nothing for its inputs")

    _take_step(subject, "inference", take)


@WORKLOAD.clause(when=_trains)
def has_a_loss_with_a_gradient(subject: WorkloadSubject) -> None:
    """Built for training, its output has a loss, and ``backward`` gives some parameter a gradient."""

    def take(run: TorchRun, options: RunOptions) -> None:
        loss = loss_of(run, forward(run, options, "cpu", run.args, dict(run.kwargs)))
        loss.backward()
        refuse_unless(
            any(one.grad is not None for one in run.model.parameters()), "its loss gives no parameter a gradient"
        )

    _take_step(subject, "training", take)


@WORKLOAD.clause()
def leaves_the_process_alone(subject: WorkloadSubject) -> None:
    """Building changes neither torch's defaults nor anything else of the process, draws nothing, and prints nothing."""
    for phase in subject.declaration.phases:
        build = partial(subject.built, subject.options(phase=phase))
        refuse_traces(f"building it for {phase}", build, random_numbers=_torch(subject) and subject.builds_on_meta)


@contextmanager
def _watching_models(built: list[str]) -> Iterator[None]:
    """Notes the class of each ``torch.nn.Module`` that is made inside."""
    import sys

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


def _take_step(subject: WorkloadSubject, phase: str, take: Callable[[TorchRun, RunOptions], None]) -> None:
    """``take`` a step on meta, which costs nothing; what needs values there on the CPU, if the model is small enough.

    Raises:
        Broken: the step raises, or ``take`` says what is wrong with it.
    """
    options = subject.options(phase=phase)
    with doing(f"building it for {phase}"):
        run = subject.built(options)
        try:
            take(run, options)
            return
        except Broken:
            raise
        except MpsprobeError as error:
            raise Broken(f"one step of {phase} raised {described(error)}") from error
        except Exception:  # noqa: BLE001 - meta tensors have no values: this says nothing yet
            if sum(one.numel() for one in run.model.parameters()) > RUN_FOR_REAL:
                return
        run = subject.built(options, real=True)
    with doing(f"one step of {phase}"):
        take(run, options)


def _built_or_refused(subject: WorkloadSubject, **asked: Any) -> Any:
    """What it builds with an option more, or ``None`` where it says that it cannot."""
    try:
        return subject.built(subject.options(**asked))
    except MpsprobeError:
        return None


def _leaves(value: Any) -> list[Any]:
    import torch
    from torch.utils._pytree import tree_leaves

    return [one for one in tree_leaves(value) if isinstance(one, torch.Tensor)]


def _tensors_of(run: TorchRun) -> list[Any]:
    return [*run.model.parameters(), *run.model.buffers(), *_leaves((run.args, dict(run.kwargs)))]


def _dtypes(tensors: Any) -> set[Any]:
    return {one.dtype for one in tensors}


def _structure(run: TorchRun) -> dict[str, tuple[Any, ...]]:
    parameters = {f"the parameter {name}": one for name, one in run.model.named_parameters()}
    inputs = {f"input {number}": one for number, one in enumerate(_leaves((run.args, dict(run.kwargs))))}
    return {name: (tuple(one.shape), str(one.dtype)) for name, one in {**parameters, **inputs}.items()}
