"""What a device has to keep to, the steps that it opens, and a runner, whose steps are the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from mpsprobe.declarations import PHASES
from mpsprobe.errors import MpsprobeError
from mpsprobe.protocols import Device, Runner, RunOptions, Steps, Workload
from mpsprobe.schemas import DeviceInfo
from mpsprobe.suggestions import an
from mpsprobe_devkit.testing.contracts import clauses
from mpsprobe_devkit.testing.contracts.clauses import Contract, want
from mpsprobe_devkit.testing.fakes import FakeWorkload

__tracebackhide__ = True  # under pytest: a failure shows the plugin's own code


class Unbuildable(MpsprobeError):
    """What a workload raises that cannot be built."""


@dataclass
class CannotBeBuilt(FakeWorkload):
    """A workload that cannot."""

    name: str = "cannot-be-built"

    def build(self, options: RunOptions) -> Any:
        """Raises."""
        raise Unbuildable("it cannot be built today", "Ask again tomorrow.")


class _StepsContract(Contract):
    """What devices and runners share. ``workload`` is what they are asked to run."""

    rested_on = ("is_what_it_declares", "says_why_it_cannot_be_used", "says_where_it_cannot_run", "opens_and_steps")
    workload: Workload

    def phases(self) -> tuple[str, ...]:
        """Those that it opens."""
        return PHASES

    def there(self) -> list[tuple[Callable[..., Any], Any]]:
        """How steps of a workload are opened, and the device; nothing where it cannot be used here."""
        raise NotImplementedError

    @contextmanager
    def opened(self, phase: str) -> Iterator[list[tuple[Any, Any]]]:
        """Steps of the workload and their device, closed afterwards; nothing where it cannot be used here."""
        opened = [(start(self.workload, RunOptions(phase=phase)), device) for start, device in self.there()]
        for steps, _ in opened:
            want(isinstance(steps, Steps), f"open() gives {an(type(steps).__name__)}, which lacks a part of Steps")
            said = f"'{steps.info.name}' and '{steps.info.phase}'"
            wanted = f"'{self.workload.name}' and '{phase}'"
            want(said == wanted, f"opened for {wanted}, its steps' info says {said}")
        yield opened
        for steps, _ in opened:
            steps.close()

    def test_opens_and_steps(self) -> None:
        """Where it can be used, it opens the workload for each phase, and steps it again and again."""
        for phase in self.phases():
            with self.opened(phase) as opened:
                for steps, device in opened * 3:
                    steps.step()
                    device.synchronize()

    def test_tells_phases_apart(self) -> None:
        """``phases`` of its steps gives whole nanoseconds by phase, ``forward`` among them."""
        for phase in self.phases():
            with self.opened(phase) as opened:
                for steps, _ in opened:
                    phases = steps.phases()
                    has = isinstance(phases, Mapping) and "forward" in phases
                    want(has, f"phases() gives {phases!r}, without 'forward'")
                    wrong = [duration for duration in phases.values() if type(duration) is not int or duration < 0]
                    want(not wrong, f"phases() says {wrong}: ns, a whole number")

    def test_closes_more_than_once(self) -> None:
        """``close`` of its steps may be called again, also when a step was never taken."""
        with self.opened(self.phases()[0]) as opened:
            for steps, _ in opened:
                steps.close()

    def test_passes_errors_on(self) -> None:
        """What a workload says when it cannot be built arrives as it is."""
        for start, _ in self.there():
            raised: Any = "steps"
            try:
                start(CannotBeBuilt(), RunOptions(phase=self.phases()[0])).close()
            except Exception as error:  # noqa: BLE001 - whatever it made of it
                raised = error
            want(isinstance(raised, Unbuildable), f"where a workload cannot be built, open() gives {raised!r}")

    def test_leaves_the_process_alone(self) -> None:
        """Opening, stepping and closing leaves no thread, changes nothing of the process, and prints nothing."""

        def once() -> None:
            with self.opened(self.phases()[0]) as opened:
                for steps, _ in opened:
                    steps.step()

        clauses.want_no_traces("opening, stepping and closing", once)


class DeviceContract(_StepsContract):
    """The clauses for devices."""

    kind = "device"

    def there(self) -> list[tuple[Callable[..., Any], Any]]:
        """The device, unless it says that it cannot be used here: then nothing more can be tested."""
        device = self.made()
        return [(device.open, device)] if device.unavailable() is None else []

    def test_is_what_it_declares(self) -> None:
        """The target is a device of the declared name, or a class of them that is made without arguments."""
        members = ("name", "unavailable", "describe", "open", "synchronize", "is_out_of_memory")
        clauses.want_all(self.made(), Device, self.declaration.name, *members)

    def test_says_why_it_cannot_be_used(self) -> None:
        """``unavailable`` gives ``None`` or a sentence on one line, the same each time, and never raises."""
        first, second = self.made().unavailable(), self.made().unavailable()
        clauses.want_sentence(first)
        want(first == second, f"unavailable() gives {first!r}, then {second!r}")

    def test_describes_itself(self) -> None:
        """Where it can be used, ``describe`` gives a ``DeviceInfo`` of its name that JSON can hold."""
        for _, device in self.there():
            info = device.describe()
            want(isinstance(info, DeviceInfo), f"describe() gives {an(type(info).__name__)}, not a DeviceInfo")
            want(info.type == device.name, f"describe() says the type {info.type!r}, and its name is {device.name!r}")
            want(info.name.strip(), "describe() gives an empty name: say what it is, as a person calls it")
            json.loads(info.model_dump_json())

    def test_tells_out_of_memory(self) -> None:
        """``is_out_of_memory`` gives True or False for any exception, False for one that has nothing to do with it."""
        for error in (ValueError("shapes differ"), KeyboardInterrupt(), MemoryError(), RuntimeError()):
            answer = self.made().is_out_of_memory(error)
            want(isinstance(answer, bool), f"is_out_of_memory gives {answer!r}, neither True nor False")
            may = isinstance(error, (MemoryError, RuntimeError))
            want(may or not answer, f"is_out_of_memory takes {an(type(error).__name__)} for it")


class RunnerContract(_StepsContract):
    """The clauses for runners: a library's own loop. ``device`` makes the device that it runs on."""

    kind = "runner"
    device: Callable[[], Device]

    def phases(self) -> tuple[str, ...]:
        """Those that it declares."""
        return tuple(self.declaration.phases)

    def there(self) -> list[tuple[Callable[..., Any], Any]]:
        """The runner with its device, unless it says that it cannot run there."""
        runner, device = self.made(), self.device()
        usable = runner.unavailable(device) is None
        return [(lambda workload, options: runner.open(workload, options, device), device)] if usable else []

    def test_is_what_it_declares(self) -> None:
        """The target is a runner of the declared name, or a class of them, for one phase at least."""
        clauses.want_all(self.made(), Runner, self.declaration.name, "name", "unavailable", "open")
        want(self.phases() and set(self.phases()) <= set(PHASES), f"its phases are {self.phases()}")

    def test_says_where_it_cannot_run(self) -> None:
        """``unavailable`` gives ``None`` or a sentence on one line, and never raises."""
        clauses.want_sentence(self.made().unavailable(self.device()))
