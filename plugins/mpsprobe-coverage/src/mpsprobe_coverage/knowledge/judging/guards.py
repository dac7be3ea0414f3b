"""A guard: a message in libtorch_cpu.dylib, the operators whose kernels raise with it, and which calls they refuse."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
from packaging.version import Version

from mpsprobe_coverage.knowledge.calls.call import Call
from mpsprobe_coverage.knowledge.judging.judgement import Judgement, Rule, refused
from mpsprobe_coverage.knowledge.kernels.markers import MARKER_STRINGS
from mpsprobe_coverage.knowledge.kernels.mps import load_table
from mpsprobe_coverage.knowledge.kernels.releases import since_without_gap, torch_releases
from mpsprobe_coverage.knowledge.kernels.table import KernelTable

COMPLEX = frozenset({torch.complex32, torch.complex64, torch.complex128})
FLOATING = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})
INTEGRAL = frozenset(
    {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32, torch.uint64}
)
BOOL = frozenset({torch.bool})
LONG = frozenset({torch.int64})
DTYPES = COMPLEX | FLOATING | INTEGRAL | BOOL
"""What is meant by "every dtype"; MPS has neither quantised types nor, before 2.15, 8-bit floating-point ones."""


@dataclass(frozen=True, slots=True)
class Argument:
    """The dtype of one tensor argument, or of the tensors in a list, is one of ``dtypes``."""

    name: str
    dtypes: frozenset[torch.dtype]

    def __call__(self, call: Call) -> bool:
        value = call.argument(self.name)
        values = value if isinstance(value, (list, tuple)) else (value,)
        return any(isinstance(tensor, torch.Tensor) and tensor.dtype in self.dtypes for tensor in values)


@dataclass(frozen=True, slots=True)
class Result:
    """The dtype of the first result is one of ``dtypes``: for kernels by element, the dtype they compute in."""

    dtypes: frozenset[torch.dtype]

    def __call__(self, call: Call) -> bool:
        return bool(call.outputs) and call.outputs[0].dtype in self.dtypes


@dataclass(frozen=True, slots=True)
class Value:
    """The argument ``name`` is ``value``, whatever the dtypes."""

    name: str
    value: bool | int | str
    dtypes: None = None

    def __call__(self, call: Call) -> bool:
        return bool(call.argument(self.name) == self.value)


@dataclass(frozen=True, slots=True)
class Shape:
    """Something about sizes or arguments that holds for any dtype."""

    refuses: Callable[[Call], bool]
    dtypes: None = None

    def __call__(self, call: Call) -> bool:
        return self.refuses(call)


@dataclass(frozen=True, slots=True)
class Both:
    """A dtype and something else."""

    dtype: Argument | Result
    refuses: Callable[[Call], bool]

    @property
    def dtypes(self) -> frozenset[torch.dtype]:
        return self.dtype.dtypes

    def __call__(self, call: Call) -> bool:
        return self.dtype(call) and self.refuses(call)


Condition = Argument | Result | Value | Shape | Both


@dataclass(frozen=True, slots=True, eq=False)
class Guard:
    """One check of a kernel. Compared by identity: whole areas of them are looked up for every operator.

    Attributes:
        marker: which message it raises with (``kernels/markers.py``); the guard is there in the releases whose library
            has that message.
        operators: names without overload: every overload that has a kernel is meant, and the in-place operator with
            the same name and an underscore. Or names with an overload: that one is meant.
        refuses: the calls that raise.
        before: the release from which on the message is there, but the check is another one; None if it stays.
        since: the release from which on the message is that of this check too; None if it always was.
    """

    marker: str
    operators: tuple[str, ...]
    refuses: Condition
    before: str | None = None
    since: str | None = None

    def holds(self, release: str) -> bool:
        """Whether the message, where the library of ``release`` has it, is that of this check."""
        version = Version(release)
        ended = self.before is not None and version >= Version(self.before)
        return not ended and (self.since is None or version >= Version(self.since))


def other_than(*dtypes: frozenset[torch.dtype]) -> frozenset[torch.dtype]:
    """Every dtype but these."""
    return DTYPES.difference(*dtypes)


@dataclass(frozen=True)
class Message:
    """A guard of one operator. Equal in all releases that have it."""

    guard: Guard
    operator: str
    judge: str
    area: tuple[Guard, ...] = field(repr=False, compare=False)  # those that `accepted_since` asks in each release

    @property
    def dtypes(self) -> frozenset[torch.dtype] | None:
        return self.guard.refuses.dtypes

    @property
    def only_dtypes(self) -> bool:
        """Whether nothing but the dtype counts, so that a test that passes with it contradicts the rule."""
        return not isinstance(self.guard.refuses, Both)

    def __call__(self, call: Call) -> Judgement | None:
        dtypes = self.dtypes  # to look an argument up takes longer than this
        if dtypes is not None and all(spec.dtype not in dtypes for spec in (*call.inputs, *call.outputs)):
            return None
        if not self.guard.refuses(call):
            return None
        (message, *_) = MARKER_STRINGS[self.guard.marker]
        since = since_without_gap(
            torch_releases(), lambda release: takes(self.area, self.operator, call, load_table(release))
        )
        return refused(_sentence(message, self.operator), since, evidence=message)


def _sentence(message: str, operator: str) -> str:
    """What a message says that PyTorch writes behind the operator's name, or goes on with a number."""
    text, name = message.strip(" ,"), operator.removeprefix("aten::").partition(".")[0]
    if text.startswith((":", "()")):
        text = name + text if text[0] == ":" else f"'{name}{text}"
    if text.rfind("(") > text.rfind(")"):
        text = text[: text.rfind("(")].rstrip()
    return f"{text} …" if text.endswith("=") else text


def takes(area: tuple[Guard, ...], operator: str, call: Call, table: KernelTable) -> bool:
    """Whether no guard of the area refuses the call in the release of ``table``, with whatever message."""
    return not any(guard.refuses(call) for guard in _active(area, operator, table))


def messages(area: tuple[Guard, ...], operator: str, table: KernelTable, judge: str) -> tuple[Rule, ...]:
    """The rules that the guards of ``area`` make for one operator on the release of ``table``."""
    return tuple(Message(guard, operator, judge, area) for guard in _active(area, operator, table))


def _active(area: tuple[Guard, ...], operator: str, table: KernelTable) -> Iterator[Guard]:
    """The guards that the kernel of ``operator`` has, if it has one."""
    namespace, _, name = operator.partition("::")
    if namespace != "aten" or (operator not in table.native and operator not in table.python):
        return
    base = name.partition(".")[0]
    by_name = _by_name(area, table.release, table.markers)
    for alias in dict.fromkeys((name, base, base.removesuffix("_"))):
        yield from by_name.get(alias, ())


@functools.cache
def _by_name(area: tuple[Guard, ...], release: str, markers: frozenset[str]) -> dict[str, tuple[Guard, ...]]:
    """Name of an operator, as guards have it → the guards that hold in the release."""
    by_name: dict[str, tuple[Guard, ...]] = {}
    for guard in area:
        if guard.marker in markers and guard.holds(release):
            for name in guard.operators:
                by_name[name] = (*by_name.get(name, ()), guard)
    return by_name
