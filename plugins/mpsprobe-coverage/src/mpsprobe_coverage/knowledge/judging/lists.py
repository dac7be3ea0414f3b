"""What the lists of PyTorch's own tests say that MPS refuses or takes, where the mechanism does not know it.

The lists name entries of the OpInfo database; mpsprobe-tables finds the operators that are to blame, once for each
list, and ``kernels/data/lists.refusals`` keeps the result: for each operator the signatures (``signatures.py``) that it
refuses and takes. A call whose signature no list has is not refused by one.

Which lists speak for a release:

- ``own``: its own list, if it has one; else those of its neighbours. This is what a user gets.
- ``neighbours``: the nearest older and the nearest newer list that is another one: this is what a release without a
  list gets, and what the audit asks for, so that no list is a source of the verdicts that it judges. Patch releases
  that share a list count as one: the neighbours of 2.14.0 are 2.13.0 and 2.15.0, never the same list of 2.14.1.
- ``none``: nobody; what this module knows is left out.

Where two neighbours speak they must agree; where they do not, the mechanism decides. Kernels learn dtypes with time and
do not unlearn them. So a release older than every list, which has one neighbour, hears of it only what is refused, and
one that is newer than every list only what is taken.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from packaging.version import Version

from mpsprobe_coverage.knowledge.calls.call import Call
from mpsprobe_coverage.knowledge.calls.spec import dtype_name
from mpsprobe_coverage.knowledge.judging.judgement import Judgement, Rule, refused
from mpsprobe_coverage.knowledge.judging.signatures import dtypes_in, dtypes_of, signature_of, without_flags
from mpsprobe_coverage.knowledge.kernels.format import apply, by_name, data_file, unseal
from mpsprobe_coverage.knowledge.kernels.table import KernelTable

Lists = Literal["own", "neighbours", "none"]
FILE = "lists.refusals"
MAGIC = "mpsprobe-list-refusals 2"
REFUSED, UNCLAIMED, ACCEPTED = "refused", "unclaimed", "accepted"
PARTS = (REFUSED, UNCLAIMED, ACCEPTED)

Signatures = Mapping[str, Mapping[str, str]]
"""Operator → signature → the entry that shows it."""


@dataclass(frozen=True)
class Learned:
    """What one list says; releases that share it stand together."""

    releases: tuple[str, ...]  # with this list, oldest first
    refused: Signatures  # what its expected failures show
    unclaimed: Signatures  # what is refused because no entry claims it for MPS: the weaker evidence
    accepted: Mapping[str, frozenset[str]]  # what entries call that are expected to pass

    def blamed(self, operator: str) -> frozenset[str]:
        """The signatures that ``operator`` refuses, by either evidence."""
        return frozenset({*self.refused.get(operator, ()), *self.unclaimed.get(operator, ())})

    def nearest(self, release: str) -> str:
        """The nearest one of the releases, or ``release`` itself."""
        if release in self.releases:
            return release
        return self.releases[-1] if Version(self.releases[-1]) < Version(release) else self.releases[0]


def rules_of(operator: str, table: KernelTable, lists: Lists = "own") -> tuple[Rule, ...]:
    voices = lists_about(table.release, lists)
    if all(Version(voice.releases[-1]) < Version(table.release) for voice in voices):
        return ()
    blamed = frozenset[str]().union(*(voice.blamed(operator) for voice in voices))
    taken = frozenset[str]().union(*(voice.accepted.get(operator, ()) for voice in voices))
    signatures = sorted(blamed - taken)
    if not signatures:
        return ()
    # A call has all dtypes of the signature that it matches: to know the first of each is enough.
    dtypes = frozenset(getattr(torch, dtypes_in(signature)[0]) for signature in signatures)
    shown = {signature: _shown(operator, signature, voices, table.release) for signature in signatures}
    since = {signature: _accepted_since(operator, signature, table.release) for signature in signatures}
    return (Rule("lists", _refuse, (frozenset(signatures),), (shown, since), dtypes),)


def _refuse(
    call: Call, signatures: frozenset[str], shown: Mapping[str, tuple[str, str]], since: Mapping[str, str | None]
) -> Judgement | None:
    """Of the signatures that the lists blame; ``shown`` has, for each, where it is listed."""
    signature = signature_of(call)
    if signature not in signatures:
        return None
    reason, evidence = shown[signature]
    return refused(reason, since.get(signature), source="list", evidence=evidence)


def uncontradicted(operator: str, rules: tuple[Rule, ...], table: KernelTable, lists: Lists) -> tuple[Rule, ...]:
    """Rules of other sources without the dtypes that each list that speaks for the release shows to be taken.

    A rule about something besides dtypes stays as it is: its ``dtypes`` are None, or ``only_dtypes`` is False.
    """
    voices = lists_about(table.release, lists)
    if all(Version(voice.releases[0]) > Version(table.release) for voice in voices):
        return rules
    accepted = frozenset.intersection(*(frozenset(map(without_flags, v.accepted.get(operator, ()))) for v in voices))
    return tuple(_uncontradicted(rule, accepted) for rule in rules)


def _uncontradicted(rule: Rule, accepted: frozenset[str]) -> Rule:
    """The rule itself where no list touches it, so that it stays equal to that of other releases."""
    if rule.dtypes is None or not rule.only_dtypes:
        return rule  # sizes and arguments, of which a list says nothing
    names = set(map(dtype_name, rule.dtypes))
    touched = frozenset(signature for signature in accepted if not names.isdisjoint(dtypes_in(signature)))
    return Rule(rule.judge, _but_accepted, (rule, touched), dtypes=rule.dtypes) if touched else rule


def _but_accepted(call: Call, rule: Rule, accepted: frozenset[str]) -> Judgement | None:
    """A rule about dtypes alone, without those that the lists show to be taken with whatever flags."""
    judgement = rule(call)
    return None if judgement is not None and dtypes_of(call) in accepted else judgement


@functools.cache
def lists_about(release: str, lists: Lists) -> tuple[Learned, ...]:
    """The lists that speak for ``release``, the older one first."""
    if lists == "none":
        return ()
    own = [voice for voice in learned() if release in voice.releases]
    if lists == "own" and own:
        return tuple(own)
    older = [voice for voice in learned() if Version(voice.releases[-1]) < Version(release)]
    newer = [voice for voice in learned() if Version(voice.releases[0]) > Version(release)]
    return (*older[-1:], *newer[:1])


def learned() -> tuple[Learned, ...]:
    lists: tuple[Learned, ...] = data_file(FILE, decode)
    return lists


def decode(data: bytes, name: str = FILE) -> tuple[Learned, ...]:
    """The data file read back; each list holds what changed since the one before. Raises as ``unseal``."""
    return unseal(MAGIC, data, name, _read)


def _read(document: Any) -> tuple[Learned, ...]:
    lists = []
    now: dict[str, dict[str, str]] = {part: {} for part in PARTS}
    for changes in document["lists"]:
        for part in PARTS:
            apply(by_name(changes[part]), now[part])
        lists.append(
            Learned(
                releases=tuple(changes["releases"]),
                refused=_entries(now[REFUSED]),
                unclaimed=_entries(now[UNCLAIMED]),
                accepted={operator: frozenset(text.split("|")) for operator, text in now[ACCEPTED].items()},
            )
        )
    return tuple(lists)


def _entries(part: Mapping[str, str]) -> Signatures:
    return {operator: dict(pair.split("@") for pair in text.split("|")) for operator, text in part.items()}


def _shown(operator: str, signature: str, voices: tuple[Learned, ...], release: str) -> tuple[str, str]:
    """Reason and evidence: which lists, which entry."""
    releases = [voice.nearest(release) for voice in voices if signature in voice.blamed(operator)]
    where = f"list{'s' if len(releases) > 1 else ''} of {' and '.join(releases)}"
    for voice in reversed(voices):
        if signature in voice.refused.get(operator, ()):
            entry = voice.refused[operator][signature]
            return f"PyTorch expects it to fail for {signature}", f"{where}: {entry}"
    entries = (voice.unclaimed.get(operator, {}).get(signature) for voice in reversed(voices))
    entry = next(entry for entry in entries if entry is not None)
    return f"PyTorch does not claim it for {signature}", f"{where}: {entry} is not tested with it"


def _accepted_since(operator: str, signature: str, release: str) -> str | None:
    taking = (voice.releases[0] for voice in learned() if signature in voice.accepted.get(operator, ()))
    return next((first for first in taking if Version(first) > Version(release)), None)
