"""Hypothesis strategies: reports of every kind, traces, names, texts. Needs Hypothesis, which comes with the kit.

In a test::

    @given(coverage_reports())
    def test_it_renders(report): ...

Any valid report is made: counts and sums need not agree with each other. It is made from its schema, so a field that is
new is made up from the day that it is there.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from hypothesis import strategies as st
from pydantic import BaseModel

from mpsprobe.schemas import Counter, CoverageReport, Report, Trace
from mpsprobe.schemas.report import KINDS
from mpsprobe_devkit.testing.mutations import HOSTILE_TEXTS
from mpsprobe_devkit.testing.samples import sample_trace

__all__ = [
    "coverage_reports", "hostile_texts", "operator_names", "records", "releases", "reports", "reports_of", "texts",
    "traces",
]  # fmt: skip

Model = TypeVar("Model", bound=BaseModel)
LARGEST = 2**53  # the last integer that a float holds exactly
MOST_ITEMS = 2  # of a list: a report has lists of records with lists
SECOND_NS = 10**9


def texts() -> st.SearchStrategy[str]:
    """Short texts of any characters that UTF-8 can hold: lone surrogates are left out."""
    return st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=12)


def hostile_texts() -> st.SearchStrategy[str]:
    """Markup, escape sequences, formulas, line ends, 5,000 characters, half a surrogate pair; and any other text."""
    tricky = st.text(alphabet="|`\\<>&*_[]{}=+-@\"'\n\r\t .:/0123456789a", max_size=40)
    return st.sampled_from(list(HOSTILE_TEXTS.values())) | tricky | st.text(max_size=60)


def operator_names() -> st.SearchStrategy[str]:
    """Operators as reports write them: ``aten::linalg_qr.out``."""
    return st.from_regex(r"[a-z]{2,8}::[a-z_]{1,12}(\.[A-Za-z_]{1,8})?", fullmatch=True)


def releases() -> st.SearchStrategy[str]:
    """Releases of torch, among them ones that never were: ``2.13.0``."""
    return st.builds("{}.{}.{}".format, st.integers(1, 3), st.integers(0, 40), st.integers(0, 9))


def coverage_reports() -> st.SearchStrategy[CoverageReport]:
    """Any valid coverage report."""
    return records(CoverageReport)


def reports() -> st.SearchStrategy[Report]:
    """Any valid report of a kind that mpsprobe knows."""
    return reports_of(*KINDS)


def reports_of(*kinds: str) -> st.SearchStrategy[Report]:
    """Any valid report of one of ``kinds``: what an exporter declares that it reads.

    Raises:
        KeyError: mpsprobe knows no such kind.
    """
    return st.one_of([records(KINDS[kind]) for kind in kinds])


@st.composite
def _traces(draw: st.DrawFn) -> Trace:
    sample, count = sample_trace(), draw(st.integers(0, 6))
    names = draw(st.lists(texts(), min_size=1, max_size=3))
    details = draw(st.lists(st.dictionaries(texts(), texts(), max_size=2), max_size=2))
    tables = {**sample.model_dump(), "names": names, "details": details}
    columns = {"name": (0, len(names) - 1), "detail": (-1, len(details) - 1), "flow": (0, 2)}
    columns |= {"category": (0, len(sample.categories) - 1), "track": (0, len(sample.tracks) - 1)}
    columns |= dict.fromkeys(("start_ns", "duration_ns"), (0, SECOND_NS))
    for name, bounds in columns.items():
        tables[name] = draw(st.lists(st.integers(*bounds), min_size=count, max_size=count))
    return Trace.model_validate({**tables, "start_ns": sorted(tables["start_ns"])})


def traces() -> st.SearchStrategy[Trace]:
    """Any valid trace: its columns agree, its events are in order; they need not nest."""
    return _traces()


@cache
def records(model: type[Model]) -> st.SearchStrategy[Model]:
    """Any valid record of ``model``, one of the classes in ``mpsprobe.schemas`` or a pydantic model of yours.

    Of fields with a default some are left out. Annotations may be made of ``str``, numbers, ``Literal``, lists,
    dictionaries, unions and further models.
    """
    if (own := OWN.get(model)) is not None:
        return own()
    fields: dict[bool, dict[str, Any]] = {True: {}, False: {}}
    for name, field in model.model_fields.items():
        fields[field.is_required()][name] = _of(field.annotation, tuple(field.metadata), name)
    return st.fixed_dictionaries(fields[True], optional=fields[False]).map(model.model_validate)


def _of(annotation: Any, metadata: tuple[Any, ...] = (), name: str = "") -> st.SearchStrategy[Any]:
    """Values for an annotation, within the bounds of ``metadata``; ``name`` is the field's."""
    origin, arguments = get_origin(annotation), get_args(annotation)

    def bound(name: str, usual: Any) -> Any:
        return next((value for line in metadata if (value := getattr(line, name, None)) is not None), usual)

    if origin in (Union, types.UnionType):
        return st.one_of([_of(argument, metadata, name) for argument in arguments])
    if origin is Annotated:
        return _of(arguments[0], metadata, name)
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin is list:
        least = bound("min_length", 0)
        return st.lists(_of(arguments[0]), min_size=least, max_size=max(least, MOST_ITEMS))
    if origin is dict:
        return st.dictionaries(_of(arguments[0]), _of(arguments[1]), max_size=MOST_ITEMS)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return st.deferred(lambda: records(annotation))
    if annotation is int:
        return st.integers(int(bound("ge", 0)), int(bound("le", LARGEST)))
    if annotation is float:
        return st.floats(bound("ge", None), bound("le", None), allow_nan=False, allow_infinity=False)
    simple: dict[Any, Any] = {str: BY_FIELD.get(name, texts), bool: st.booleans, type(None): st.none}
    if annotation not in simple:
        raise TypeError(f"there is no strategy for {annotation!r}; register one in OWN for its model")
    strategy: st.SearchStrategy[Any] = simple[annotation]()
    return strategy


BY_FIELD = {"operator": operator_names, "native_since": releases, "torch": releases}
OWN: dict[type[BaseModel], Callable[[], st.SearchStrategy[Any]]] = {
    Trace: traces,
    Counter: lambda: st.sampled_from(sample_trace().counters),
}
"""Strategies for records that have rules beyond the types of their fields."""
