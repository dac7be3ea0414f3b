"""What a scanner has to keep to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from mpsprobe.declarations import ScannerDeclaration
from mpsprobe.errors import MpsprobeError
from mpsprobe.protocols import RunOptions, Scanner, Workload
from mpsprobe.schemas import CoverageReport
from mpsprobe.schemas.record import Record
from mpsprobe.schemas.report import parse_report
from mpsprobe.suggestions import an
from mpsprobe_devkit.testing.contracts.clauses import Broken, Contract, described, doing, listed
from mpsprobe_devkit.testing.contracts.device import Unbuildable
from mpsprobe_devkit.testing.contracts.leaving import refuse_traces
from mpsprobe_devkit.testing.contracts.subjects import Made, refuse_unless
from mpsprobe_devkit.testing.fakes import FakeProgress
from mpsprobe_devkit.testing.tiny import TinyWorkload

UNKNOWN_RELEASE = "0.0.0-no-such-release"


@dataclass
class ScannerSubject:
    """A scanner under test.

    Attributes:
        declaration: what it declares.
        made: makes it, or gives the one that there is.
        workloads: something to scan by framework, in addition to the tiny model for ``torch``.
        releases: those that it is asked for.
    """

    declaration: ScannerDeclaration
    made: Made
    workloads: Mapping[str, Workload] = field(default_factory=dict)
    releases: Sequence[str] = ("latest",)

    def workload(self, framework: str) -> Workload:
        """What is scanned of a framework.

        Raises:
            Broken: nothing was given for it.
        """
        if framework in self.workloads:
            return self.workloads[framework]
        if framework != "torch":
            raise Broken(f"give a workload of {listed([framework])}: scanner_contract(…, workloads={{…}})")
        return TinyWorkload()

    def scan(self, workload: Workload, progress: FakeProgress | None = None, *releases: str, **options: Any) -> Any:
        """What a new scanner says about ``workload``."""
        asked = releases or tuple(self.releases)
        return self.made().scan(workload, RunOptions(**options), asked, progress or FakeProgress())


SCANNER: Contract[ScannerSubject] = Contract("scanner")


def _torch(subject: ScannerSubject) -> bool:
    return "torch" in subject.declaration.frameworks


@SCANNER.clause(rested_on=True)
def is_what_it_declares(subject: ScannerSubject) -> None:
    """The target is a scanner, or a class of them, for one framework at least."""
    scanner = subject.made()
    refuse_unless(isinstance(scanner, Scanner), f"it is {an(type(scanner).__name__)}, which has no method scan")
    frameworks: Any = subject.declaration.frameworks
    named = not isinstance(frameworks, str) and bool(frameworks) and all(frameworks)
    refuse_unless(named, f"its frameworks are {frameworks!r}")
    for framework in frameworks:
        subject.workload(framework)


@SCANNER.clause(rested_on=True)
def makes_a_report(subject: ScannerSubject) -> None:
    """For each framework and phase it gives a report that names the workload and is the same when read from JSON."""
    for framework in subject.declaration.frameworks:
        for phase in ("inference", "training"):
            workload = subject.workload(framework)
            with doing(f"scanning '{workload.name}' ({framework}) for {phase}"):
                report = subject.scan(workload, phase=phase)
            refuse_unless(isinstance(report, Record), f"scan() gives {an(type(report).__name__)}, not a report")
            with doing("reading its report back from JSON"):
                same = parse_report(report.model_dump_json())
            refuse_unless(same == report, "its report is not the same when it is read back from JSON")
            info = getattr(report, "workload", None)
            if info is not None:
                refuse_unless(info.name == workload.name, f"its report names {info.name!r} and not {workload.name!r}")
                refuse_unless(info.phase == phase, f"its report says {info.phase!r}, and it was asked for {phase}")
            if isinstance(report, CoverageReport):
                _refuse_counts(report)


def _refuse_counts(report: CoverageReport) -> None:
    """Figures that a reader would add up."""
    calls = sum(one.calls for one in report.operators)
    refuse_unless(
        report.summary.calls == calls, f"its summary counts {report.summary.calls} calls, its operators {calls}"
    )
    for one in report.operators:
        phases = sum(one.phases.values())
        refuse_unless(phases == one.calls, f"{listed([one.operator])} has {one.calls} calls, its phases {phases}")


@SCANNER.clause()
def is_the_same_twice(subject: ScannerSubject) -> None:
    """The same workload gives the same report."""
    for framework in subject.declaration.frameworks:
        with doing(f"scanning a workload of {framework} twice"):
            first, second = (subject.scan(subject.workload(framework)) for _ in range(2))
        changed = [name for name, value in Record.__iter__(first) if getattr(second, name, None) != value]
        refuse_unless(first == second, f"scanned twice, a workload has another {listed(changed)}")


@SCANNER.clause()
def ends_its_progress(subject: ScannerSubject) -> None:
    """Progress that it starts it stops, after an error too, and it advances nothing that is not started."""
    for framework in subject.declaration.frameworks:
        progress = FakeProgress()
        with doing(f"scanning a workload of {framework}"):
            subject.scan(subject.workload(framework), progress)
        _refuse_open(progress, "scanning")
        several = [*subject.releases, *subject.releases]
        progress = FakeProgress()
        with doing(f"scanning a workload of {framework} for several releases"):
            subject.scan(subject.workload(framework), progress, *several)
        _refuse_open(progress, "scanning for several releases")
        progress = FakeProgress()
        try:
            subject.scan(_CannotBeBuilt(framework=framework), progress, *several)
        except Exception:  # noqa: BLE001 - another clause says which one it may be
            _refuse_open(progress, "scanning what cannot be built")


def _refuse_open(progress: FakeProgress, what: str) -> None:
    started = False
    for name, *_ in progress.steps:
        refuse_unless(started or name != "advance", f"{what}, it advances a progress that it has not started")
        started = name != "stop" and (started or name == "start")
    refuse_unless(not started, f"{what}, it starts a progress and does not stop it")


@SCANNER.clause()
def says_what_release_it_does_not_know(subject: ScannerSubject) -> None:
    """A release that it does not know is refused with a ``UsageError`` that names it, and so is none at all."""
    framework = subject.declaration.frameworks[0]
    for releases in ((UNKNOWN_RELEASE,), ()):
        try:
            subject.made().scan(subject.workload(framework), RunOptions(), releases, FakeProgress())
        except MpsprobeError as error:
            named = not releases or UNKNOWN_RELEASE in str(error)
            refuse_unless(named, f"its refusal of the release {UNKNOWN_RELEASE} does not name it: {error.message}")
            continue
        except Exception as error:
            what = f"the release {releases[0]}" if releases else "no release"
            raise Broken(f"asked for {what} it raised {described(error)}, instead of a UsageError") from error
        refuse_unless(not releases, f"asked for the release {UNKNOWN_RELEASE} it gives a report")
        raise Broken("asked for no release at all it gives a report")


@SCANNER.clause()
def passes_errors_on(subject: ScannerSubject) -> None:
    """What a workload says when it cannot be built arrives as it is."""
    for framework in subject.declaration.frameworks:
        try:
            subject.scan(_CannotBeBuilt(framework=framework))
        except Unbuildable:
            continue
        except Exception as error:
            raise Broken(f"a workload's own error comes out of scan() as {described(error)}") from error
        raise Broken("it gives a report on a workload that could not be built")


@SCANNER.clause(when=_torch)
def reports_a_model_that_raises(subject: ScannerSubject) -> None:
    """A model that raises while it runs is not an error: the report has what was called before, and ``failure``."""
    with doing("scanning a model that raises in its forward pass"):
        report = subject.scan(TinyWorkload(raises=ValueError("it broke")))
    if isinstance(report, CoverageReport):
        failure = report.failure
        refuse_unless(failure is not None, "the report on a model that raises has no failure")
        says = failure is not None and "it broke" in failure.message
        refuse_unless(says, "the failure in the report on a model that raises does not say what the model said")


@SCANNER.clause()
def leaves_the_process_alone(subject: ScannerSubject) -> None:
    """Scanning leaves no thread, changes neither torch's defaults nor anything else of the process, prints nothing."""
    for framework in subject.declaration.frameworks:
        scan = partial(subject.scan, subject.workload(framework))
        refuse_traces(f"scanning a workload of {framework}", scan, random_numbers=False)


@dataclass
class _CannotBeBuilt(TinyWorkload):
    name: str = "cannot-be-built"

    def build(self, options: RunOptions) -> Any:
        """Raises."""
        del options
        raise Unbuildable("it cannot be built today", "Ask again tomorrow.")
