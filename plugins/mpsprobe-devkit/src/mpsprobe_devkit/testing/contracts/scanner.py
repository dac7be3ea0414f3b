"""What a scanner has to keep to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from mpsprobe.errors import MpsprobeError
from mpsprobe.protocols import RunOptions, Scanner, Workload
from mpsprobe.schemas import CoverageReport
from mpsprobe.schemas.record import Record
from mpsprobe.schemas.report import parse_report
from mpsprobe.suggestions import an
from mpsprobe_devkit.testing.contracts import clauses
from mpsprobe_devkit.testing.contracts.clauses import Contract, listed, want
from mpsprobe_devkit.testing.contracts.device import CannotBeBuilt, Unbuildable
from mpsprobe_devkit.testing.fakes import FakeProgress, TinyWorkload

UNKNOWN_RELEASE = "0.0.0-no-such-release"

__tracebackhide__ = True  # under pytest: a failure shows the plugin's own code


class ScannerContract(Contract):
    """The clauses.

    Attributes:
        workloads: something to scan by framework, in addition to the tiny model for ``torch``.
        releases: those that it is asked for.
    """

    kind = "scanner"
    rested_on = ("is_what_it_declares", "makes_a_report")
    workloads: Mapping[str, Workload]
    releases: Sequence[str]

    def each(self) -> Iterator[Workload]:
        """What is scanned of each framework."""
        for framework in self.declaration.frameworks:
            missing = f"give a workload of {listed([framework])}: scanner_contract(…, workloads={{…}})"
            want(framework in self.workloads or framework == "torch", missing)
            yield self.workloads[framework] if framework in self.workloads else TinyWorkload()

    def scan(self, workload: Any, releases: Sequence[str] | None = None, progress: Any = None, **options: Any) -> Any:
        """What a new scanner says about ``workload``."""
        asked = self.releases if releases is None else releases
        return self.made().scan(workload, RunOptions(**options), asked, progress or FakeProgress())

    def test_is_what_it_declares(self) -> None:
        """The target is a scanner, or a class of them, for one framework at least."""
        clauses.want_all(self.made(), Scanner, self.declaration.name, "scan")
        frameworks = self.declaration.frameworks
        named = not isinstance(frameworks, str) and frameworks and all(frameworks)
        want(named, f"its frameworks are {frameworks!r}")
        list(self.each())

    def test_makes_a_report(self) -> None:
        """For each framework and phase it gives a report that names the workload and reads back from JSON."""
        for workload, phase in [(scanned, phase) for scanned in self.each() for phase in ("inference", "training")]:
            report = self.scan(workload, phase=phase)
            want(isinstance(report, Record), f"scan() gives {an(type(report).__name__)}, not a report")
            same = parse_report(report.model_dump_json())
            want(same == report, "its report is not the same when it is read back from JSON")
            if isinstance(report, CoverageReport):
                info, calls = report.workload, sum(operator.calls for operator in report.operators)
                about = f"its report is on {info.name!r} for {info.phase}, and it was asked for"
                right = (info.name, info.phase) == (workload.name, phase)
                want(right, f"{about} {workload.name!r} for {phase}")
                counted = report.summary.calls
                want(counted == calls, f"its summary counts {counted} calls, its operators {calls}")
                wrong = [
                    operator.operator
                    for operator in report.operators
                    if sum(operator.phases.values()) != operator.calls
                ]
                want(not wrong, f"the calls of {listed(wrong)} are not those of its phases")

    def test_is_the_same_twice(self) -> None:
        """The same workload gives the same report."""
        for first, second in zip(map(self.scan, self.each()), map(self.scan, self.each()), strict=True):
            other = [name for name, value in Record.__iter__(first) if getattr(second, name, None) != value]
            want(first == second, f"scanned twice, a workload has another {listed(other)}")

    def test_ends_its_progress(self) -> None:
        """Progress that it starts it stops, after an error too, and it advances nothing that is not started."""
        for sound in self.each():
            for workload in (sound, CannotBeBuilt(framework=sound.framework)):
                progress, started = FakeProgress(), False
                with suppress(*([] if workload is sound else [Exception])):
                    self.scan(workload, [*self.releases, *self.releases], progress)
                for name, *_ in progress.steps:
                    want(started or name != "advance", "it advances a progress that it has not started")
                    started = name != "stop" and (started or name == "start")
                want(not started, f"scanning '{workload.name}', it starts a progress and does not stop it")

    def test_says_what_release_it_does_not_know(self) -> None:
        """A release that it does not know is refused with a ``UsageError`` that names it, and so is none at all."""
        for releases in ([UNKNOWN_RELEASE], []):
            refusal = self._refusal(next(self.each()), releases)
            named = isinstance(refusal, MpsprobeError) and all(release in str(refusal) for release in releases)
            want(named, f"asked for the releases {listed(releases)}, it gives {refusal!r}")

    def test_passes_errors_on(self) -> None:
        """What a workload says when it cannot be built arrives as it is."""
        for workload in self.each():
            refusal = self._refusal(CannotBeBuilt(framework=workload.framework))
            want(isinstance(refusal, Unbuildable), f"where a workload cannot be built, it gives {refusal!r}")

    def _refusal(self, workload: Any, releases: Sequence[str] | None = None) -> Any:
        try:
            return f"a report: {type(self.scan(workload, releases)).__name__}"
        except Exception as error:  # noqa: BLE001 - what it is, is the question
            return error

    def test_reports_a_model_that_raises(self) -> None:
        """A model that raises while it runs is not an error: the report has what was called before, and ``failure``."""
        if "torch" in self.declaration.frameworks:
            failure = getattr(self.scan(TinyWorkload(raises=ValueError("it broke"))), "failure", None)
            says = failure is not None and "it broke" in failure.message
            want(says, "the report on a model that raises has no failure that says what the model said")

    def test_leaves_the_process_alone(self) -> None:
        """Scanning leaves no thread, changes nothing of the process, and prints nothing."""
        clauses.want_no_traces("scanning", lambda: [self.scan(workload) for workload in self.each()])
