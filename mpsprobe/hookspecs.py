"""Every hook, each in one place: when it is called, how often, what comes back, what happens to an exception.

All hooks share these rules. They are called at most once a process, the first time that their
answer is needed; they return declarations, never the heavy objects; they depend on no order among
plugins. An exception in a hook costs that plugin's answer only: it is reported on standard error with
the distribution's name, and the command goes on. A name that two plugins declare belongs to
neither: using it is an error that names both distributions.

A hook that is declared here, with its ``Answer``, is loaded, called and checked; nothing else has to know it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import pluggy

from mpsprobe import declarations as declared

if TYPE_CHECKING:
    from mpsprobe import protocols

F = TypeVar("F", bound=Callable[..., Any])
PROJECT = "mpsprobe"
hookimpl: pluggy.HookimplMarker = pluggy.HookimplMarker(PROJECT)
"""Marks a function of a plugin as the implementation of the hook that has its name."""


HOOKS: dict[str, Answer] = {}
"""What each hook answers, by its name."""
KINDS: dict[str, str] = {}
"""The hook that declares the names of each kind (``workload``, ``exporter``, …)."""


@dataclass(repr=False, eq=False)  # neither is asked for, and each takes start-up time
class Answer:
    """What a hook answers; the hook is marked with it.

    Attributes:
        of: the class of what it returns, or ``"package.module:attribute"`` of it; ``None``: that is ignored.
        several: it returns any number of them, and not one; as with each ``kind``.
        kind: what the registry calls that which it declares, of which each has a name of its own; else nothing.
        open_space: it speaks for names and objects that nobody can list: ``None`` says that they are another plugin's,
            names are as the user writes them, and an ``MpsprobeError`` is for the user.
        deprecated: of a hook that still works and should no longer be written, the words of a warning: "since
            mpsprobe 0.2, gone from 0.4 on; use mpsprobe_workloads". Not gone before the next minor version.
    """

    of: type[Any] | str | None
    several: bool = False
    kind: str = ""
    open_space: bool = False
    deprecated: str = ""

    def __call__(self, hook: F) -> F:
        HOOKS[hook.__name__] = self
        if self.kind:
            self.several = True
            KINDS[self.kind] = hook.__name__
        return pluggy.HookspecMarker(PROJECT)(hook)


@Answer(declared.WorkloadDeclaration, kind="workload")
def mpsprobe_workloads() -> Iterable[declared.WorkloadDeclaration]:
    """Named workloads. Called when a workload is looked up or listed."""


@Answer(declared.WorkloadDeclaration, open_space=True)
def mpsprobe_resolve_workload(name: str) -> declared.WorkloadDeclaration | None:
    """A workload for a name of an open name space (a Hub id, a folder, ``file.py:function``).

    Called once for each name that no plugin declared, with the name as the user typed it. Return
    ``None`` for a name that is not yours; raise ``WorkloadError`` for one that is yours and wrong:
    that error reaches the user. The first answer wins only if it is the only one; those that are a
    ``guess`` count where no other is there.
    """


@Answer(declared.WorkloadDeclaration, several=True, open_space=True)
def mpsprobe_workload_space(space: str) -> Iterable[declared.WorkloadDeclaration] | None:
    """Every name of an open name space that begins with ``space:`` (``hf``, ``timm``), as far as they can be listed.

    Called for ``workloads list --SPACE`` and for patterns such as ``hf:*bert*``. Return ``None`` for a space that is
    not yours; raise ``MissingPackage`` for one that takes a package which is not installed. It may import that package.
    """


@Answer("mpsprobe.protocols:Workload", open_space=True)
def mpsprobe_workload_of(model: object, inputs: object) -> protocols.Workload | None:
    """What runs an object that a program hands over: a model of some framework, a function, a pipeline.

    Called once for each ``mpsprobe.coverage(model, inputs)`` and its like; ``inputs`` is ``None`` where there are none.
    Return ``None`` for an object that is not yours, a ``Workload`` and no declaration for one that is; raise
    ``UsageError`` where it cannot be run so. One with an attribute ``model``, a ``torch.nn.Module``, may run that very
    object: it is put back as it was. The first answer wins only if it is the only one.
    """


@Answer(declared.ScannerDeclaration, kind="scanner")
def mpsprobe_scanners() -> Iterable[declared.ScannerDeclaration]:
    """Scanners. Called when a coverage report is planned."""


@Answer(declared.KernelTablesDeclaration, kind="backend")
def mpsprobe_kernel_tables() -> Iterable[declared.KernelTablesDeclaration]:
    """Kernel tables of backends. Called when a backend is chosen (``coverage --backend``) or listed."""


@Answer(declared.ExporterDeclaration, kind="exporter")
def mpsprobe_exporters() -> Iterable[declared.ExporterDeclaration]:
    """Exporters. Called when an output format is chosen or listed."""


@Answer(declared.DeviceDeclaration, kind="device")
def mpsprobe_devices() -> Iterable[declared.DeviceDeclaration]:
    """Devices. Called when a device is chosen or listed."""


@Answer(declared.ProbeDeclaration, kind="probe")
def mpsprobe_probes() -> Iterable[declared.ProbeDeclaration]:
    """Probes. Called when a profile is planned or probes are listed."""


@Answer(declared.RunnerDeclaration, kind="runner")
def mpsprobe_runners() -> Iterable[declared.RunnerDeclaration]:
    """Libraries' own training loops. Called when a profile is asked for with ``--runner``."""


