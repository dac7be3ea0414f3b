"""What is known about some calls of a kernel besides registration, messages and code: one form for every list.

A list says for each entry which operators it is about, which calls, in which releases, and how that is known. What
becomes of such a call is the list's: ``frameworks*.py`` of those that fail, ``left_to_cpu.py`` of those that the kernel
copies to the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from packaging.version import Version

from mpsprobe_coverage.knowledge.calls.call import Call
from mpsprobe_coverage.knowledge.judging import size
from mpsprobe_coverage.knowledge.judging.guards import takes
from mpsprobe_coverage.knowledge.judging.judgement import Judgement
from mpsprobe_coverage.knowledge.kernels.mps import load_table
from mpsprobe_coverage.knowledge.kernels.releases import since_without_gap, torch_releases
from mpsprobe_coverage.knowledge.kernels.table import KernelTable

if TYPE_CHECKING:
    from mpsprobe.schemas import Source, Verdict


@dataclass(frozen=True, slots=True, eq=False)
class Condition:
    """One entry of a list. Compared by identity.

    Attributes:
        operators: names without overload, and without the underscore of an in-place operator.
        why: why a call is meant; None where it is not.
        evidence: the threads of pytorch/pytorch that report it and what mends it, or the message of the kernel.
        first, last: the releases from and to which it holds; None for no end.
        marker: a message (``kernels/markers.py``) that the library has wherever it holds.
        macos: the first macOS where it was seen; one that is named and older is not judged.
        dtypes: calls without a tensor of one of these are not asked about; None for all.
    """

    operators: tuple[str, ...]
    why: Callable[[Call], str | None]
    evidence: str
    first: str = "1.12.0"
    last: str | None = None
    marker: str | None = None
    macos: str = "13.0"
    dtypes: frozenset[torch.dtype] | None = None

    def holds(self, table: KernelTable, macos: Version | None) -> bool:
        """Whether it does in the release of ``table``, on ``macos`` (None: a new one)."""
        release = Version(table.release)
        return (
            Version(self.first) <= release
            and (self.last is None or release <= Version(self.last))
            and (self.marker is None or self.marker in table.markers)
            and (macos is None or macos >= Version(self.macos))
        )


@dataclass(frozen=True, eq=False)
class Conditions:
    """A list. Compared by identity.

    Attributes:
        judge: the file that says what becomes of its calls.
        verdict, source: of these; ``reason`` has ``{}`` for what an entry says.
    """

    judge: str
    verdict: Verdict
    source: Source
    entries: tuple[Condition, ...]
    reason: str = "{}"

    def rules_of(self, operator: str, table: KernelTable, macos: Version | None = None) -> tuple[Meets, ...]:
        """A rule for each entry about the kernel of ``operator`` in the release of ``table``, on ``macos`` if named."""
        return tuple(Meets(self, entry, operator) for entry in self._of(operator, table, macos))

    def passes(self, call: Call, operator: str, table: KernelTable) -> bool:
        """Whether a kernel of the release has the call, and no entry means it."""
        has = operator in table.native and takes(size.GUARDS, operator, call, table)
        return has and all(entry.why(call) is None for entry in self._of(operator, table, None))

    def _of(self, operator: str, table: KernelTable, macos: Version | None) -> Sequence[Condition]:
        entries = self._by_name.get(operator.removeprefix("aten::").partition(".")[0].removesuffix("_"))
        if entries is None or operator not in table.native:
            return ()
        return [entry for entry in entries if entry.holds(table, macos)]

    @cached_property
    def _by_name(self) -> dict[str, list[Condition]]:
        found: dict[str, list[Condition]] = {}
        for entry in self.entries:
            for name in entry.operators:
                found.setdefault(name, []).append(entry)
        return found


@dataclass(frozen=True)
class Meets:
    """An entry of one operator. Equal in all releases that have it."""

    conditions: Conditions
    condition: Condition
    operator: str
    only_dtypes = False  # what PyTorch's tests show to be taken need not be such a call

    @property
    def judge(self) -> str:
        return self.conditions.judge

    @property
    def dtypes(self) -> frozenset[torch.dtype] | None:
        return self.condition.dtypes

    def __call__(self, call: Call) -> Judgement | None:
        why = self.condition.why(call)
        if why is None:
            return None
        conditions = self.conditions
        since = since_without_gap(
            torch_releases(), lambda release: conditions.passes(call, self.operator, load_table(release))
        )
        reason = conditions.reason.format(why)
        return Judgement(conditions.verdict, reason, conditions.source, self.condition.evidence, since)


def has(call: Call, name: str) -> bool:
    """Whether the operator has an argument ``name``."""
    return any(argument.name == name for argument in call.func._schema.arguments)
