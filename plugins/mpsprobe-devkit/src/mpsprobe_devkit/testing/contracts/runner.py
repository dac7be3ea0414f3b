"""What a runner has to keep to: a library's own loop, that steps as a device's own steps do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from mpsprobe.declarations import PHASES, RunnerDeclaration
from mpsprobe.protocols import Device, Runner, RunOptions, Steps, Workload
from mpsprobe.suggestions import an
from mpsprobe_devkit.testing.contracts.clauses import Contract, doing, listed
from mpsprobe_devkit.testing.contracts.device import (
    close_twice,
    closed_after,
    refuse_phases,
    refuse_steps,
    refuse_swallowed,
    step_often,
)
from mpsprobe_devkit.testing.contracts.leaving import refuse_traces
from mpsprobe_devkit.testing.contracts.subjects import Made, refuse_unless


@dataclass
class RunnerSubject:
    """A runner under test.

    Attributes:
        declaration: what it declares.
        made: makes it, or gives the one that there is.
        device: makes the device that it runs on.
        workload: what it runs.
    """

    declaration: RunnerDeclaration
    made: Made
    device: Callable[[], Device]
    workload: Workload

    def usable(self) -> tuple[Any, Device] | None:
        """A runner and a device that it can run on; ``None`` where it says that it cannot."""
        runner, device = self.made(), self.device()
        with doing("unavailable(device)"):
            return (runner, device) if runner.unavailable(device) is None else None

    @contextmanager
    def opened(self, phase: str) -> Iterator[tuple[Steps, Device] | None]:
        """Steps and their device, closed afterwards; ``None`` where it cannot run here."""
        usable = self.usable()
        if usable is None:
            yield None
            return
        runner, device = usable
        with doing(f"open() for {phase}"):
            steps = runner.open(self.workload, RunOptions(phase=phase), device)
        with closed_after(steps):
            yield steps, device


RUNNER: Contract[RunnerSubject] = Contract("runner")


@RUNNER.clause(rested_on=True)
def is_what_it_declares(subject: RunnerSubject) -> None:
    """The target is a runner of the declared name, or a class of them, for one phase at least."""
    runner = subject.made()
    missing = [one for one in ("name", "unavailable", "open") if not hasattr(runner, one)]
    refuse_unless(isinstance(runner, Runner), f"it is {an(type(runner).__name__)}, which has no {listed(missing)}")
    name, phases = subject.declaration.name, subject.declaration.phases
    refuse_unless(runner.name == name, f"its name is {runner.name!r}, and it declares {name!r}")
    refuse_unless(bool(phases) and set(phases) <= set(PHASES), f"its phases are {phases}")


@RUNNER.clause()
def says_where_it_cannot_run(subject: RunnerSubject) -> None:
    """``unavailable`` gives ``None`` or a sentence on one line, and never raises."""
    with doing("unavailable(device)"):
        reason = subject.made().unavailable(subject.device())
    sentence = isinstance(reason, str) and bool(reason.strip()) and len(reason.splitlines()) == 1
    refuse_unless(reason is None or sentence, f"unavailable() gives {reason!r}, neither None nor a sentence")


@RUNNER.clause(rested_on=True)
def opens_and_steps(subject: RunnerSubject) -> None:
    """Where it can run, it opens a workload for each declared phase, and steps it again and again."""
    for phase in subject.declaration.phases:
        with subject.opened(phase) as opened:
            if opened is not None:
                refuse_steps(opened[0], subject.workload.name, phase)
                step_often(*opened)


@RUNNER.clause()
def tells_phases_apart(subject: RunnerSubject) -> None:
    """``phases`` of its steps gives whole nanoseconds by phase, ``forward`` among them."""
    with subject.opened(subject.declaration.phases[0]) as opened:
        if opened is not None:
            refuse_phases(opened[0])


@RUNNER.clause()
def closes_more_than_once(subject: RunnerSubject) -> None:
    """``close`` of its steps may be called again, also when a step was never taken."""
    with subject.opened(subject.declaration.phases[0]) as opened:
        if opened is not None:
            close_twice(opened[0])


@RUNNER.clause()
def passes_errors_on(subject: RunnerSubject) -> None:
    """What a workload says when it cannot be built arrives as it is."""
    usable = subject.usable()
    if usable is not None:
        runner, device = usable
        options = RunOptions(phase=subject.declaration.phases[0])
        refuse_swallowed(lambda workload: runner.open(workload, options, device))


@RUNNER.clause()
def leaves_the_process_alone(subject: RunnerSubject) -> None:
    """Opening, stepping and closing leaves no thread, changes nothing of the process, and prints nothing."""

    def once() -> None:
        with subject.opened(subject.declaration.phases[0]) as opened:
            if opened is not None:
                step_often(*opened)

    refuse_traces("opening, stepping and closing", once, random_numbers=False)