@Answer(declared.CommandDeclaration, kind="command")
def mpsprobe_commands() -> Iterable[declared.CommandDeclaration]:
    """Commands of the CLI. Called at start-up, for ``--help`` and for any command that core lacks."""


@Answer(declared.DoctorFinding, several=True)
def mpsprobe_doctor(environment: Mapping[str, Any]) -> Iterable[declared.DoctorFinding]:
    """Findings for ``mpsprobe doctor``, about ``environment`` (the fields of ``schemas.Environment``)."""


@Answer(declared.DoctorFinding, several=True, open_space=True)
def mpsprobe_project(path: str, mac: Mapping[str, str]) -> Iterable[declared.DoctorFinding]:
    """Findings for ``mpsprobe doctor PATH``, about the project at ``path``, of which nothing has to be installed.

    ``mac`` has those of ``macos``, ``torch`` and ``chip`` that ``--for`` names.
    """


@Answer(declared.KnownAnswer)
def mpsprobe_known_answer(question: Mapping[str, Any], wanted: str) -> declared.KnownAnswer | None:
    """The answer to a question about a workload, where it was worked out before. Called before torch is imported.

    ``question`` has ``command`` (``coverage``, ``fit``), ``workload``, and ``options``: the flags that the answer
    depends on and that are not as usual. ``wanted`` is ``same`` for an answer that a run here would give as well, and
    ``any`` where the user asks for one of other versions, or nothing else can answer. Return ``None`` for what you know
    nothing about.
    """


@Answer(declared.SweptWorkload, several=True)
def mpsprobe_swept_workloads() -> Iterable[declared.SweptWorkload]:
    """The workloads that were judged before, in a sweep of many. Called for ``workloads list``."""


@Answer(declared.OperatorRewrite, several=True)
def mpsprobe_rewrites() -> Iterable[declared.OperatorRewrite]:
    """What calls of operators without a kernel can be replaced by. Called for what to do about a finding, and for
    ``atlas rank``.
    """


@Answer(None)
def mpsprobe_before_run(workload: str, phase: str) -> None:
    """Called before a workload is built, with its name and phase; not for a known answer. Its answer is ignored."""


@Answer(None)
def mpsprobe_after_run(workload: str, phase: str, report: Mapping[str, Any]) -> None:
    """Called after a run with the finished report as plain data; a known answer is none. What it returns is ignored."""
