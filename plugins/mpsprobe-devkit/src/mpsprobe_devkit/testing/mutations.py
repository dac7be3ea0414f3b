"""Reports changed on purpose: a text in every place that takes one, nothing in every list, a number everywhere."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from mpsprobe.schemas import Report

Model = TypeVar("Model", bound=BaseModel)
Leaf = Callable[[Any, Any, Any], Any]  # value, annotation, metadata of its field -> another value

MOST_REFUSALS = 20  # rounds of putting back what a schema refuses
MARKED_ELEMENT = "mpsprobe-hostile"
MARKED_FORMULA = "=HYPERLINK"
MARKED_SCRIPT = "javascript:"
HOSTILE_TEXTS: dict[str, str] = {
    "an HTML element": f"<{MARKED_ELEMENT} onload=alert(1)></{MARKED_ELEMENT}>",
    "the end of a script, a comment and a title": f"</script></style></title>--><{MARKED_ELEMENT}>",
    "the end of an attribute": f"\"'><{MARKED_ELEMENT} x=\"'`",
    "the end of a CDATA section": f"]]><{MARKED_ELEMENT}/>&amp;&#0;&bogus;",
    "a script as an address": f"{MARKED_SCRIPT}alert(1)",
    "escape sequences": "\x1b[2J\x1b]0;owned\x07\x1b[31mred\x9b2J",
    "line ends": "one\ntwo\r\nthree\x0b\x0c\x1c\x85\u2028\u2029four",
    "the character NUL": "\x00",
    "a formula": f'{MARKED_FORMULA}("http://localhost")',
    "a separator and quotes": 'quote";and,comma\ttab|bar\\',
    "a path that leads elsewhere": "../../elsewhere/\\..\\C:",
    "5,000 characters": "a" * 5000,
    "nothing": "",
    "a space": " ",
    "half a surrogate pair": "\ud800",
    "right to left": "\u202eright to left\u202c\u200f",
    "another script": "日本語のモジュール名 e\u0301 \U0001f9ea",
    "markup": "`code` ``` *bold* _under_ [link](http://localhost) | cell | # heading [red]x[/red]",
    "what looks like a placeholder": "{0} {name} %s %(x)s ${y} $(z)",
}
"""Texts that want to break out of wherever they are put, by what they are."""


def with_text(report: Report, text: str) -> Report:
    """``report`` with ``text`` in every place that takes any text, keys of dictionaries among them.

    A second key that would be equal gets a number behind it. Where the schema takes only certain words (a verdict, a
    phase), or refuses ``text``, they stay; so do ``kind`` and ``schema_version``.
    """

    def leaf(value: Any, annotation: Any, metadata: Any) -> Any:
        del metadata
        return text if isinstance(value, str) and str in _arms(annotation) else value

    return _valid(_walked(report, leaf), report)


def emptied(report: Report) -> Report:
    """``report`` with nothing in it: empty lists and texts, no optional part, zero wherever zero is allowed.

    Of a list that has to have something, the first item stays.
    """
    return _valid(_emptied(report), report)


def with_number(report: Report, number: int) -> Report:
    """``report`` with ``number`` wherever a number may be that large or small.

    Args:
        number: for example 0, or 2**53, the last integer that a float (and so JavaScript) holds exactly.
    """

    def leaf(value: Any, annotation: Any, metadata: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return value
        lowest = next((one.ge for one in metadata if getattr(one, "ge", None) is not None), None)
        if lowest is not None and number < lowest:
            return value
        return float(number) if float in _arms(annotation) else number if int in _arms(annotation) else value

    return _valid(_walked(report, leaf), report)


def with_unknown_keys(report: Report) -> Report:
    """``report`` as a newer version may write it: in each of its records a key that no schema here knows."""
    added = {"from_a_newer_version": {"text": "<b>", "numbers": [1, 2.5, None, float("nan")]}}

    def grown(value: Any) -> Any:
        if isinstance(value, BaseModel):
            return {**{name: grown(inner) for name, inner in BaseModel.__iter__(value)}, **added}
        if isinstance(value, dict):
            return {key: grown(inner) for key, inner in value.items()}
        return [grown(inner) for inner in value] if isinstance(value, list) else value

    return _valid(grown(report), report)


def _valid(data: Any, report: Report) -> Report:
    """``data`` as a report; what the schema refuses is put back from ``report``, all of it where parts cannot be."""
    original = report.model_dump()
    data |= {"kind": report.kind, "schema_version": report.schema_version}
    for _ in range(MOST_REFUSALS):
        try:
            return type(report).model_validate(data)
        except ValidationError as refused:
            if not all(_put_back(data, original, error["loc"]) for error in refused.errors()):
                break
    return report


def _put_back(data: Any, original: Any, path: tuple[int | str, ...]) -> bool:
    """Take what is at ``path`` from ``original``; whether both have such a place."""
    try:
        for part in path[:-1]:
            data, original = data[part], original[part]
        data[path[-1]] = original[path[-1]]
    except (LookupError, TypeError):
        return False
    return True


def _arms(annotation: Any) -> tuple[Any, ...]:
    """The types that an annotation allows: those of a union, or itself; of ``list[str]`` that whole."""
    if get_origin(annotation) in (Union, types.UnionType):
        return get_args(annotation)
    return (annotation,)


def _inner(annotation: Any, container: type) -> tuple[Any, ...]:
    """What a list or a dictionary holds, by its annotation; ``Any`` where it does not say."""
    for arm in _arms(annotation):
        if get_origin(arm) is container:
            return get_args(arm)
    return (Any, Any)


def _walked(value: Any, leaf: Leaf, annotation: Any = Any, metadata: Any = ()) -> Any:
    """``value`` as plain data, with ``leaf`` applied to whatever is neither a record nor a list nor a dictionary."""
    if isinstance(value, BaseModel):
        fields = BaseModel.__iter__(value)  # iterating a report gives what it is about
        return {name: _walked(inner, leaf, *_declared(value, name)) for name, inner in fields}
    if isinstance(value, list):
        return [_walked(inner, leaf, _inner(annotation, list)[0]) for inner in value]
    if isinstance(value, dict):
        keys, values = _inner(annotation, dict)
        changed: dict[Any, Any] = {}
        for key, inner in value.items():
            wanted = leaf(key, keys, ())
            free = next(one for one in _numbered(wanted) if one not in changed)
            changed[free] = _walked(inner, leaf, values)
        return changed
    return leaf(value, annotation, metadata)


def _numbered(wanted: Any) -> Iterator[Any]:
    yield wanted
    number = 2
    while isinstance(wanted, str):
        yield f"{wanted}{number}"
        number += 1


def _declared(record: BaseModel, name: str) -> tuple[Any, Any]:
    """Annotation and metadata of a field; ``Any`` for a key that the schema does not know."""
    known = type(record).model_fields.get(name)
    return (known.annotation, known.metadata) if known is not None else (str | int | float, ())


def _emptied(value: Any, annotation: Any = Any, metadata: Any = ()) -> Any:
    if type(None) in _arms(annotation):
        return None
    if isinstance(value, BaseModel):
        fields = BaseModel.__iter__(value)
        known = {name: inner for name, inner in fields if name in type(value).model_fields}
        return {name: _emptied(inner, *_declared(value, name)) for name, inner in known.items()}
    if isinstance(value, list):
        least = next((one.min_length for one in metadata if getattr(one, "min_length", None)), 0)
        return [_emptied(inner, _inner(annotation, list)[0]) for inner in value[:least]]
    if isinstance(value, dict):
        return {}
    if isinstance(value, str):
        return "" if str in _arms(annotation) else value
    if isinstance(value, bool) or not isinstance(value, (int, float)) or type(value) not in _arms(annotation):
        return value
    least = next((one.ge for one in metadata if getattr(one, "ge", None) is not None), 0)
    return max(0, least) if isinstance(value, int) else 0.0
