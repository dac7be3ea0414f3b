"""Entries that PyTorch expects to fail → the operators that are to blame.

An entry calls many operators. What an entry calls that is expected to pass is taken by MPS, with these dtypes. Of
what is left in a failing entry, the operators that bear its name are blamed; without such, the one that explains most
failing entries. Where nothing is left nobody is: sizes, arguments or numbers are the cause then, not a dtype.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

Status = Literal["passes", "fails", "unclaimed"]
Called = tuple[str, str]
"""Operator and signature."""


@dataclass(frozen=True)
class Observed:
    """One entry with one dtype on the virtual device of a release.

    Attributes:
        names: what an operator of its own may be called (``linalg_lu_factor``).
        status: what the release's list expects; ``unclaimed`` where the CPU has the dtype and MPS is not tested.
        calls: what it calls that has a kernel for MPS.
        explained: the mechanism refuses something in it, or the CPU reference raises: its failure says no more.
    """

    entry: str
    names: frozenset[str]
    dtype: str
    status: Status
    calls: frozenset[Called]
    explained: bool


@dataclass(frozen=True)
class Blame:
    """Operator and signature → the entry that shows it; and what is taken."""

    refused: dict[Called, str]
    unclaimed: dict[Called, str]
    accepted: frozenset[Called]


def blame(observed: Sequence[Observed]) -> Blame:
    """Who is to blame for what the entries of one release are expected to do."""
    accepted = frozenset(call for one in observed if one.status == "passes" for call in one.calls)
    failing = [one for one in observed if one.status == "fails" and not one.explained]
    refused = _blamed(failing, accepted)
    known = accepted | refused.keys()
    unclaimed: dict[Called, str] = {}
    for one in observed:
        if one.status == "unclaimed" and not one.explained and not refused.keys() & one.calls:
            for call in _own(one, _candidates(one, known)):  # weaker evidence: nothing but its own operators
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
        counts = Counter(call for one in open_cases for call in _candidates(one, accepted))
        if not counts:
            return refused
        most = max(counts.values())
        chosen = min(call for call, count in counts.items() if count == most)
        refused[chosen] = min(one.entry for one in open_cases if chosen in one.calls)
        open_cases = [one for one in open_cases if chosen not in one.calls]


def _candidates(one: Observed, known: Iterable[Called]) -> frozenset[Called]:
    """Calls with the dtype of the entry that nobody is known to take."""
    with_dtype = {call for call in one.calls if one.dtype in call[1].replace(">", " ").split()}
    return frozenset(with_dtype.difference(known))


def _own(one: Observed, calls: Iterable[Called]) -> list[Called]:
    """Those that bear the entry's name, or one that it begins (``max_pool2d_with_indices``)."""
    found = []
    for call in sorted(calls):
        base = call[0].partition("::")[2].partition(".")[0].strip("_")
        if any(base == name or base.startswith(f"{name}_") for name in one.names):
            found.append(call)
    return found
