"""What the lists of PyTorch's own tests say that MPS refuses or takes, where the mechanism does not know it.

The lists name entries of the OpInfo database; ``audit/learn.py`` finds the operators that are to blame, once for each
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
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from packaging.version import Version

from mpsprobe.errors import TableError
from mpsprobe_coverage.device.refusal import Refusal
from mpsprobe_coverage.device.refusals.call import Call, Rule
from mpsprobe_coverage.device.refusals.signatures import dtypes_in, dtypes_of, signature_of, without_flags
from mpsprobe_coverage.kernels.format import REINSTALL
from mpsprobe_coverage.kernels.releases import data_folder
from mpsprobe_coverage.kernels.table import KernelTable

Lists = Literal["own", "neighbours", "none"]
FILE = "lists.refusals"
MAGIC = "mpsprobe-list-refusals 2"
REFUSED, UNCLAIMED, ACCEPTED = "refused", "unclaimed", "accepted"
PARTS = (REFUSED, UNCLAIMED, ACCEPTED)

Signatures = Mapping[str, Mapping[str, str]]
"""Operator → signature → the entry that shows it."""


@dataclass(frozen=True)
class Learned:
    """What one list says; releases that share it stand together.

    Attributes:
        releases: the releases with this list, oldest first.
        refused: what its expected failures show.
        unclaimed: what is refused because no entry claims it for MPS: the weaker evidence.
        accepted: what entries call that are expected to pass.
    """

    releases: tuple[str, ...]
    refused: Signatures
    unclaimed: Signatures
    accepted: Mapping[str, frozenset[str]]

    def blamed(self, operator: str) -> frozenset[str]:
        """The signatures that ``operator`` refuses, by either evidence."""
        return frozenset({*self.refused.get(operator, ()), *self.unclaimed.get(operator, ())})

    def nearest(self, release: str) -> str:
        """The one of the releases that is nearest to ``release``, or ``release`` itself."""
        if release in self.releases:
            return release
        return self.releases[-1] if Version(self.releases[-1]) < Version(release) else self.releases[0]


@dataclass(frozen=True)
class Listed:
    """Refuses the signatures that the lists blame; ``shown`` has, for each, where it is listed."""

    dtypes: frozenset[torch.dtype]
    signatures: frozenset[str]
    shown: Mapping[str, tuple[str, str]] = field(compare=False, hash=False)
    accepted_since: Mapping[str, str | None] = field(compare=False, hash=False)

    def __call__(self, call: Call) -> Refusal | None:
        found = signature_of(call)
        if found not in self.signatures:
            return None
        reason, evidence = self.shown[found]
        return Refusal(reason, self.accepted_since.get(found), source="list", evidence=evidence)


@dataclass(frozen=True)
class Contradicted:
    """A rule about dtypes alone, without those that the lists show to be taken with whatever flags."""

    rule: Rule
    accepted: frozenset[str]

    @property
    def dtypes(self) -> frozenset[torch.dtype] | None:
        """Those of the rule."""
        return self.rule.dtypes

    def __call__(self, call: Call) -> Refusal | None:
        refused = self.rule(call)
        return None if refused is not None and dtypes_of(call) in self.accepted else refused


def rules(table: KernelTable, lists: Lists = "own") -> dict[str, tuple[Rule, ...]]:
    """A rule for each operator that the lists blame."""
    voices = _blaming(table, lists)
    blamed = sorted({o for voice in voices for part in (voice.refused, voice.unclaimed) for o in part})
    found = {operator: rules_of(operator, table, lists) for operator in blamed}
    return {operator: made for operator, made in found.items() if made}


def rules_of(operator: str, table: KernelTable, lists: Lists = "own") -> tuple[Rule, ...]:
    """The rule of one operator, if the lists blame it."""
    voices = _blaming(table, lists)
    blamed = {one for voice in voices for one in voice.blamed(operator)}
    taken = {one for voice in voices for one in voice.accepted.get(operator, ())}
    shown = {one: _shown(operator, one, voices, table.release) for one in sorted(blamed - taken)}
    if not shown:
        return ()
    # A call has all dtypes of the signature that it matches: to know the first of each is enough.
    dtypes = frozenset(getattr(torch, dtypes_in(one)[0]) for one in shown)
    since = {one: _accepted_since(operator, one, table.release) for one in shown}
    return (Listed(dtypes, frozenset(shown), shown, since),)


def _blaming(table: KernelTable, lists: Lists) -> tuple[Learned, ...]:
    """The lists that may blame operators of the release of ``table``."""
    if lists == "none" or table.library != "torch":
        return ()
    voices = speaking_for(table.release, lists)
    return voices if any(Version(voice.releases[-1]) >= Version(table.release) for voice in voices) else ()


def uncontradicted(operator: str, rules: tuple[Rule, ...], table: KernelTable, lists: Lists) -> tuple[Rule, ...]:
    """Rules of other sources without the dtypes that each list that speaks for the release shows to be taken.

    A rule about something besides dtypes stays as it is: its ``dtypes`` are None, or ``only_dtypes`` is False.
    """
    if lists == "none" or table.library != "torch":
        return rules
    voices = speaking_for(table.release, lists)
    if not voices or all(Version(voice.releases[0]) > Version(table.release) for voice in voices):
        return rules
    accepted = frozenset.intersection(*(frozenset(map(without_flags, v.accepted.get(operator, ()))) for v in voices))
    return tuple(_uncontradicted(rule, accepted) for rule in rules)


def _uncontradicted(rule: Rule, accepted: frozenset[str]) -> Rule:
    """The rule itself where no list touches it, so that it stays equal to that of other releases."""
    if rule.dtypes is None or not getattr(rule, "only_dtypes", True):
        return rule  # sizes and arguments, of which a list says nothing
    refused = {str(dtype).removeprefix("torch.") for dtype in rule.dtypes}
    touched = frozenset(one for one in accepted if not refused.isdisjoint(dtypes_in(one)))
    return Contradicted(rule, touched) if touched else rule


@functools.cache
def speaking_for(release: str, lists: Lists) -> tuple[Learned, ...]:
    """The lists that speak for ``release``, the older one first."""
    known = learned()
    own = [one for one in known if release in one.releases]
    if lists == "own" and own:
        return tuple(own)
    others = [one for one in known if one not in own]
    older = [one for one in others if Version(one.releases[-1]) < Version(release)]
    newer = [one for one in others if Version(one.releases[0]) > Version(release)]
    return (*older[-1:], *newer[:1])


@functools.cache
def learned() -> tuple[Learned, ...]:
    """What is shipped for each list, oldest first.

    Raises:
        TableError: the data file is absent or damaged.
    """
    try:
        data = (data_folder() / FILE).read_bytes()
    except OSError as error:
        raise TableError(f"the data file {FILE} cannot be read: {error}", REINSTALL) from error
    return decode(data)


def encode(known: Iterable[Learned], provenance: Mapping[str, Any]) -> bytes:
    """The data file; each list holds what changed since the one before. The same input gives the same bytes."""
    before: dict[str, dict[str, str]] = {part: {} for part in PARTS}
    lists = []
    for one in known:
        now = {
            REFUSED: _texts(one.refused),
            UNCLAIMED: _texts(one.unclaimed),
            ACCEPTED: {operator: "|".join(sorted(found)) for operator, found in one.accepted.items() if found},
        }
        document: dict[str, Any] = {"releases": list(one.releases)}
        for part in PARTS:
            groups: dict[str, list[str]] = {}
            for operator in sorted({*before[part], *now[part]}):
                if before[part].get(operator) != now[part].get(operator):
                    groups.setdefault(now[part].get(operator, ""), []).append(operator)
            document[part] = {text: " ".join(operators) for text, operators in sorted(groups.items())}
        lists.append(document)
        before = now
    body = (json.dumps({"provenance": provenance, "lists": lists}, indent=1, ensure_ascii=True) + "\n").encode()
    return f"{MAGIC} {hashlib.sha256(body).hexdigest()}\n".encode() + body


def decode(data: bytes) -> tuple[Learned, ...]:
    """The data file read back.

    Raises:
        TableError: it is truncated, changed, or of another format.
    """
    first, _, body = data.partition(b"\n")
    if first != f"{MAGIC} {hashlib.sha256(body).hexdigest()}".encode():
        raise TableError(f"the data file {FILE} is damaged", REINSTALL)
    found = []
    now: dict[str, dict[str, str]] = {part: {} for part in PARTS}
    try:
        for document in json.loads(body)["lists"]:
            for part in PARTS:
                for text, operators in document[part].items():
                    for operator in operators.split(" "):
                        if text:
                            now[part][operator] = text
                        else:
                            del now[part][operator]
            found.append(
                Learned(
                    releases=tuple(document["releases"]),
                    refused={operator: _read(text) for operator, text in now[REFUSED].items()},
                    unclaimed={operator: _read(text) for operator, text in now[UNCLAIMED].items()},
                    accepted={operator: frozenset(text.split("|")) for operator, text in now[ACCEPTED].items()},
                )
            )
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise TableError(f"the data file {FILE} is damaged: {error}", REINSTALL) from error
    return tuple(found)


def _texts(part: Signatures) -> dict[str, str]:
    return {
        operator: "|".join(f"{one}@{entry}" for one, entry in sorted(found.items()))
        for operator, found in part.items()
        if found
    }


def _read(text: str) -> dict[str, str]:
    found = {}
    for one in text.split("|"):
        name, entry = one.split("@")
        found[name] = entry
    return found


def _shown(operator: str, one: str, voices: tuple[Learned, ...], release: str) -> tuple[str, str]:
    """Reason and evidence: which lists, which entry."""
    releases = [voice.nearest(release) for voice in voices if one in voice.blamed(operator)]
    where = f"list{'s' if len(releases) > 1 else ''} of {' and '.join(releases)}"
    for voice in reversed(voices):
        if one in voice.refused.get(operator, ()):
            return f"PyTorch expects it to fail for {one}", f"{where}: {voice.refused[operator][one]}"
    entry = next(v.unclaimed[operator][one] for v in reversed(voices) if one in v.unclaimed.get(operator, ()))
    return f"PyTorch does not claim it for {one}", f"{where}: {entry} is not tested with it"


def _accepted_since(operator: str, one: str, release: str) -> str | None:
    """The first release of the nearest newer list that takes the signature."""
    for voice in learned():
        if Version(voice.releases[0]) > Version(release) and one in voice.accepted.get(operator, ()):
            return voice.releases[0]
    return None
