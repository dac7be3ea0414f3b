"""What is known about some calls of a kernel besides its registration and code: one form for every list.

A list says for each entry which operators it is about, which calls, in which releases, and how that is known. What
becomes of such a call is the list's: ``guard.py`` and ``size.py`` of those that a message of the library refuses,
``frameworks.py`` of those that fail, mostly inside Apple's frameworks, ``left_to_cpu.py`` of those that go to the CPU.
What the words of advisories can say is in their data files instead: those entries that raise, or end the process.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from packaging.version import Version

from mpsprobe_coverage.knowledge.advisories.conditions import matches
from mpsprobe_coverage.knowledge.advisories.model import Advisory
from mpsprobe_coverage.knowledge.advisories.store import entries_about
from mpsprobe_coverage.knowledge.calls.call import Call
from mpsprobe_coverage.knowledge.judging.judgement import ENDS, Judgement, Rule
from mpsprobe_coverage.knowledge.kernels.mps import load_table
from mpsprobe_coverage.knowledge.kernels.releases import since_without_gap, torch_releases
from mpsprobe_coverage.knowledge.kernels.table import KernelTable

if TYPE_CHECKING:
    from mpsprobe.schemas import Source, Verdict

Dtypes = frozenset[torch.dtype]
COMPLEX = frozenset({torch.complex32, torch.complex64, torch.complex128})
FLOATING = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})
INTEGRAL = frozenset(
    {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32, torch.uint64}
)
BOOL = frozenset({torch.bool})
LONG = frozenset({torch.int64})
DTYPES = COMPLEX | FLOATING | INTEGRAL | BOOL
"""What is meant by "every dtype"; MPS has neither quantised types nor, before 2.15, 8-bit floating-point ones."""


@dataclass(frozen=True, slots=True, eq=False)
class Condition:
    """One entry of a list. Compared by identity."""

    # Names joined by spaces; without overload every one that has a kernel is meant, and the in-place operator with the
    # same name and an underscore.
    operators: str
    why: Callable[[Call], str | None]  # why a call is meant; None where it is not
    evidence: str  # the threads of pytorch/pytorch that report it and what mends it, or the message of the kernel
    first: str = "1.12.0"
    before: str | None = None  # the release from which on it no longer holds
    marker: str | None = None  # a message (`kernels/markers.toml`) that the library has wherever it holds
    macos: str = "13.0"  # the first one where it was seen; one that is named and older is not judged
    macos_before: str | None = None  # the first one without it; only one that is named and older is judged
    dtypes: Dtypes | None = None  # calls without a tensor of one of these are not asked about; None for all
    only_dtypes: bool = False  # nothing else counts, so that a test that passes with one contradicts it
    remedy: str | None = None  # what else to do than to upgrade, as a sentence
    is_settled: bool = True  # whether it is known that releases which it does not name accept such calls

    def holds(self, release: str, markers: frozenset[str], macos: Version | None) -> bool:
        version = Version(release)
        return (
            Version(self.first) <= version
            and (self.before is None or version.release < Version(self.before).release)  # a nightly has what is to come
            and (self.marker is None or self.marker in markers)
            and (macos is None or macos >= Version(self.macos))
            and (self.macos_before is None or (macos is not None and macos < Version(self.macos_before)))
        )


@dataclass(frozen=True, eq=False)
class Conditions:
    """A list. Compared by identity."""

    judge: str  # the file that says what becomes of its calls
    verdict: Verdict
    source: Source
    entries: tuple[Condition, ...]
    sentence: Callable[[str, str], str] = lambda why, _: why  # from an entry and the operator to the reason
    sizes: Conditions | None = None  # guards that the first release that takes a call must not have, either
    reported: bool = False  # with the entries of ``advisories/data`` that raise, or end the process

    def rules_of(self, operator: str, table: KernelTable, macos: Version | None = None) -> tuple[Rule, ...]:
        """A rule for each entry about the kernel of ``operator`` in the release of ``table``, on ``macos`` if named."""
        return tuple(
            Rule(self.judge, _answer, (self, entry, operator), dtypes=entry.dtypes, only_dtypes=entry.only_dtypes)
            for entry in self._of(operator, table, macos)
        )

    def takes(self, call: Call, operator: str, table: KernelTable, macos: Version | None = None) -> bool:
        """Whether no entry means the call in the release of ``table`` (on ``macos``), and no guard of ``sizes``."""
        if self.sizes is not None and not (operator in table.native and self.sizes.takes(call, operator, table)):
            return False
        return all(entry.why(call) is None for entry in self._of(operator, table, macos))

    def _of(self, operator: str, table: KernelTable, macos: Version | None) -> Iterator[Condition]:
        namespace, _, name = operator.partition("::")
        if namespace != "aten" or (operator not in table.native and operator not in table.python):
            return
        base = name.partition(".")[0]
        entries = _by_name(self, table.release, table.markers, macos)
        for alias in dict.fromkeys((name, base, base.removesuffix("_"))):
            yield from entries.get(alias, ())
        for reported in entries_about(operator) if self.reported else ():
            if reported.effect == "numbers" or (macos is None and reported.macos.fixed is not None):
                continue  # what a newer macOS cures is no verdict on one that nobody named
            if reported.affects(table.release, table.macos_minimum, None if macos is None else str(macos)):
                yield _condition(reported)


@functools.cache
def _condition(entry: Advisory) -> Condition:
    said = entry.message or entry.title
    reason = f"{ENDS}{said}" if entry.effect == "ends" else f"raises: {said}"

    def why(call: Call) -> str | None:
        return reason if matches(entry, call, "") else None

    is_settled = entry.torch.fixed is not None or entry.affects(torch_releases()[-1])
    remedy = entry.workaround if is_settled else f"{entry.workaround} Which release accepts it is not established."
    operators, evidence, macos = " ".join(entry.operators), _threads(entry.sources), "12.3"  # the first one with MPS
    return Condition(
        operators, why, evidence, macos=macos, macos_before=entry.macos.fixed, remedy=remedy, is_settled=is_settled
    )


def _threads(sources: tuple[str, ...]) -> str:
    """``pytorch issues 95538, 130542``, and addresses."""
    own = [source.removeprefix("pytorch/pytorch#") for source in sources if source.startswith("pytorch/pytorch#")]
    others = [source for source in sources if not source.startswith("pytorch/pytorch#")]
    return ", ".join([*([f"pytorch issue{'s' * (len(own) > 1)} {', '.join(own)}"] if own else []), *others])


@functools.cache
def _by_name(
    conditions: Conditions, release: str, markers: frozenset[str], macos: Version | None
) -> dict[str, list[Condition]]:
    entries: dict[str, list[Condition]] = {}
    for entry in conditions.entries:
        if entry.holds(release, markers, macos):
            for name in entry.operators.split():
                entries.setdefault(name, []).append(entry)
    return entries


def _answer(call: Call, conditions: Conditions, condition: Condition, operator: str) -> Judgement | None:
    dtypes = condition.dtypes  # to look an argument up takes longer than this
    if dtypes is not None and all(spec.dtype not in dtypes for spec in (*call.inputs, *call.outputs)):
        return None
    why = condition.why(call)
    if why is None:
        return None
    macos = None if condition.macos_before is None else Version(condition.macos)

    def takes(release: str) -> bool:
        return conditions.takes(call, operator, load_table(release), macos)

    since = since_without_gap(torch_releases(), takes) if condition.is_settled else None
    reason = conditions.sentence(why, operator)
    evidence, remedy, needs = condition.evidence, condition.remedy, condition.macos_before
    return Judgement(conditions.verdict, reason, conditions.source, evidence, since, needs, remedy=remedy)


def has(call: Call, name: str) -> bool:
    return any(argument.name == name for argument in call.func._schema.arguments)
