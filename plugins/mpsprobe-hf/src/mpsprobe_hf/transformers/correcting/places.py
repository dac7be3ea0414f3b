"""Where an error went through, and a guess with one thing changed."""

from __future__ import annotations

import linecache
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import FrameType

from mpsprobe_hf.forms import Argument, Size
from mpsprobe_hf.transformers.inputs.guess import Guess

Sizes = Mapping[str, int]
"""``batch`` and ``seq`` of the inputs that were given."""
Place = tuple[FrameType, int]
"""A frame and its line; the frame itself may have gone on."""


def passed_through(error: Exception) -> list[Place]:
    """Where the error went through, the innermost place first."""
    places = []
    traceback = error.__traceback__
    while traceback is not None:
        places.append((traceback.tb_frame, traceback.tb_lineno))
        traceback = traceback.tb_next
    return places[::-1]


def line_of(place: Place) -> str:
    """The line."""
    return linecache.getline(place[0].f_code.co_filename, place[1]).strip()


def main_input(guess: Guess) -> str:
    """The main input, as far as it has a form that can change."""
    given = guess.given()
    return next((name for name in (*guess.signature.main, *given) if name in given and name != "input_ids"), "")


def knowing(guess: Guess, said: str, **known: int) -> Guess:
    """``guess`` with measures that are known better."""
    return replace(guess, measures=guess.measures.knowing(**known), learned=(*guess.learned, said))


def shaped(guess: Guess, name: str, form: Argument, shape: Iterable[Size]) -> Guess | None:
    """``guess`` with another shape of the argument ``name``; ``None`` if it has that."""
    better = replace(form, shape=tuple(shape))
    if better == form:
        return None
    said = f"{name} as ({', '.join(map(str, better.shape))})"
    return replace(guess, arguments={**guess.arguments, name: better}, learned=(*guess.learned, said))


def elements(guess: Guess, size: Size, sizes: Sizes) -> int:
    """``size`` as a number."""
    if isinstance(size, int):
        return size
    measure, times, of = size.partition("*")
    if times:
        return guess.measures[measure] * sizes.get(of, 1)
    return sizes.get(size, 0) if size in ("batch", "seq") else guess.measures[size]
