"""Fakes of what plugins provide: they compute nothing and remember how they were used. And a tiny model of torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import Any

from mpsprobe.errors import UsageError
from mpsprobe.protocols import Device, Progress, RunOptions, Steps, TorchRun, Workload
from mpsprobe.schemas.profile import DeviceInfo, ProbeReading
from mpsprobe.schemas.report import Report
from mpsprobe.schemas.run import WorkloadInfo
from mpsprobe_devkit.testing.samples import sample_coverage_report

WIDTH, SAMPLES = 4, 2  # of the tiny model
INFO = {"name": "fake", "architecture": "Fake", "phase": "inference", "dtype": "float32", "parameters": 1}


@dataclass
class FakeWorkload:
    """A workload of the framework ``fake``: ``build`` returns the options that it was given.

    Attributes:
        name, framework: what it is called and written in.
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
class TinyWorkload:
    """A torch model of two linear layers with a ReLU between them, 30 parameters, two samples of width 4.

    Attributes:
        name, framework: what it is called and written in.
        raises: what its forward pass raises behind the first layer, if anything.
    """

    name: str = "tiny"
    raises: Exception | None = None
    framework: str = "torch"

    def build(self, options: RunOptions) -> TorchRun:
        """The model in the mode and dtype of ``options``, on torch's default device; its loss is the mean square.

        Raises:
            UsageError: a ``seq_len`` was asked for, or real weights: it has neither.
        """
        import torch

        if options.seq_len is not None or options.weights:
            raise UsageError(f"the workload '{self.name}' has no sequences and no weights", "Leave that option out.")
        dtype, samples = getattr(torch, options.dtype), options.batch_size or SAMPLES
        model = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, 2))
        if (error := self.raises) is not None:

            def fail(*_: Any) -> None:
                raise error

            model[1].register_forward_hook(fail)
        model.to(dtype).train(options.phase == "training")
        inputs = (torch.ones(samples, WIDTH, dtype=dtype),)
        return TorchRun(model, inputs, architecture="Tiny", loss=_mean_square, batch_size=samples)

    def describe(self) -> Mapping[str, Any]:
        """Its architecture and its size."""
        return {"architecture": "Tiny", "parameters": WIDTH * WIDTH + WIDTH + 2 * WIDTH + 2}


def _mean_square(output: Any) -> Any:
    return output.float().pow(2).mean()


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

    Attributes:
        clock, durations: the clock that it moves, and by how much; an exception is raised in its place.
        phase_shares: how ``phases`` divides a step.
        info, model: of the workload, for reports and for probes.
        taken, closed: how many steps were taken, and how often it was closed.
    """

    clock: FakeClock
    durations: Iterable[int | BaseException] = (1_000_000,)
    phase_shares: Mapping[str, float] = field(default_factory=lambda: {"forward": 1.0})
    info: WorkloadInfo = field(
        default_factory=lambda: WorkloadInfo.model_validate({**INFO, "batch_size": 4, "seq_len": 8})
    )
    model: Any = None
    taken: int = 0
    closed: int = 0

    def __post_init__(self) -> None:
        known = list(self.durations)
        self._durations = chain(known, repeat(known[-1]))

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
        return {name: round(share * (self.clock.now - before)) for name, share in self.phase_shares.items()}

    def close(self) -> None:
        """Counts in ``closed``."""
        self.closed += 1


@dataclass
class FakeDevice:
    """A device whose workloads take ``FakeSteps``; ``reason`` makes it unavailable.

    Attributes:
        name, reason: what it is called, and why it cannot be used; ``None``: it can.
        clock, durations: of its steps.
        synchronized, opened: how often it was waited for, and the steps of each ``open``.
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
        workload.build(options)
        asked = {name: getattr(options, name) for name in ("phase", "dtype", "seq_len", "grad_accum")}
        said = {**INFO, **asked, "name": workload.name, "batch_size": options.batch_size or 1}
        self.opened.append(FakeSteps(self.clock, self.durations, info=WorkloadInfo.model_validate(said)))
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
        name, disturbs: what it is called, and whether it wants steps of its own.
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
        return self.reason

    def start(self, device: Device, steps: Steps) -> None:
        """Raises if it is to fail here."""
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
