"""Fakes of what plugins provide: they compute nothing and remember how they were used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

from mpsprobe.protocols import Device, Progress, RunOptions, Steps, Workload
from mpsprobe.schemas.profile import DeviceInfo, ProbeReading
from mpsprobe.schemas.report import Report
from mpsprobe.schemas.workload import WorkloadInfo
from mpsprobe_devkit.testing.reports import sample_coverage_report


@dataclass
class FakeWorkload:
    """A workload of the framework ``fake``: ``build`` returns the options that it was given.

    Attributes:
        name: what it is called.
        framework: what it says that it is written in.
        built: the options of each ``build``.
    """

    name: str = "fake"
    framework: str = "fake"
    built: list[RunOptions] = field(default_factory=list)

    def build(self, options: RunOptions) -> RunOptions:
        """Remembers ``options`` in ``built`` and returns them."""
        self.built.append(options)
        return options

    def describe(self) -> Mapping[str, Any]:
        """Its name and architecture."""
        return {"name": self.name, "architecture": "Fake"}


@dataclass
class FakeScanner:
    """Builds the workload once and returns the sample report.

    Attributes:
        scanned: name, options and releases of each ``scan``.
    """

    scanned: list[tuple[str, RunOptions, tuple[str, ...]]] = field(default_factory=list)

    def scan(
        self, workload: Workload, options: RunOptions, torch_releases: Sequence[str], progress: Progress
    ) -> Report:
        """Remembers what it was asked in ``scanned``."""
        self.scanned.append((workload.name, options, tuple(torch_releases)))
        progress.start(1, workload.name)
        workload.build(options)
        progress.advance()
        progress.stop()
        return sample_coverage_report()


@dataclass
class FakeProgress:
    """Remembers each call in ``steps``: ``("start", 3, "building")``, ``("advance", None)``, ``("stop",)``.

    Attributes:
        steps: the calls, in order.
    """

    steps: list[tuple[Any, ...]] = field(default_factory=list)

    def start(self, total: int | None, what: str) -> None:
        """Remembers the call."""
        self.steps.append(("start", total, what))

    def advance(self, what: str | None = None) -> None:
        """Remembers the call."""
        self.steps.append(("advance", what))

    def stop(self) -> None:
        """Remembers the call."""
        self.steps.append(("stop",))


@dataclass
class FakeClock:
    """A clock that stands still until it is moved: ``clock()`` reads it, ``clock.now += n`` moves it. In ns.

    Attributes:
        now: what it shows, in ns.
    """

    now: int = 0

    def __call__(self) -> int:
        return self.now


@dataclass
class FakeSteps:
    """Steps that move a ``FakeClock``: each by the next of ``durations`` (ns; the last one is repeated).

    An exception among ``durations`` is raised in its place. ``phase_shares`` says how ``phases`` divides a step.

    Attributes:
        clock: the clock that it moves.
        durations: of each step in ns, or what it raises.
        phase_shares: the share of each phase in a step.
        info: what a report says about the workload.
        model: for probes that look into it.
        taken: how many steps were taken.
        closed: how often it was closed.
    """

    clock: FakeClock
    durations: Iterable[int | BaseException] = (1_000_000,)
    phase_shares: Mapping[str, float] = field(default_factory=lambda: {"forward": 1.0})
    info: WorkloadInfo = field(
        default_factory=lambda: WorkloadInfo(
            name="fake", architecture="Fake", phase="inference", dtype="float32", parameters=1, batch_size=4, seq_len=8
        )
    )
    model: Any = None
    taken: int = 0
    closed: int = 0

    def __post_init__(self) -> None:
        self._durations = self._endless()

    def _endless(self) -> Iterator[int | BaseException]:
        last: int | BaseException = 0
        for last in self.durations:
            yield last
        yield from repeat(last)

    def step(self) -> None:
        """Moves the clock, or raises."""
        self.taken += 1
        duration = next(self._durations)
        if isinstance(duration, BaseException):
            raise duration
        self.clock.now += duration

    def phases(self) -> Mapping[str, int]:
        """One step, divided by ``phase_shares``."""
        before = self.clock.now
        self.step()
        whole = self.clock.now - before
        return {name: round(share * whole) for name, share in self.phase_shares.items()}

    def close(self) -> None:
        """Counts in ``closed``."""
        self.closed += 1


@dataclass
class FakeDevice:
    """A device whose workloads take the steps of ``make_steps``; ``reason`` makes it unavailable.

    Attributes:
        name: what it is called.
        reason: why it cannot be used; ``None``: it can.
        clock: the clock that its steps move.
        durations: of each step in ns, or what it raises.
        synchronized: how often it was waited for.
        opened: the steps of each ``open``.
    """

    name: str = "fake"
    reason: str | None = None
    clock: FakeClock = field(default_factory=FakeClock)
    durations: Sequence[int | BaseException] = (1_000_000,)
    synchronized: int = 0
    opened: list[FakeSteps] = field(default_factory=list)

    def unavailable(self) -> str | None:
        """``reason``."""
        return self.reason

    def describe(self) -> DeviceInfo:
        """Its name, and no memory."""
        return DeviceInfo(type=self.name, name="Fake device")

    def open(self, workload: Workload, options: RunOptions, *, compiled: bool = False) -> FakeSteps:
        """Builds the workload and remembers the steps in ``opened``."""
        del compiled
        workload.build(options)
        info = WorkloadInfo.model_validate(
            {
                "name": workload.name,
                "architecture": "Fake",
                "phase": options.phase,
                "dtype": options.dtype,
                "parameters": 1,
                "batch_size": options.batch_size or 1,
                "seq_len": options.seq_len,
                "grad_accum": options.grad_accum,
            }
        )
        self.opened.append(FakeSteps(self.clock, self.durations, info=info))
        return self.opened[-1]

    def synchronize(self) -> None:
        """Counts in ``synchronized``."""
        self.synchronized += 1

    def is_out_of_memory(self, error: BaseException) -> bool:
        """Whether it is a ``MemoryError``."""
        return isinstance(error, MemoryError)


@dataclass
class FakeProbe:
    """Counts the steps that it sees; ``fails_in`` names the method that raises.

    Attributes:
        name: what it is called.
        disturbs: whether it wants steps of its own.
        reason: why it cannot measure; ``None``: it can.
        fails_in: the method that raises (``start``, ``sample``, ``stop``).
        samples: how many steps it has seen.
    """

    name: str = "fake"
    disturbs: bool = False
    reason: str | None = None
    fails_in: str | None = None
    samples: int = 0

    def unavailable(self, device: Device) -> str | None:
        """``reason``."""
        del device
        return self.reason

    def start(self, device: Device, steps: Steps) -> None:
        """Raises if it is to fail here."""
        del device, steps
        self._attempt("start")

    def sample(self) -> None:
        """Counts."""
        self._attempt("sample")
        self.samples += 1

    def stop(self) -> Mapping[str, Any]:
        """One reading with the number of steps."""
        self._attempt("stop")
        return {"readings": [ProbeReading(probe=self.name, values={"steps": float(self.samples)})]}

    def _attempt(self, method: str) -> None:
        if self.fails_in == method:
            raise RuntimeError(f"no {method} today")


@dataclass
class FakeRunner:
    """A runner that leaves everything to the device.

    Attributes:
        name: what it is called.
        reason: why it is unavailable, if it is.
        opened: workload, options and device of each ``open``.
    """

    name: str = "fake"
    reason: str | None = None
    opened: list[tuple[str, RunOptions, str]] = field(default_factory=list)

    def unavailable(self, device: Device) -> str | None:
        """``reason``."""
        del device
        return self.reason

    def open(self, workload: Workload, options: RunOptions, device: Device, *, compiled: bool = False) -> Steps:
        """Remembers workload, options and device in ``opened``, and opens the device's own steps."""
        self.opened.append((workload.name, options, device.name))
        return device.open(workload, options, compiled=compiled)


@dataclass
class FakeExporter:
    """An exporter that writes the kind of a report on one line.

    Attributes:
        rendered: the reports, in order.
    """

    rendered: list[Report] = field(default_factory=list)

    def render(self, report: Report) -> str:
        """The kind, in quotes."""
        self.rendered.append(report)
        return f"{report.kind!r}\n"
