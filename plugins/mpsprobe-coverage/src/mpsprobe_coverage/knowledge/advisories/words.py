"""The words of conditions: what each may be about, and which of them are known only while the call is made.

A condition is (subject, relation, object); ``docs/explanation/advisories.md`` lists the words. ``conditions.py`` says
whether one holds.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

Word = str | bool | int | float
Condition = tuple[str, str, Word | tuple[Word, ...]]

COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "divides": lambda left, right: left != 0 and right % left == 0,
    "does not divide": lambda left, right: left != 0 and right % left != 0,
    "is not a multiple of": lambda left, right: left != 0 and (right == 0 or left % right != 0),
}
LISTS = ("in", "not in")
STATES = ("is", "is not")
SHARING = ("shares memory with", "does not share memory with")
CONTAINS = "contains"
RELATIONS = (*STATES, *LISTS, *SHARING, CONTAINS, *COMPARISONS)
LAYOUTS = (
    *("contiguous", "channels last", "channels last slice", "packed", "transposed"),
    *("strided", "expanded", "overlapping"),
)
A_VIEW, CONJUGATED = "a view", "conjugated"
CONTENTS = ("with nan", "with inf", "with a masked row")
WORDS = ("given", *LAYOUTS, A_VIEW, CONJUGATED, *CONTENTS)
PHASES = ("forward", "backward", "optimizer")
CALLERS = ("another thread", "captured", "grad")
COMPUTED = (
    *("ignores-strides", "ignores-offset", "transposes", "rounds", "omits", "takes", "swaps", "reads-nan-as"),
    *("keeps", "returns", "returns-behind", "repeats-first", "reverses", "adds-zero-times"),
)
"""What can be computed of a wrong result, each with its objects behind it; ``native/wrong.py`` does so."""
_FACTS = ("dtype", "dims", "elements", "rows", "plane", "bytes", "length", "device", "offset", "min", "max", "range")
_VALUES = ("min", "max", "range")
_KINDS: Mapping[str, tuple[str, ...]] = {"phase": PHASES, "caller": CALLERS, "device": ("cpu", "mps")}
"""Subjects and facts that are one of a few words."""
_SUBJECT = re.compile(
    r"(?P<name>[A-Za-z_]\w*)(?:\[(?P<item>\d|\*)\](?=$|[.\[]))?"
    rf"(?:\[(?P<dim>-?\d)\]|\.stride\[(?P<along>-?\d)\]|\.(?P<fact>{'|'.join(_FACTS)}))?"
)


class Subject(NamedTuple):
    name: str
    item: str | None  # of a list of tensors: a position, or ``*`` for some of them; of a tensor: a dimension
    dim: str | None
    along: str | None  # the dimension of a stride
    fact: str | None

    @property
    def is_whole(self) -> bool:
        """Whether it is an argument itself, nothing about it."""
        return not (self.dim or self.along or self.fact)

    @property
    def is_output(self) -> bool:
        return self.name.startswith("output") and self.name.removeprefix("output").isdecimal()


@functools.cache
def subject(text: str) -> Subject:
    parts = _SUBJECT.fullmatch(text)
    if parts is None:
        raise ValueError(
            f"'{text}' is no subject: an argument, tensorN, outputN, phase or caller; for a list [N] or [*]; "
            f"then [dim], .stride[dim], .{', .'.join(_FACTS)} or nothing"
        )
    return Subject(*parts.group("name", "item", "dim", "along", "fact"))


def known(condition: Condition) -> Condition:
    """``condition``; raises ``ValueError`` for one that is not made of known words."""
    text, relation, wanted = condition
    about = subject(text)
    if relation not in RELATIONS:
        raise ValueError(f"'{relation}' is no relation: there are {', '.join(RELATIONS)}")
    if (relation in LISTS) != isinstance(wanted, tuple):
        raise ValueError(f"'{relation}' needs {'a list' if relation in LISTS else 'one object'}")
    if relation in STATES and isinstance(wanted, str) and wanted not in WORDS:
        raise ValueError(f"'{wanted}' is no state of a tensor: there are {', '.join(WORDS)}")
    other = subject(wanted) if relation in (*COMPARISONS, *SHARING, CONTAINS) and isinstance(wanted, str) else None
    if relation in SHARING and not (about.is_whole and other is not None and other.is_whole):
        raise ValueError(f"'{relation}' needs a tensor on both sides")
    if relation == CONTAINS and not about.is_whole:
        raise ValueError(f"'{relation}' needs a tensor in front of it")
    of_dtypes = relation in ("==", "!=") and other is not None and other.fact == about.fact
    kind = about.fact or about.name
    if (kind in _KINDS and relation not in LISTS) or (kind == "dtype" and relation not in LISTS and not of_dtypes):
        raise ValueError(f"'{text}' can only be 'in' or 'not in' a list")
    if kind in _KINDS and isinstance(wanted, tuple) and not set(wanted) <= set(_KINDS[kind]):
        raise ValueError(f"'{text}' is one of {', '.join(_KINDS[kind])}")
    if about.fact in _VALUES and relation not in COMPARISONS:
        raise ValueError(f"'{text}' is a number: it stands with {', '.join(COMPARISONS)}")
    if is_asked(condition) and any(place is not None and place.is_output for place in (about, other)):
        raise ValueError("only arguments have an offset, memory and values: results are not made yet")
    return condition


def is_asked(condition: Condition) -> bool:
    """Whether calls with the same specs and arguments may differ in it: it is decided anew for each call."""
    text, relation, wanted = condition
    facts = [subject(text).fact]
    if relation in COMPARISONS and isinstance(wanted, str):
        facts.append(subject(wanted).fact)
    of_values = relation == CONTAINS or (relation in STATES and wanted in (A_VIEW, CONJUGATED, *CONTENTS))
    return text == "caller" or relation in SHARING or of_values or bool({"offset", *_VALUES}.intersection(facts))
