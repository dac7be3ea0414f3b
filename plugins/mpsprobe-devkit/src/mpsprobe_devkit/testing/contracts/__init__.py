"""Contracts: what a plugin's classes have to keep to, as clauses that a stranger runs on its own with one line.

In a test file, for pytest (``TestBadge`` is then a class with one test for each clause)::

    TestBadge = exporter_contract(BADGE)

without pytest, as ``mpsprobe plugins check`` does::

    for broken in broken_clauses(BADGE):
        print(broken.clause, broken.problem)

``BADGE`` is the declaration that the plugin's hook returns. The class behind it (made without arguments) or an object
will do as well; some of the further arguments then say what a declaration would. ``without`` names clauses to leave
out, each with the reason why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, cast

from mpsprobe import declarations as declared
from mpsprobe.declarations import PHASES
from mpsprobe.protocols import Device, Workload
from mpsprobe.schemas import Report
from mpsprobe.suggestions import an
from mpsprobe_devkit.testing.contracts.clauses import Broken, BrokenClause, Contract, made_by
from mpsprobe_devkit.testing.contracts.device import DeviceContract, RunnerContract
from mpsprobe_devkit.testing.contracts.exporter import ExporterContract
from mpsprobe_devkit.testing.contracts.probe import ProbeContract
from mpsprobe_devkit.testing.contracts.scanner import ScannerContract
from mpsprobe_devkit.testing.contracts.workload import WorkloadContract
from mpsprobe_devkit.testing.fakes import FakeDevice, FakeWorkload, TinyWorkload

__all__ = [
    "Broken", "BrokenClause", "broken_clauses", "device_contract", "exporter_contract", "probe_contract",
    "runner_contract", "scanner_contract", "workload_contract",
]  # fmt: skip

Reasons = Mapping[str, str]


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
    """A class of tests for an exporter, one for each clause.

    Args:
        extension, binary, kinds, folder: of a class or an object, as ``ExporterDeclaration`` has them.
        reports: reports in addition to the samples of mpsprobe: those of your own kinds.

    Raises:
        TypeError: a declaration, and in addition what it declares.
        ValueError: ``without`` names a clause that there is not.
    """
    kinds = None if kinds is None else tuple(kinds)
    said = {"extension": extension, "binary": binary, "kinds": kinds, "folder": folder}
    fields = {name: value for name, value in said.items() if value is not None}
    if isinstance(exporter, declared.ExporterDeclaration) and fields:
        raise TypeError("the declaration says the extension, binary, kinds and folder; give them there")
    writes_folder = fields.setdefault("folder", hasattr(exporter, "files") and not hasattr(exporter, "render"))
    fields.setdefault("extension", "" if writes_folder else ".txt")
    return _suite(ExporterContract, declared.ExporterDeclaration, exporter, fields, without, reports=tuple(reports))


def workload_contract(
    workload: object, *, name: str | None = None, phases: Iterable[str] = PHASES, without: Reasons | None = None
) -> type:
    """A class of tests for a workload, or for what makes one, a class or a function.

    Args:
        name: what a class or a function is called with, as mpsprobe does it; without arguments if there is no name.
        phases: of what has no declaration: those that it supports.
    """
    given: Any = workload
    makes = isinstance(given, type) or not hasattr(given, "build")
    if isinstance(given, declared.WorkloadDeclaration):
        declaration, factory = given, cast("Any", partial(made_by, given.target))
    else:
        factory = given if name is not None else None
        made = given(*[name] * (name is not None)) if makes else given
        fields: dict[str, Any] = {"framework": getattr(made, "framework", "torch"), "phases": tuple(phases)}
        declaration = declared.WorkloadDeclaration(name or _name_of(made), "under:test", "under test", **fields)
    anew = given if makes else lambda: given
    make = anew if factory is None else partial(factory, declaration.name)
    return WorkloadContract.of(declaration, without, made=make, factory=factory)


def probe_contract(
    probe: object,
    *,
    device: Callable[[], Device] | None = None,
    workload: Workload | None = None,
    without: Reasons | None = None,
) -> type:
    """A class of tests for a probe.

    Args:
        device: makes the device to measure on: give one where the probe can measure. Without it there is a fake, on
            which a probe that says that it cannot measure there, or found nothing, is not tried any further.
        workload: what runs on that device; by default one that computes nothing.
    """
    more = {"device": device or FakeDevice, "workload": workload or FakeWorkload(), "strict": device is not None}
    return _suite(ProbeContract, declared.ProbeDeclaration, probe, {}, without, **more)


def device_contract(device: object, *, workload: Workload | None = None, without: Reasons | None = None) -> type:
    """A class of tests for a device; ``workload`` is what it runs, by default a model of two layers in torch."""
    return _suite(DeviceContract, declared.DeviceDeclaration, device, {}, without, workload=workload or TinyWorkload())


def runner_contract(
    runner: object,
    *,
    device: Callable[[], Device] = lambda: FakeDevice("cpu"),
    workload: Workload | None = None,
    phases: Iterable[str] = ("training",),
    without: Reasons | None = None,
) -> type:
    """A class of tests for a runner of ``phases``; ``device`` makes what it runs on, ``workload`` is what it runs."""
    more = {"device": device, "workload": workload or TinyWorkload()}
    return _suite(RunnerContract, declared.RunnerDeclaration, runner, {"phases": tuple(phases)}, without, **more)


def scanner_contract(
    scanner: object,
    *,
    frameworks: Iterable[str] = ("torch",),
    workloads: Mapping[str, Workload] | None = None,
    releases: Iterable[str] = ("latest",),
    without: Reasons | None = None,
) -> type:
    """A class of tests for a scanner of ``frameworks``.

    Args:
        workloads: something to scan by framework; for ``torch`` there is a model of two layers.
        releases: those that it is asked for.
    """
    fields, more = {"frameworks": tuple(frameworks)}, {"workloads": workloads or {}, "releases": tuple(releases)}
    return _suite(ScannerContract, declared.ScannerDeclaration, scanner, fields, without, **more)


def broken_clauses(
    declaration: object, *, reports: Iterable[Report] = (), without: Reasons | None = None
) -> list[BrokenClause]:
    """Every clause of its contract that what ``declaration`` names does not keep; none for a sound one.

    Where one is broken that the others rest on (it cannot be made, renders nothing at all), these are not tried.

    Args:
        declaration: what a hook returns: of an exporter, a workload, a probe, a device, a runner or a scanner.
        reports: for an exporter: reports of kinds of its own.

    Raises:
        TypeError: there is no contract for such a declaration.
    """
    contract: Any = CONTRACTS.get(type(declaration))
    if contract is None:
        raise TypeError(f"there is no contract for {an(type(declaration).__name__)}")
    more = {"reports": reports} if contract is exporter_contract else {}
    broken: list[BrokenClause] = contract(declaration, without=without, **more).broken()
    return broken


CONTRACTS: Mapping[Any, Callable[..., type]] = {
    declared.ExporterDeclaration: exporter_contract,
    declared.WorkloadDeclaration: workload_contract,
    declared.ProbeDeclaration: probe_contract,
    declared.DeviceDeclaration: device_contract,
    declared.RunnerDeclaration: runner_contract,
    declared.ScannerDeclaration: scanner_contract,
}
"""Makes a class of tests for each kind of declaration."""


def _suite(
    contract: type[Contract], kind: Any, suite: Any, fields: Mapping[str, Any], without: Reasons | None, **more: Any
) -> type:
    """The contract of a declaration, or of a class or an object, for which one with ``fields`` is made up."""
    if isinstance(suite, kind):
        return contract.of(suite, without, made=partial(made_by, suite.target), **more)
    declaration = kind(_name_of(suite), "under:test", "under test", **fields)
    return contract.of(declaration, without, made=suite if isinstance(suite, type) else lambda: suite, **more)


def _name_of(declaration: Any) -> str:
    """What to call a class or an object that has no declaration."""
    name = getattr(declaration, "name", None)
    return name if isinstance(name, str) else str(getattr(declaration, "__name__", type(declaration).__name__))
