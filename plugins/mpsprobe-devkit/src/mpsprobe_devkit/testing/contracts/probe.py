"""What a probe has to keep to, on a device that knows nothing of it."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from mpsprobe.engine.request import ProfileRequest
from mpsprobe.engine.session import Session
from mpsprobe.errors import MpsprobeError
from mpsprobe.protocols import Device, Probe, RunOptions, Workload
from mpsprobe.suggestions import an
from mpsprobe_devkit.testing.contracts import clauses
from mpsprobe_devkit.testing.contracts.clauses import Broken, Contract, described, want
from mpsprobe_devkit.testing.fakes import FakeDevice, FakeProgress

STEPS = 3
TICK_NS = 10_000_000  # of the session's clock at each look, so that a probe that wants seconds gets them at once

__tracebackhide__ = True  # under pytest: a failure shows the plugin's own code


class ProbeContract(Contract):
    """The clauses.

    Attributes:
        device, workload: makes the device that it measures on, and what that runs.
        strict: the device is one where it can measure; on a fake it may say afterwards that there was nothing.
    """

    kind = "probe"
    rested_on = ("is_what_it_declares", "fills_fields_of_the_report")
    device: Callable[[], Device]
    workload: Workload
    strict: bool

    @contextmanager
    def opened(self) -> Iterator[list[tuple[Any, Any, Any]]]:
        """A probe, a device and steps, which are closed afterwards; nothing where it cannot measure."""
        probe, device = self.made(), self.device()
        usable = probe.unavailable(device) is None
        steps: Any = device.open(self.workload, RunOptions())
        try:
            if usable and not self.strict:
                with suppress(Exception):  # an error of another kind is for a clause to report
                    try:
                        self.measured(probe, device, steps)
                    except MpsprobeError:
                        usable = False
            yield [(probe, device, steps)] if usable else []
        finally:
            steps.close()

    def measured(self, probe: Any, device: Any, steps: Any) -> Mapping[str, Any]:
        """What ``probe`` finds over a few steps, by itself."""
        probe.start(device, steps)
        for _ in range(STEPS):
            steps.step()
            probe.sample()
        readings: Mapping[str, Any] = probe.stop()
        return readings

    def test_is_what_it_declares(self) -> None:
        """The target is a probe of the declared name, or a class of them; ``disturbs`` is True or False."""
        probe, members = self.made(), ("name", "disturbs", "unavailable", "start", "sample", "stop")
        clauses.want_all(probe, Probe, self.declaration.name, *members)
        want(isinstance(probe.disturbs, bool), f"disturbs is {probe.disturbs!r}, neither True nor False")

    def test_says_where_it_cannot_measure(self) -> None:
        """``unavailable`` gives ``None`` or a sentence on one line, for any device, and never raises."""
        before = set(threading.enumerate())
        for device in (self.device(), _Unaware("unheard-of")):
            clauses.want_sentence(self.made().unavailable(device))
        clauses.want_no_threads("asking unavailable()", before)

    def test_fills_fields_of_the_report(self) -> None:
        """In a session it finds fields of ``ProfileCell`` that are its to fill, with what a report can hold."""
        clock = itertools.count(0, TICK_NS)
        with self.opened() as opened:
            for probe, device, steps in opened:
                session = Session(device, [probe], clock=lambda: next(clock))
                measured = session.measure(steps, ProfileRequest(steps=STEPS, warmup=1), FakeProgress())
                if measured.error is not None:
                    raise Broken(f"with it running, a step raised {described(measured.error)}") from measured.error
                problems = [
                    f"it said that it can measure, and then: {reason.reason}" for reason in measured.unavailable
                ]
                want(not problems, " ".join(problems))
                want(measured.found, "it found nothing at all: say in unavailable() why it cannot measure")

    def test_can_be_used_again(self) -> None:
        """After ``stop`` it can be started again, and finds the same fields, without what it found at first."""
        with self.opened() as opened:
            for each in opened:
                first, second = self.measured(*each), self.measured(*each)
                different = f"it found {sorted(first)} at first, and {sorted(second)} the second time"
                want(set(first) == set(second), different)
                lists = [name for name, value in second.items() if isinstance(value, list)]
                longer = [name for name in lists if len(second[name]) > len(first[name])]
                want(not longer, f"its {', '.join(longer)} of the second time has what it found at first, too")

    def test_stops_at_any_time(self) -> None:
        """``stop`` without a sample, and a second one, give something or say what is missing."""
        before = set(threading.enumerate())
        with self.opened() as opened:
            for probe, device, steps in opened:
                probe.start(device, steps)
                for what in ("without a sample, stop()", "a second stop()"):
                    with suppress(MpsprobeError):
                        readings = probe.stop()
                        want(isinstance(readings, Mapping), f"{what} gave {an(type(readings).__name__)}, not a mapping")
        clauses.want_no_threads("a second stop()", before)

    def test_cleans_up_after_a_failed_start(self) -> None:
        """Where ``start`` raised half way, ``stop`` ends what goes on running, and it can be used again."""
        before = set(threading.enumerate())
        with self.opened() as opened:
            for probe, device, steps in opened:
                with suppress(Exception):
                    probe.start(device, _Broken())
                with suppress(Exception):  # its answer is thrown away
                    probe.stop()
                clauses.want_no_threads("a start() that raised, and stop() after it,", before)
                self.measured(probe, device, steps)

    def test_leaves_the_process_alone(self) -> None:
        """After ``stop`` no thread of it runs, nothing of the process has changed, and nothing was printed."""
        with self.opened() as opened:
            clauses.want_no_traces("measuring", lambda: [self.measured(*each) for each in opened])


class _Unaware(FakeDevice):
    """A device of a kind that no probe has heard of."""

    def describe(self) -> Any:
        raise MpsprobeError("it does not tell")

    def synchronize(self) -> None:
        raise RuntimeError("the device is lost")


class _Broken:
    """Steps that cannot be looked at."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("the steps are gone")
