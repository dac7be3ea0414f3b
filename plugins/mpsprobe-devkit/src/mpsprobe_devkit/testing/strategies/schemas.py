"""Records of any schema, from the schema itself: a field that is new is made up from the day that it is there."""

from __future__ import annotations

import types
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from hypothesis import strategies as st
from pydantic import BaseModel

from mpsprobe_devkit.testing.strategies.texts import operator_names, releases, texts

Model = TypeVar("Model", bound=BaseModel)
LARGEST = 2**53  # the last integer that a float holds exactly
MOST_ITEMS = 2  # of a list: a report has lists of records with lists
BY_FIELD: dict[str, Callable[[], st.SearchStrategy[str]]] = {
    "operator": operator_names,
    "native_since": releases,
    "torch": releases,
}
OWN: dict[type[BaseModel], Callable[[], st.SearchStrategy[Any]]] = {}
"""Strategies for records that have rules beyond the types of their fields."""


@cache
def records(model: type[Model]) -> st.SearchStrategy[Model]:
    """Any valid record of ``model``, one of the classes in ``mpsprobe.schemas`` or a pydantic model of yours.

    Numbers that belong together (a count and what is counted) need not agree. Of fields with a default some are left
    out. Annotations may be made of ``str``, numbers, ``Literal``, lists, dictionaries, unions and further models.
    """
    if model in OWN:
        return OWN[model]()
    needed, further = {}, {}
    for name, field in model.model_fields.items():
        strategy = _of(field.annotation, tuple(field.metadata), name)
        if field.is_required():
            needed[name] = strategy
        else:
            further[name] = strategy
    return st.fixed_dictionaries(needed, optional=further).map(model.model_validate)


def _of(annotation: Any, metadata: tuple[Any, ...] = (), name: str = "") -> st.SearchStrategy[Any]:
    """Values for an annotation, within the bounds of ``metadata``; ``name`` is the field's."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return st.one_of([_of(one, metadata, name) for one in arguments])
    if origin is Annotated:
        return _of(arguments[0], metadata, name)
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin is list:
        least = next((one.min_length for one in metadata if getattr(one, "min_length", None)), 0)
        return st.lists(_of(arguments[0]), min_size=least, max_size=max(least, MOST_ITEMS))
    if origin is dict:
        return st.dictionaries(_of(arguments[0]), _of(arguments[1]), max_size=MOST_ITEMS)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return st.deferred(lambda: records(annotation))
    return _simple(annotation, metadata, name)


def _simple(annotation: Any, metadata: tuple[Any, ...], name: str) -> st.SearchStrategy[Any]:
    lowest = next((one.ge for one in metadata if getattr(one, "ge", None) is not None), None)
    highest = next((one.le for one in metadata if getattr(one, "le", None) is not None), None)
    if annotation is str:
        return BY_FIELD.get(name, texts)()
    if annotation is bool:
        return st.booleans()
    if annotation is int:
        return st.integers(0 if lowest is None else int(lowest), LARGEST if highest is None else int(highest))
    if annotation is float:
        return st.floats(lowest, highest, allow_nan=False, allow_infinity=False)
    if annotation is type(None):
        return st.none()
    raise TypeError(f"there is no strategy for {annotation!r}; register one in OWN for its model")
