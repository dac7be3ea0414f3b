"""One entry of the data files, checked when it is read: a wrong result, or a call that a kernel refuses.

Torch is not needed here.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self, TypeVar

from packaging.version import InvalidVersion, Version
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from mpsprobe.schemas import AffectedRange, AffectedSystems
from mpsprobe_coverage.knowledge.advisories import words
from mpsprobe_coverage.knowledge.chips.store import all_chips, machine_named
from mpsprobe_coverage.knowledge.kernels.kernel_facts import same_code
from mpsprobe_coverage.knowledge.kernels.mps import MPS_FAMILY
from mpsprobe_coverage.knowledge.kernels.releases import torch_releases

ISSUE = re.compile(r"[\w.-]+/[\w.-]+#\d+")

_Range = TypeVar("_Range", bound=AffectedRange)


def _sentence(text: str) -> str:
    if not text.strip() or text != " ".join(text.split()):
        raise ValueError("needs words, with single spaces between them")
    return text


def _parsed_range(affected: _Range) -> _Range:
    named = [text for text in (affected.since, *affected.seen, affected.fixed) if text is not None]
    try:
        versions = [Version(version) for version in named]
    except InvalidVersion as error:
        raise ValueError(str(error)) from None
    if versions != sorted(versions) or len(set(versions)) != len(versions):
        raise ValueError("since, seen and fixed must follow each other")
    if affected.same_code_since or affected.same_code_until:
        raise ValueError("which releases have the same code is read from their libraries")
    if affected.every:
        if named or affected.open:
            raise ValueError("'every' stands alone")
    elif affected.fixed is not None and affected.open:
        raise ValueError("it cannot be both open and fixed")
    return affected


def _known_releases(affected: AffectedRange) -> AffectedRange:
    for release in (affected.since, *affected.seen, affected.fixed):
        if release is not None and release not in torch_releases():
            raise ValueError(f"there is no kernel table of torch {release}: the newest is {torch_releases()[-1]}")
    return affected


def _operator(name: str) -> str:
    if name not in MPS_FAMILY.operators:
        raise ValueError(f"'{name}' is no operator: names look like aten::add.Tensor")
    return name


def _computed(computes: tuple[words.Word, ...]) -> tuple[words.Word, ...]:
    if not computes or computes[0] not in words.COMPUTED:
        raise ValueError(f"it begins with one of {', '.join(words.COMPUTED)}")
    return computes


def _source(text: str) -> str:
    if not (ISSUE.fullmatch(text) or text.startswith("https://")):
        raise ValueError(f"'{text}' is neither owner/repository#number nor an https address")
    return text


def _known_chip(name: str) -> str:
    if name not in {known for chip in all_chips().values() for known in (chip.name, chip.generation)}:
        raise ValueError(f"'{name}' is no chip and no generation of chips")
    return name


Sentence = Annotated[str, AfterValidator(_sentence)]
Condition = Annotated[words.Condition, AfterValidator(words.known)]
Computes = Annotated[tuple[words.Word, ...], AfterValidator(_computed)]
Operator = Annotated[str, AfterValidator(_operator)]
Range = Annotated[AffectedRange, AfterValidator(_parsed_range), AfterValidator(_known_releases)]
Systems = Annotated[AffectedSystems, AfterValidator(_parsed_range)]
Source = Annotated[str, AfterValidator(_source)]


class Affected(BaseModel):
    """What has it: releases, systems and chips."""

    model_config = ConfigDict(frozen=True)

    effect: Literal["numbers", "raises", "ends"] = "numbers"  # "ends": a failed assertion ends the process
    chips: tuple[Annotated[str, AfterValidator(_known_chip)], ...] = ()  # by generation (m1) or name (m1-max); or all
    operators: Annotated[tuple[Operator, ...], Field(min_length=1)]  # called on MPS, by the names that a report has
    torch: Range
    macos: Systems

    @model_validator(mode="after")
    def _has_the_same_code(self) -> Self:
        """A release whose kernels have the code of those that were seen to have it, has it too.

        Not where a release without it has the same code as well: then the code does not show it.
        """
        affected, newest = self.torch, torch_releases()[-1]
        if not affected.seen:
            return self
        first, last = (same_code(self.operators, affected.seen[end])[end] for end in (0, -1))
        ended = affected.fixed is not None or affected.open or newest in affected.seen
        without = affected.fixed if ended else newest
        if without is None or Version(last) < Version(without):
            found = {"same_code_since": first if affected.since is None else None}
            found["same_code_until"] = None if ended else last
            named = {name: release for name, release in found.items() if release not in (None, *affected.seen)}
            object.__setattr__(self, "torch", affected.model_copy(update=named))
        return self

    def affects(
        self, release: str, macos_minimum: str | None = None, macos: str | None = None, chip: str | None = None
    ) -> bool:
        """Whether a torch release is known to have it, which runs on ``macos_minimum`` and later.

        ``macos`` and ``chip`` (as ``machine_named`` takes it): those to judge for; None for any.
        """
        if chip is not None and not self.concerns(chip):
            return False
        return _within(self.torch, release) and _some_macos(self.macos, macos_minimum, macos)

    def concerns(self, chip: str) -> bool:
        """Whether that chip, as ``machine_named`` takes it, may have it."""
        asked = machine_named(chip).chip
        return not self.chips or bool({asked.name, asked.generation} & set(self.chips))


class Advisory(Affected):
    """A wrong result that sources establish. One that ``raises`` or ``ends`` is a verdict instead (``judging``)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)+$", max_length=40)]  # a name that never changes
    title: Sentence
    reached_from: tuple[str, ...] = ()  # what programs call instead and ends in one of these; only for looking it up
    message: Sentence | None = None  # of the error
    when: tuple[Condition, ...] = ()  # what must hold of a call, all of it
    when_any: tuple[tuple[Condition, ...], ...] = ()  # alternatives, one of which must hold as well
    unusual: bool = False  # values that few programs have: of each other one the report would say "if"
    condition: Sentence  # the same in words, and what cannot be checked without data or a Mac
    symptom: Sentence | None = None
    computes: Computes | None = None  # the same as a word and its objects, where a device without Metal can compute it
    workaround: Sentence
    hardware: Sentence | None = None  # what is known of the chips, where that does not say which ones have it
    basis: Sentence  # how the ranges are known
    sources: Annotated[tuple[Source, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _some_release_has_it(self) -> Advisory:
        if not (self.torch.since or self.torch.seen or self.torch.every or self.macos.fixed):
            raise ValueError("neither a torch release that has it is named, nor a macOS that cures it")
        return self

    @model_validator(mode="after")
    def _can_be_judged(self) -> Advisory:
        if not (self.when or self.when_any):
            raise ValueError("'when' or 'when_any' has to name the calls")
        if self.effect == "numbers":
            if self.symptom is None or self.message is not None:
                raise ValueError("wrong numbers have a 'symptom' and no 'message'")
            return self
        if self.effect == "raises" and self.message is None:
            raise ValueError("what raises has a 'message'")
        if self.chips:
            raise ValueError("a call that raises is judged for all chips: say in 'hardware' what is known of them")
        for condition in self.conditions:
            if words.is_asked(condition) or condition[0] == "phase":
                raise ValueError(
                    f"what raises is judged by shapes, strides, dtypes and arguments, not by '{condition[0]}'"
                )
        return self

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def conditions(self) -> tuple[words.Condition, ...]:
        return (*self.when, *(condition for group in self.when_any for condition in group))

    @property
    def where(self) -> str | None:
        """On which chips, for people: ``M1 and M2 only``; ``None`` where it is all of them."""
        if not self.chips:
            return self.hardware
        *others, last = (name.upper() if "-" not in name else machine_named(name).chip.label for name in self.chips)
        return (f"{', '.join(others)} and {last}" if others else last) + " only"


def _within(affected: AffectedRange, version: str) -> bool:
    """From the first version that is known to have it, to the last one; a nightly has what is to come."""
    if affected.every:
        return True
    asked = Version(Version(version).base_version)
    first = next((one for one in (affected.since, affected.same_code_since, *affected.seen) if one), None)
    if first is not None and asked < Version(first):
        return False
    if affected.fixed is not None:
        return asked < Version(affected.fixed)
    last = affected.same_code_until or next(reversed(affected.seen), None)
    return affected.open or last is None or asked <= Version(last)


def _some_macos(affected: AffectedRange, minimum: str | None, asked: str | None) -> bool:
    """Without a macOS that is asked about: whether the release runs on one that may have it."""
    if asked is not None:
        return _within(affected, asked)
    return affected.fixed is None or minimum is None or Version(minimum) < Version(affected.fixed)
