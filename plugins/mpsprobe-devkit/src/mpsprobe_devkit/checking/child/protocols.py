"""Holds an object against its protocol: what it lacks, and which methods cannot be called as mpsprobe calls them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from mpsprobe.plugins.registry import protocol_of
from mpsprobe.suggestions import an, nearest

OPTIONAL: dict[str, dict[str, tuple[str, ...]]] = {
    "exporter": {"render_for_notebook": ("report",), "render_for_terminal": ("report",), "stream": ("report",)},
    "backend": {"installed": ()},
    "device": {"clock_unavailable": (), "stopwatch": ()},
}
"""Methods that an object may have besides its protocol, with their arguments; ``mpsprobe.protocols`` describes them."""
ATTRIBUTES: dict[str, type] = {"str": str, "bool": bool}


def differences(kind: str, declaration: Any, made: Any) -> list[str]:
    """What is wrong with ``made``, in words that follow "the exporter 'x'"."""
    if kind == "command":
        sound = isinstance(made, protocol_of(declaration))
        return [] if sound else [f"is {an(type(made).__name__)} instead of a click.Command"]
    protocol = protocol_of(declaration)
    found = [*_attributes(protocol, made), *_methods(protocol, made)]
    for name, arguments in OPTIONAL.get(kind, {}).items():
        method = getattr(made, name, None)
        if callable(method):
            try:
                inspect.signature(method).bind(*arguments)
            except TypeError as error:
                found.append(f"has {name}(), which cannot be called with ({', '.join(arguments)}): {error}")
            except ValueError:
                continue
    if not found and not isinstance(made, protocol):
        found.append(f"is {an(type(made).__name__)}, which is no {protocol.__name__}")
    return found


def _attributes(protocol: type, made: Any) -> Iterator[str]:
    for name, annotation in inspect.get_annotations(protocol).items():
        if name.startswith("_"):
            continue
        if not hasattr(made, name):
            yield f"has no attribute '{name}'{_near(name, made)}"
        elif (wanted := ATTRIBUTES.get(str(annotation))) and not isinstance(getattr(made, name), wanted):
            yield f"has {an(type(getattr(made, name)).__name__)} as its {name}, which should be {annotation}"


def _methods(protocol: type, made: Any) -> Iterator[str]:
    for name, function in vars(protocol).items():
        if name.startswith("_") or not inspect.isfunction(function):
            continue
        method = getattr(made, name, None)
        if method is None:
            yield f"has no method {name}(){_near(name, made)}"
        elif not callable(method):
            yield f"has {an(type(method).__name__)} as its {name}, which should be a method"
        else:
            yield from _signature(name, inspect.signature(function), method)


def _signature(name: str, wanted: inspect.Signature, method: Any) -> Iterator[str]:
    try:
        mine = inspect.signature(method)
    except (TypeError, ValueError):  # of a class in C
        return
    if inspect.iscoroutinefunction(method):
        yield f"has {name}() as a coroutine, and nothing would wait for it"
    parameters = [one for one in wanted.parameters.values() if one.name != "self"]
    by_position = [one.name for one in parameters if one.kind is not one.KEYWORD_ONLY]
    by_name = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY]
    called = ", ".join([*by_position, *(f"{one}=…" for one in by_name)])
    try:
        bound = mine.bind(*by_position, **dict.fromkeys(by_name))
    except TypeError as error:
        yield f"has {name}{mine}, which cannot be called as {name}({called}): {error}"
        return
    swapped = [
        f"'{argument}' arrives as '{parameter}'"
        for parameter, argument in bound.arguments.items()
        if isinstance(argument, str) and argument != parameter and parameter in by_position
    ]
    if swapped:
        yield f"has {name}{mine}, which is called as {name}({called}): {swapped[0]}"


def _near(name: str, made: Any) -> str:
    near = nearest(name, [one for one in dir(made) if not one.startswith("_")], count=1)
    return f" (there is '{near[0]}')" if near else ""
