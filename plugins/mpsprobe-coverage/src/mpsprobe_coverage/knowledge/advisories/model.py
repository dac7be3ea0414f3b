"""One advisory, as the data files have it, checked when it is read. Neither torch nor a kernel table is needed here."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar

from packaging.version import InvalidVersion, Version
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from mpsprobe.schemas import AffectedRange, AffectedSystems
from mpsprobe_coverage.knowledge.chips.store import all_chips, machine_named

ISSUE = re.compile(r"[\w.-]+/[\w.-]+#\d+")
SUBJECT = re.compile(r"(?P<name>[a-z_][a-z_0-9]*)(?:\[(?P<dim>-?\d)\]|\.(?P<fact>dtype|elements|dims|rows))?")
COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "divides": lambda left, right: left != 0 and right % left == 0,
    "does not divide": lambda left, right: left != 0 and right % left != 0,
}
RELATIONS = ("is", "is not", "in", "not in", *COMPARISONS)
LAYOUTS = ("given", "contiguous", "channels last", "packed", "expanded", "channels last slice")
PHASES = ("forward", "backward", "optimizer")

_Range = TypeVar("_Range", bound=AffectedRange)
Word = str | bool | int | float
Condition = tuple[str, str, Word | list[Word]]
"""(subject, relation, object), in the words of ``docs/explanation/advisories.md``."""


def _sentence(text: str) -> str:
    if not text.strip() or text != " ".join(text.split()):
        raise ValueError("needs words, with single spaces between them")
    return text


def _known_condition(condition: Condition) -> Condition:
    subject, relation, wanted = condition
    if not SUBJECT.fullmatch(subject):
        raise ValueError(f"'{subject}' is no subject: an argument, tensorN or outputN, with [dim], .dtype or nothing")
    if relation not in RELATIONS:
        raise ValueError(f"'{relation}' is not a relation: there are {', '.join(RELATIONS)}")
    if (relation in ("in", "not in")) != isinstance(wanted, list):
        raise ValueError(f"'{relation}' needs {'a list' if relation in ('in', 'not in') else 'one object'}")
    if relation in ("is", "is not") and isinstance(wanted, str) and wanted not in LAYOUTS:
        raise ValueError(f"'{wanted}' is not a layout: there are {', '.join(LAYOUTS)}")
    if (subject == "phase" or subject.endswith(".dtype")) and relation not in ("in", "not in"):
        raise ValueError(f"'{subject}' can only be 'in' or 'not in' a list")
    if relation in COMPARISONS and isinstance(wanted, str) and not SUBJECT.fullmatch(wanted):
        raise ValueError(f"'{wanted}' is neither a number nor a subject")
    if subject == "phase" and not set(wanted if isinstance(wanted, list) else []) <= set(PHASES):
        raise ValueError(f"there are the phases {', '.join(PHASES)}")
    return condition


def _parsed_range(affected: _Range) -> _Range:
    named = [text for text in (affected.since, *affected.seen, affected.fixed) if text is not None]
    try:
        versions = [Version(version) for version in named]
    except InvalidVersion as error:
        raise ValueError(str(error)) from None
    if versions != sorted(versions) or len(set(versions)) != len(versions):
        raise ValueError("since, seen and fixed must follow each other")
    if affected.every:
        if named or affected.open:
            raise ValueError("'every' stands alone")
    elif affected.fixed is not None and affected.open:
        raise ValueError("it cannot be both open and fixed")
    return affected


def _source(text: str) -> str:
    if not (ISSUE.fullmatch(text) or text.startswith("https://")):
        raise ValueError(f"'{text}' is neither owner/repository#number nor an https address")
    return text


def _known_chip(name: str) -> str:
    if name not in {known for chip in all_chips().values() for known in (chip.name, chip.generation)}:
        raise ValueError(f"'{name}' is no chip and no generation of chips")
    return name


Sentence = Annotated[str, AfterValidator(_sentence)]
Checked = Annotated[Condition, AfterValidator(_known_condition)]
Range = Annotated[AffectedRange, AfterValidator(_parsed_range)]
Systems = Annotated[AffectedSystems, AfterValidator(_parsed_range)]
Source = Annotated[str, AfterValidator(_source)]


class Advisory(BaseModel):
    """A wrong result that sources establish."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)+$", max_length=40)]  # a name that never changes
    title: Sentence
    operators: Annotated[tuple[str, ...], Field(min_length=1)]  # really called on MPS, by the names that a report has
    reached_from: tuple[str, ...] = ()  # what programs call instead and ends in one of these; only for looking it up
    when: Annotated[tuple[Checked, ...], Field(min_length=1)]  # what must hold of a call, all of it
    when_any: tuple[tuple[Checked, ...], ...] = ()  # alternatives, one of which must hold as well
    condition: Sentence  # the same in words, and what cannot be checked without data or a Mac
    symptom: Sentence
    workaround: Sentence
    chips: tuple[Annotated[str, AfterValidator(_known_chip)], ...] = ()  # by generation (m1) or name (m1-max); or all
    hardware: Sentence | None = None  # what is known of the chips, where that does not say which ones have it
    torch: Range
    macos: Systems
    basis: Sentence  # how the ranges are known
    sources: Annotated[tuple[Source, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _some_release_has_it(self) -> Advisory:
        if not (self.torch.since or self.torch.seen or self.torch.every or self.macos.fixed):
            raise ValueError("neither a torch release that has it is named, nor a macOS that cures it")
        return self

    @property
    def where(self) -> str | None:
        """On which chips, for people: ``M1 and M2 only``; ``None`` where it is all of them."""
        if not self.chips:
            return self.hardware
        *others, last = (name.upper() if "-" not in name else machine_named(name).chip.label for name in self.chips)
        return (f"{', '.join(others)} and {last}" if others else last) + " only"

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


def _within(affected: AffectedRange, version: str) -> bool:
    """From the first version that is known to have it, to the last one."""
    if affected.every:
        return True
    asked, seen = Version(version), [Version(known) for known in affected.seen]
    first = Version(affected.since) if affected.since else min(seen, default=None)
    if first is not None and asked < first:
        return False
    if affected.fixed is not None:
        return asked < Version(affected.fixed)
    return affected.open or not seen or asked <= max(seen)


def _some_macos(affected: AffectedRange, minimum: str | None, asked: str | None) -> bool:
    """Without a macOS that is asked about: whether the release runs on one that may have it."""
    if asked is not None:
        return _within(affected, asked)
    return affected.fixed is None or minimum is None or Version(minimum) < Version(affected.fixed)
