"""Entries that PyTorch expects to fail → the operators that are to blame.

An entry calls many operators. What an entry calls that is expected to pass is taken by MPS, with these dtypes. Of
what is left in a failing entry, the operators that bear its name are blamed; without such, one that is left alone, or
whose name is near, and of several the one that explains most failing entries. Where nothing is left nobody is: sizes,
numbers or values are the cause then, not a dtype or a flag. Where no name is near either, it would be a guess.

An operator is looked at for each signature by itself: dtypes, and the flags of ``judging/signatures.py``. So
``index_put`` with and without ``accumulate`` are separate if some entry passes, or fails, with only one of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

from mpsprobe_coverage.knowledge.judging.signatures import dtypes_in, without_flags

Status = Literal["passes", "fails", "unclaimed"]
Called = tuple[str, str]
"""Operator and signature."""
NEAR = 0.6
"""Of names, from 0 to 1: ``linalg_inv_ex`` and ``linalg_inv`` are 0.87, ``_index_put_impl_`` and ``index_put`` 0.78."""


@dataclass(frozen=True)
class Observed:
    """One entry with one dtype on the virtual device of a release.

    Attributes:
        names: what an operator of its own may be called (``linalg_lu_factor``).
        status: what the release's list expects; ``unclaimed`` where the CPU has the dtype and MPS is not tested.
        calls: what it calls that has a kernel for MPS.
        explained: the mechanism refuses something in it, or the CPU reference raises: its failure says no more.
        gradient_calls: what its gradients call besides, where the test of these passes.
    """

    entry: str
    names: frozenset[str]
    dtype: str
    status: Status
    calls: frozenset[Called]
    explained: bool
    gradient_calls: frozenset[Called] = frozenset()


@dataclass(frozen=True)
class Blame:
    """Operator and signature → the entry that shows it; and what is taken."""

    refused: dict[Called, str]
    unclaimed: dict[Called, str]
    accepted: frozenset[Called]


def blame(observed: Sequence[Observed]) -> Blame:
    """Who is to blame for what the entries of one release are expected to do."""
    accepted = frozenset(call for one in observed if one.status == "passes" for call in one.calls | one.gradient_calls)
    failing = [one for one in observed if one.status == "fails" and not one.explained]
    refused = _blamed(failing, accepted)
    known = accepted | refused.keys()
    unclaimed: dict[Called, str] = {}
    for one in observed:
        if one.status == "unclaimed" and not one.explained and not refused.keys() & one.calls:
            left = _candidates(one, known)
            # Weaker evidence: no choice between operators.
            for call in sorted(left) if len(left) == 1 or _flags_alone(left) else _own(one, left):
                unclaimed.setdefault(call, one.entry)
    return Blame(refused, unclaimed, accepted)


def _blamed(failing: Sequence[Observed], accepted: frozenset[Called]) -> dict[Called, str]:
    refused: dict[Called, str] = {}
    open_cases = []
    for one in failing:
        own = _own(one, _candidates(one, accepted))
        for call in own:
            refused.setdefault(call, one.entry)
        if not own:
            open_cases.append(one)
    open_cases = [one for one in open_cases if not refused.keys() & one.calls]
    while True:
        candidates = [_candidates(one, accepted) for one in open_cases]
        counts = Counter(call for them in candidates for call in them)
        alone = {call for them in candidates if len(them) == 1 or _flags_alone(them) for call in them}
        near = {call: _nearness(call, open_cases) for call in counts}
        certain = [call for call in counts if call in alone or near[call] >= NEAR]
        if not certain:
            return refused
        chosen = min(certain, key=lambda call: (-counts[call], -near[call], call))
        cases = [one for one in open_cases if chosen in one.calls]
        entry = min(one.entry for one in cases)
        for call in counts:  # where no case tells flags apart, each may be the cause
            if _flags_alone({call, chosen}) and [one for one in open_cases if call in one.calls] == cases:
                refused[call] = entry
        open_cases = [one for one in open_cases if chosen not in one.calls]


def _candidates(one: Observed, known: Iterable[Called]) -> frozenset[Called]:
    """Calls with the dtype of the entry that nobody is known to take."""
    with_dtype = {call for call in one.calls if one.dtype in dtypes_in(call[1])}
    return frozenset(with_dtype.difference(known))


def _flags_alone(calls: Iterable[Called]) -> bool:
    """Whether they differ in nothing but flags."""
    return len({(operator, without_flags(one)) for operator, one in calls}) == 1


def _own(one: Observed, calls: Iterable[Called]) -> list[Called]:
    """Those that bear the entry's name."""
    return [call for call in sorted(calls) if _base(call) in one.names]


def _nearness(call: Called, cases: Iterable[Observed]) -> float:
    """How near the operator's name is to that of an entry that calls it, from 0 to 1."""
    names = (name for one in cases if call in one.calls for name in one.names)
    return max((SequenceMatcher(None, _base(call), name).ratio() for name in names), default=0.0)


def _base(call: Called) -> str:
    """``aten::_linalg_det.result`` → ``linalg_det``."""
    return call[0].partition("::")[2].partition(".")[0].strip("_")
