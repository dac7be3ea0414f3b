"""Reports changed on purpose: a text in every place that takes one, a number everywhere, nothing in every list."""

from __future__ import annotations

import itertools
import types
from collections.abc import Callable
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from mpsprobe.schemas import Report

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

    def leaf(value: Any, annotation: Any, _metadata: Any) -> Any:
        return text if isinstance(value, str) and str in _arms(annotation) else value

    return _valid(_walked(report, leaf), report)


def with_number(report: Report, number: int) -> Report:
    """``report`` with ``number`` wherever a number may be that large or small.

    Args:
        number: for example 0, or 2**53, the last integer that a float (and so JavaScript) holds exactly.
    """

    def leaf(value: Any, annotation: Any, metadata: Any) -> Any:
        fits = not isinstance(value, bool) and isinstance(value, (int, float)) and number >= _least(metadata, number)
        kind = next((number for number in (float, int) if number in _arms(annotation)), None)
        return kind(number) if fits and kind is not None else value

    return _valid(_walked(report, leaf), report)


def emptied(report: Report) -> Report:
    """``report`` with nothing in it: empty lists and texts, no optional part, zero wherever zero is allowed.

    Of a list that has to have something, the first item stays.
    """

    def leaf(value: Any, annotation: Any, metadata: Any) -> Any:
        if isinstance(value, str):
            return "" if str in _arms(annotation) else value
        number = type(value) in (int, float) and type(value) in _arms(annotation)
        return type(value)(max(0, _least(metadata, 0))) if number else value

    return _valid(_walked(report, leaf, empty=True), report)


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


def _least(metadata: Any, usual: int) -> Any:
    return next((line.ge for line in metadata if getattr(line, "ge", None) is not None), usual)


def _arms(annotation: Any) -> tuple[Any, ...]:
    """The types that an annotation allows: those of a union, or itself; of ``list[str]`` that whole."""
    if get_origin(annotation) in (Union, types.UnionType):
        return get_args(annotation)
    return (annotation,)


def _inner(annotation: Any, container: type) -> tuple[Any, ...]:
    """What a list or a dictionary holds, by its annotation; ``Any`` where it does not say."""
    return next((get_args(arm) for arm in _arms(annotation) if get_origin(arm) is container), (Any, Any))


def _walked(value: Any, leaf: Leaf, annotation: Any = Any, metadata: Any = (), *, empty: bool = False) -> Any:
    """``value`` as plain data, with ``leaf`` applied to whatever is neither a record nor a list nor a dictionary.

    Args:
        empty: without what need not be there.
    """
    if empty and type(None) in _arms(annotation):
        return None
    if isinstance(value, BaseModel):
        known, made = type(value).model_fields, {}
        for name, inner in BaseModel.__iter__(value):  # iterating a report itself gives what it is about
            if name in known:
                made[name] = _walked(inner, leaf, known[name].annotation, known[name].metadata, empty=empty)
            elif not empty:
                made[name] = _walked(inner, leaf, str | int | float)
        return made
    if isinstance(value, list):
        least = next((line.min_length for line in metadata if getattr(line, "min_length", None)), 0)
        items = value[:least] if empty else value
        return [_walked(inner, leaf, _inner(annotation, list)[0], empty=empty) for inner in items]
    if isinstance(value, dict):
        keys, values = _inner(annotation, dict)
        changed: dict[Any, Any] = {}
        for key, inner in {} if empty else value.items():
            wanted = leaf(key, keys, ())
            numbered = (f"{wanted}{number}" for number in itertools.count(2))
            free = wanted if wanted not in changed else next(name for name in numbered if name not in changed)
            changed[free] = _walked(inner, leaf, values)
        return changed
    return leaf(value, annotation, metadata)
