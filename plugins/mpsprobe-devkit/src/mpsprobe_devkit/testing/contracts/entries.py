"""What tests call: one function for each kind of contract, and one that runs the clauses without pytest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from mpsprobe.declarations import (
    PHASES,
    DeviceDeclaration,
    ExporterDeclaration,
    ProbeDeclaration,
    RunnerDeclaration,
    ScannerDeclaration,
    WorkloadDeclaration,
)
from mpsprobe.protocols import Device, Workload
from mpsprobe.schemas import Report
from mpsprobe.suggestions import an
from mpsprobe_devkit.testing.contracts.clauses import BrokenClause, Contract
from mpsprobe_devkit.testing.contracts.device import DEVICE, DeviceSubject
from mpsprobe_devkit.testing.contracts.exporter import EXPORTER, ExporterSubject
from mpsprobe_devkit.testing.contracts.probe import PROBE, ProbeSubject
from mpsprobe_devkit.testing.contracts.runner import RUNNER, RunnerSubject
from mpsprobe_devkit.testing.contracts.scanner import SCANNER, ScannerSubject
from mpsprobe_devkit.testing.contracts.subjects import Made, by_target, given, name_of, place_of, resolved
from mpsprobe_devkit.testing.contracts.workload import WORKLOAD, WorkloadSubject
from mpsprobe_devkit.testing.fakes import FakeDevice, FakeWorkload

Reasons = Mapping[str, str]
UNDER_TEST = "under test"


def exporter_contract(
    exporter: object,
    *,
    extension: str | None = None,
    binary: bool | None = None,
    kinds: Iterable[str] | None = None,
    folder: bool | None = None,
    reports: Iterable[Report] = (),
    without: Reasons | None = None,
) -> type:
    """A class of tests, one for each clause of the contract for exporters.

    Args:
        exporter: its ``ExporterDeclaration``; or the class (made without arguments) or an object, whose declaration is
            then the next four arguments. Only what has a declaration is tried in a process of its own as well.
        extension, binary, kinds, folder: as ``ExporterDeclaration`` has them.
        reports: reports in addition to the samples of mpsprobe: those of your own kinds.
        without: clauses to leave out, each with the reason why.

    Raises:
        TypeError: a declaration, and in addition what it declares.
        ValueError: ``without`` names a clause that there is not.
    """
    if isinstance(exporter, ExporterDeclaration):
        if (extension, binary, kinds, folder) != (None, None, None, None):
            raise TypeError("the declaration says the extension, binary, kinds and folder; give them there")
        declaration, made = exporter, by_target(exporter.target)
    else:
        writes_folder = folder if folder is not None else hasattr(exporter, "files") and not hasattr(exporter, "render")
        usual = "" if writes_folder else ".txt"
        declaration = ExporterDeclaration(
            name_of(exporter),
            place_of(exporter),
            UNDER_TEST,
            extension if extension is not None else usual,
            binary=bool(binary),
            folder=writes_folder,
            **({} if kinds is None else {"kinds": tuple(kinds)}),
        )
        made = given(exporter)
    return EXPORTER.suite(ExporterSubject(declaration, made, tuple(reports)), declaration.name, without)


def workload_contract(
    workload: object,
    *,
    name: str | None = None,
    phases: Iterable[str] = PHASES,
    without: Reasons | None = None,
) -> type:
    """A class of tests, one for each clause of the contract for workloads.

    Args:
        workload: its ``WorkloadDeclaration``; or an object; or what makes one, a class or a function.
        name: what a class or a function is called with, as mpsprobe does it; without arguments if there is no name.
        phases: of an object or what makes one: those that it supports.
        without: clauses to leave out, each with the reason why.

    Raises:
        TypeError: a declaration, and in addition a name.
        ValueError: ``without`` names a clause that there is not.
    """
    subject = _workload_subject(workload, name, tuple(phases))
    return WORKLOAD.suite(subject, subject.declaration.name, without)


def _workload_subject(workload: Any, name: str | None, phases: tuple[str, ...]) -> WorkloadSubject:
    if isinstance(workload, WorkloadDeclaration):
        if name is not None:
            raise TypeError("the declaration says the name; give it there")
        return WorkloadSubject(workload, lambda asked: resolved(workload.target)(asked))
    if isinstance(workload, type) or not hasattr(workload, "build"):
        make: Callable[[str], Any] = workload if name is not None else lambda _asked: workload()
        made = make(name or "")
    else:
        make, made = (lambda _asked: workload), workload
    framework = getattr(made, "framework", "torch")
    declaration = WorkloadDeclaration(
        name or name_of(made), place_of(workload), UNDER_TEST, framework=framework, phases=phases
    )
    return WorkloadSubject(declaration, make, takes_names=name is not None)


def probe_contract(
    probe: object,
    *,
    device: Callable[[], Device] | None = None,
    workload: Workload | None = None,
    without: Reasons | None = None,
) -> type:
    """A class of tests, one for each clause of the contract for probes.

    Args:
        probe: its ``ProbeDeclaration``; or the class (made without arguments) or an object.
        device: makes the device to measure on: give one where the probe can measure. Without it there is a fake, on
            which a probe that says that it cannot measure there, or found nothing, is not tried any further.
        workload: what runs on that device; by default one that computes nothing.
        without: clauses to leave out, each with the reason why.

    Raises:
        ValueError: ``without`` names a clause that there is not.
    """
    declaration, made = _declared(probe, ProbeDeclaration)
    subject = ProbeSubject(declaration, made, device or FakeDevice, workload or FakeWorkload(), device is not None)
    return PROBE.suite(subject, declaration.name, without)


def device_contract(device: object, *, workload: Workload | None = None, without: Reasons | None = None) -> type:
    """A class of tests, one for each clause of the contract for devices.

    Args:
        device: its ``DeviceDeclaration``; or the class (made without arguments) or an object.
        workload: what it is asked to run: by default a model of two layers, which needs torch.
        without: clauses to leave out, each with the reason why.

    Raises:
        ValueError: ``without`` names a clause that there is not.
    """
    declaration, made = _declared(device, DeviceDeclaration)
    return DEVICE.suite(DeviceSubject(declaration, made, workload or _tiny()), declaration.name, without)


def runner_contract(
    runner: object,
    *,
    device: Callable[[], Device] = lambda: FakeDevice("cpu"),
    workload: Workload | None = None,
    phases: Iterable[str] = ("training",),
    without: Reasons | None = None,
) -> type:
    """A class of tests, one for each clause of the contract for runners.

    Args:
        runner: its ``RunnerDeclaration``; or the class (made without arguments) or an object.
        device: makes the device to run on.
        workload: what it is asked to run: by default a model of two layers, which needs torch.
        phases: of a class or an object: those that it runs.
        without: clauses to leave out, each with the reason why.

    Raises:
        ValueError: ``without`` names a clause that there is not.
    """
    declaration, made = _declared(runner, RunnerDeclaration, phases=tuple(phases))
    return RUNNER.suite(RunnerSubject(declaration, made, device, workload or _tiny()), declaration.name, without)


def scanner_contract(
    scanner: object,
    *,
    frameworks: Iterable[str] = ("torch",),
    workloads: Mapping[str, Workload] | None = None,
    releases: Iterable[str] = ("latest",),
    without: Reasons | None = None,
) -> type:
    """A class of tests, one for each clause of the contract for scanners.

    Args:
        scanner: its ``ScannerDeclaration``; or the class (made without arguments) or an object.
        frameworks: of a class or an object: those that it reads.
        workloads: something to scan by framework; for ``torch`` there is a model of two layers.
        releases: those that it is asked for.
        without: clauses to leave out, each with the reason why.

    Raises:
        ValueError: ``without`` names a clause that there is not.
    """
    declaration, made = _declared(scanner, ScannerDeclaration, frameworks=tuple(frameworks))
    subject = ScannerSubject(declaration, made, workloads or {}, tuple(releases))
    return SCANNER.suite(subject, declaration.name, without)


def broken_clauses(
    declaration: object, *, reports: Iterable[Report] = (), without: Reasons | None = None
) -> list[BrokenClause]:
    """Every clause of its contract that what ``declaration`` names does not keep; none for a sound one.

    Where one is broken that the others rest on (it cannot be made, renders nothing at all), these are not tried.

    Args:
        declaration: what a hook returns: of an exporter, a workload, a probe, a device, a runner or a scanner.
        reports: for an exporter: reports of kinds of its own.
        without: clauses to leave out, each with the reason why.

    Raises:
        TypeError: there is no contract for such a declaration.
        ValueError: ``without`` names a clause that there is not.
    """
    contract, subject = _under_contract(declaration, tuple(reports))
    return contract.broken(subject, without)


def _under_contract(declaration: object, reports: tuple[Report, ...]) -> tuple[Contract[Any], Any]:
    if isinstance(declaration, WorkloadDeclaration):
        return WORKLOAD, _workload_subject(declaration, None, declaration.phases)
    if isinstance(declaration, ExporterDeclaration):
        return EXPORTER, ExporterSubject(declaration, by_target(declaration.target), reports)
    if isinstance(declaration, ProbeDeclaration):
        return PROBE, ProbeSubject(declaration, by_target(declaration.target), FakeDevice, FakeWorkload(), False)
    if isinstance(declaration, DeviceDeclaration):
        return DEVICE, DeviceSubject(declaration, by_target(declaration.target), _tiny())
    if isinstance(declaration, RunnerDeclaration):
        made = by_target(declaration.target)
        return RUNNER, RunnerSubject(declaration, made, lambda: FakeDevice("cpu"), _tiny())
    if isinstance(declaration, ScannerDeclaration):
        return SCANNER, ScannerSubject(declaration, by_target(declaration.target))
    raise TypeError(f"there is no contract for {an(type(declaration).__name__)}")


def _declared(one: Any, kind: Any, **more: Any) -> tuple[Any, Made]:
    """A declaration and what makes the thing; of a class or an object, a declaration made up for it."""
    if isinstance(one, kind):
        return one, by_target(one.target)
    name = getattr(one, "name", None)
    return kind(name if isinstance(name, str) else name_of(one), place_of(one), UNDER_TEST, **more), given(one)


def _tiny() -> Workload:
    from mpsprobe_devkit.testing.tiny import TinyWorkload

    return TinyWorkload()
