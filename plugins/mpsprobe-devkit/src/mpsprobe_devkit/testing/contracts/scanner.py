"""What a scanner has to keep to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar

from mpsprobe.errors import MpsprobeError
from mpsprobe.protocols import RunOptions, Scanner, Workload
from mpsprobe.schemas import CoverageReport
from mpsprobe.schemas.record import Record
from mpsprobe.schemas.report import parse_report
from mpsprobe.suggestions import an
from mpsprobe_devkit.testing.contracts.clauses import (
    Broken,
    Contract,
    clause,
    doing,
    listed,
    want,
    want_all,
    want_no_traces,
)
from mpsprobe_devkit.testing.contracts.device import CannotBeBuilt, Unbuildable
from mpsprobe_devkit.testing.fakes import FakeProgress, TinyWorkload

UNKNOWN_RELEASE = "0.0.0-no-such-release"


class ScannerContract(Contract):
    """The clauses.

    Attributes:
        workloads: something to scan by framework, in addition to the tiny model for ``torch``.
        releases: those that it is asked for.
    """

    kind: ClassVar[str] = "scanner"
    workloads: Mapping[str, Workload]
    releases: Sequence[str]

    def each(self) -> Iterator[Workload]:
        """What is scanned of each framework."""
        for framework in self.declaration.frameworks:
            missing = f"give a workload of {listed([framework])}: scanner_contract(…, workloads={{…}})"
            want(framework in self.workloads or framework == "torch", missing)
            yield self.workloads[framework] if framework in self.workloads else TinyWorkload()

    def scan(self, workload: Any, *releases: str, progress: FakeProgress | None = None, **options: Any) -> Any:
        """What a new scanner says about ``workload``."""
        asked = releases or tuple(self.releases)
        with doing(f"scanning '{workload.name}' ({workload.framework})"):
            return self.made().scan(workload, RunOptions(**options), asked, progress or FakeProgress())

    @clause(rested_on=True)
    def is_what_it_declares(self) -> None:
        """The target is a scanner, or a class of them, for one framework at least."""
        want_all(self.made(), Scanner, self.declaration.name, "scan")
        frameworks = self.declaration.frameworks
        named = not isinstance(frameworks, str) and frameworks and all(frameworks)
        want(named, f"its frameworks are {frameworks!r}")
        list(self.each())

    @clause(rested_on=True)
    def makes_a_report(self) -> None:
        """For each framework and phase it gives a report that names the workload and reads back from JSON."""
        for workload, phase in [(one, phase) for one in self.each() for phase in ("inference", "training")]:
            report = self.scan(workload, phase=phase)
            want(isinstance(report, Record), f"scan() gives {an(type(report).__name__)}, not a report")
            with doing("reading its report back from JSON"):
                same = parse_report(report.model_dump_json())
            want(same == report, "its report is not the same when it is read back from JSON")
            info = getattr(report, "workload", None)
            if info is not None:
                want(info.name == workload.name, f"its report names {info.name!r} and not {workload.name!r}")
                want(info.phase == phase, f"its report says {info.phase!r}, and it was asked for {phase}")
            for one in report.operators if isinstance(report, CoverageReport) else ():
                phases = sum(one.phases.values())
                want(phases == one.calls, f"{listed([one.operator])} has {one.calls} calls, its phases {phases}")
            if isinstance(report, CoverageReport):
                counted, calls = report.summary.calls, sum(one.calls for one in report.operators)
                want(counted == calls, f"its summary counts {counted} calls, its operators {calls}")

    @clause()
    def is_the_same_twice(self) -> None:
        """The same workload gives the same report."""
        for first, second in zip(map(self.scan, self.each()), map(self.scan, self.each()), strict=True):
            changed = [name for name, value in Record.__iter__(first) if getattr(second, name, None) != value]
            want(first == second, f"scanned twice, a workload has another {listed(changed)}")

    @clause()
    def ends_its_progress(self) -> None:
        """Progress that it starts it stops, after an error too, and it advances nothing that is not started."""
        for sound in self.each():
            for workload in (sound, CannotBeBuilt(framework=sound.framework)):
                progress, started = FakeProgress(), False
                with suppress(*([] if workload is sound else [Broken])):
                    self.scan(workload, *self.releases, *self.releases, progress=progress)
                for name, *_ in progress.steps:
                    want(started or name != "advance", "it advances a progress that it has not started")
                    started = name != "stop" and (started or name == "start")
                want(not started, f"scanning '{workload.name}', it starts a progress and does not stop it")

    @clause()
    def says_what_release_it_does_not_know(self) -> None:
        """A release that it does not know is refused with a ``UsageError`` that names it, and so is none at all."""
        for releases in ((UNKNOWN_RELEASE,), ()):
            asked = f"asked for the releases {listed(releases)}"
            try:
                with doing(f"{asked}, it"):
                    self.made().scan(next(self.each()), RunOptions(), releases, FakeProgress())
            except Broken as broken:
                if not isinstance(broken.__cause__, MpsprobeError):
                    raise
                want(all(one in str(broken.__cause__) for one in releases), f"{asked}, it refuses without naming it")
            else:
                raise Broken(f"{asked}, it gives a report")

    @clause()
    def passes_errors_on(self) -> None:
        """What a workload says when it cannot be built arrives as it is."""
        for workload in self.each():
            try:
                self.scan(CannotBeBuilt(framework=workload.framework))
            except Broken as broken:
                problem = f"a workload's own error does not come out: {broken}"
                want(isinstance(broken.__cause__, Unbuildable), problem)
            else:
                raise Broken("it gives a report on a workload that could not be built")

    @clause(when=lambda contract: "torch" in contract.declaration.frameworks)
    def reports_a_model_that_raises(self) -> None:
        """A model that raises while it runs is not an error: the report has what was called before, and ``failure``."""
        report = self.scan(TinyWorkload(raises=ValueError("it broke")))
        if isinstance(report, CoverageReport):
            says = report.failure is not None and "it broke" in report.failure.message
            want(says, "the report on a model that raises has no failure that says what the model said")

    @clause()
    def leaves_the_process_alone(self) -> None:
        """Scanning leaves no thread, changes nothing of the process, and prints nothing."""
        want_no_traces("scanning", lambda: [self.scan(workload) for workload in self.each()])
