"""What hooks return: small records that say what a plugin offers, and where it is.

A declaration is cheap. The heavy part stays behind ``target``, a ``"package.module:attribute"``
string that is imported when it is used (``resolve``). A thin ``plugin.py`` that returns
declarations therefore imports neither torch nor pydantic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from mpsprobe.errors import PluginError
from mpsprobe.suggestions import an, printable

PHASES = ("inference", "training")
"""What of a workload can be run."""
DTYPES = ("float32", "float16", "bfloat16")
"""What parameters can be made of; all but the first are also for autocast."""
SIZES = ("real", "small")
"""Of a model: as it is, or with few layers."""
Verdict = Literal["native", "composite", "fallback", "missing", "unsupported", "unknown"]
"""What a backend does with a call; docs/explanation/verdicts.md says what each word means."""
# From what runs on the GPU to what nothing makes run: an error that a variable turns into a trip to the CPU is less
# than one that it does not.
SEVERITY: dict[Verdict, int] = {
    "composite": 0,
    "native": 0,
    "unknown": 1,
    "fallback": 2,
    "missing": 3,
    "unsupported": 4,
}
"""How bad each verdict is, for every place that sorts, counts or compares them, the best first; 0: nothing is to do."""
LEVELS = ("ok", "note", "warning", "error")
"""What a finding of ``mpsprobe doctor`` can be."""
_TYPES: Mapping[str, tuple[type, ...]] = {
    "str": (str,),
    "bool": (bool,),
    "str | None": (str, type(None)),
    "tuple[str, ...]": (tuple, list),
    "dict[str, Any] | None": (dict, type(None)),
}
_FIELDS: dict[type, list[tuple[str, str, tuple[type, ...]]]] = {}  # of each class, with the words of its annotations


class _Checked:
    """A record whose fields have the types that they say. ``dataclass`` would compile these methods for each class."""

    __slots__ = ()

    def __post_init__(self) -> None:
        record: Any = self
        kind = type(record)
        if kind not in _FIELDS:
            _FIELDS[kind] = [(field.name, str(field.type), _TYPES[str(field.type)]) for field in fields(record)]
        for name, words, types in _FIELDS[kind]:
            value = getattr(record, name)
            right = isinstance(value, types)
            if right and isinstance(value, (tuple, list)):
                right = all(isinstance(item, str) for item in value)
            if not right:
                problem = f"has {an(type(value).__name__)} as its {name}, which should be {words}"
                raise TypeError(f"{self._about()} {problem}")

    def _values(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name, _, _ in _FIELDS[type(self)])

    def __eq__(self, other: object) -> bool:
        return self._values() == other._values() if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        named = (f"{name}={getattr(self, name)!r}" for name, _, _ in _FIELDS[type(self)])
        return f"{type(self).__qualname__}({', '.join(named)})"

    def _about(self) -> str:
        name = getattr(self, "name", None)
        return f"'{printable(name)}'" if isinstance(name, str) else an(type(self).__name__)


@dataclass(slots=True, repr=False, eq=False)
class Declaration(_Checked):
    """What every declaration of a hook has; hooks return one of the classes below.

    Args:
        name: what the user types, and what reports and messages call it: lower case, digits, ``-``, ``.`` and ``_``.
        target: ``"package.module:attribute"``: an object of the kind, or a class made without arguments.
        summary: one line about it, for ``--help`` and the lists.
    """

    name: str
    target: str
    summary: str

    def __post_init__(self) -> None:
        _Checked.__post_init__(self)
        module, colon, attribute = self.target.partition(":")
        if not (module and colon and attribute):
            problem = f"has the target '{printable(self.target)}', which is not of the form 'package.module:attribute'"
            raise ValueError(f"{self._about()} {problem}")


@dataclass(slots=True, repr=False, eq=False)
class WorkloadDeclaration(Declaration):
    """Something to run. ``target`` is a callable that takes the name and returns a ``Workload``.

    Args:
        family: a heading to list it under ("text", "vision", "audio", …).
        framework: what it is written in; a scanner names those that it can read.
        phases: which of ``inference`` and ``training`` it supports.
        requires: distributions that it needs in addition to the plugin's own dependencies.
        guess: whether the name could as well be another plugin's, whose answer goes first then.
        parts: what may stand behind the name and a slash, each a workload too: ``BertModel`` of ``hf:bert``.
    """

    family: str = "other"
    framework: str = "torch"
    phases: tuple[str, ...] = PHASES
    requires: tuple[str, ...] = ()
    guess: bool = False
    parts: tuple[str, ...] = ()


@dataclass(slots=True, repr=False, eq=False)
class ScannerDeclaration(Declaration):
    """What turns a workload into a coverage report. ``target`` resolves to a ``Scanner``.

    Args:
        frameworks: those that it reads, as workloads declare theirs.
    """

    frameworks: tuple[str, ...] = ("torch",)


@dataclass(slots=True, repr=False, eq=False)
class KernelTablesDeclaration(Declaration):
    """The kernel tables of one backend. ``target`` resolves to a ``KernelTables``.

    ``name`` is the backend, as the user types it after ``--backend`` (``xpu``).

    Args:
        framework: whose backend it is; of another one than torch, ``target`` resolves to a
            ``mpsprobe_coverage.knowledge.kernels.registered.RegisteredKernels``.
    """

    framework: str = "torch"


@dataclass(slots=True, repr=False, eq=False)
class ExporterDeclaration(Declaration):
    """What turns a report into something else. ``target`` resolves to an ``Exporter``.

    ``name`` is what the user types after ``--format`` or ``--to``.

    Args:
        extension: of the file that it writes, with the dot; ``-o report.md`` finds ``markdown`` by it.
        binary: whether it renders bytes; then it never goes to a terminal.
        kinds: the kinds of report that it reads.
        folder: whether it writes files into a folder (a ``FolderExporter``); then it has no extension.
        asks: the fields of ``RunOptions`` that a report made for it has switched on.
    """

    extension: str
    binary: bool = False
    kinds: tuple[str, ...] = ("coverage", "coverage-matrix")
    folder: bool = False
    asks: tuple[str, ...] = ()


@dataclass(slots=True, repr=False, eq=False)
class DeviceDeclaration(Declaration):
    """What runs a workload (``mps``, ``cuda``, ``cpu``). ``target`` resolves to a ``Device``.

    ``name`` is what the user types after ``--device``: torch's name of it.

    Args:
        framework: of the workloads that it runs; each framework has names of its own. The device of another one than
            torch may have ``environment() -> Mapping[str, str | None]``: versions, as ``schemas.Environment`` has them.
    """

    framework: str = "torch"

    @property
    def key(self) -> str:
        """What no other device may be called: the name, after that of a framework other than torch."""
        return self.name if self.framework == "torch" else f"{self.framework}:{self.name}"


@dataclass(slots=True, repr=False, eq=False)
class ProbeDeclaration(Declaration):
    """What measures during a run. ``target`` resolves to a ``Probe``.

    ``name`` is what the user types after ``--probe``.

    Args:
        default: whether it runs without being named; one that takes long, or slows the machine down, should not.
    """

    default: bool = True


@dataclass(slots=True, repr=False, eq=False)
class RunnerDeclaration(Declaration):
    """A library's own loop around a workload's steps (``trainer``, …). ``target`` resolves to a ``Runner``.

    ``name`` is what the user types after ``--runner``.

    Args:
        phases: which of ``inference`` and ``training`` it runs.
    """

    phases: tuple[str, ...] = ("training",)


class CommandDeclaration(Declaration):
    """A command of the CLI. ``target`` resolves to a ``click.Command``.

    ``name`` is what the user types after ``mpsprobe``; ``GROUP COMMAND`` adds to a group that another plugin may have
    declared (``kernels build``).
    """

    __slots__ = ()


@dataclass(slots=True, repr=False, eq=False)
class DoctorFinding(_Checked):
    """One finding of ``mpsprobe doctor``.

    Args:
        level: ``ok``, ``note``, ``warning`` or ``error``.
        message: what was found, in a sentence.
        hint: what to do about it.
    """

    level: str
    message: str
    hint: str | None = None

    def __post_init__(self) -> None:
        _Checked.__post_init__(self)
        if self.level not in LEVELS:
            problem = f"has the level '{printable(self.level)}', which is none of {', '.join(LEVELS)}"
            raise ValueError(f"{self._about()} {problem}")


@dataclass(slots=True, repr=False, eq=False)
class KnownAnswer(_Checked):
    """What ``mpsprobe_known_answer`` returns: a report that was worked out before, or why there is none.

    Args:
        report: of the kind that was asked for, as JSON has it; ``None`` where it is not known.
        made: when it was worked out, in UTC (``2026-11-22T19:30:00Z``).
        notes: how it may differ from what a run here would say.
        reason: why it is not known, in a sentence, for the error where nothing else can answer.
    """

    report: dict[str, Any] | None = None
    made: str = ""
    notes: tuple[str, ...] = ()
    reason: str = ""


@dataclass(slots=True, repr=False, eq=False)
class SweptWorkload(_Checked):
    """A workload that was judged in a sweep, as ``mpsprobe_swept_workloads`` returns it.

    Args:
        name: as users type it.
        answered: the phases in which it has an answer; none where it failed.
    """

    name: str
    answered: tuple[str, ...] = ()


@dataclass(slots=True, repr=False, eq=False)
class OperatorRewrite(_Checked):
    """A function that gives the numbers and gradients of operators without a kernel; of ``mpsprobe_rewrites``.

    Args:
        name: of the function.
        operators: what it takes the place of, as reports write operators.
        command: what writes it into a program, or where it is: "mpsprobe fix".
    """

    name: str
    operators: tuple[str, ...]
    command: str


def resolve(target: str) -> Any:
    """Import ``"package.module:attribute"`` and return the attribute.

    Raises:
        PluginError: the string is malformed, or the module has no such attribute.
        ImportError: the module, or something that it needs, is not installed.
    """
    import importlib

    module, colon, attribute = target.partition(":")
    if not (module and colon and attribute):
        raise PluginError(f"'{target}' is not of the form 'package.module:attribute'")
    value: Any = importlib.import_module(module)
    try:
        for part in attribute.split("."):
            value = getattr(value, part)
    except AttributeError as error:
        raise PluginError(f"'{target}' does not resolve: {error}") from error
    return value
