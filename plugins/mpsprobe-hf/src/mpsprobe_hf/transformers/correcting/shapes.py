"""Other dimensions of inputs: those that a message lists, or that a line names which takes a tensor apart."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

from mpsprobe_hf.forms import Size
from mpsprobe_hf.transformers.correcting.places import Place, Sizes, line_of, main_input, shaped
from mpsprobe_hf.transformers.inputs.guess import Guess
from mpsprobe_hf.transformers.inputs.rules import ARGUMENTS

BY_PATCH = ("grid*batch", "patch_values")
"""The patches of all images as rows of a matrix."""
FORM = re.compile(r"shape \(([\w, ]+)\)")
CONVOLVED = re.compile(r"input to conv2d, but got input of size: \[\d+, \d+\]")
UNPACKED = re.compile(r"not enough values to unpack \(expected (\d+), got (\d+)\)")
DIMENSIONS: Mapping[str, Size] = {
    **dict.fromkeys(("batch_size", "batch", "bsz", "b", "bs", "n"), "batch"),
    **dict.fromkeys(("num_channels", "channels", "c", "in_channels", "num_input_channels"), "channels"),
    **dict.fromkeys(("height", "h", "image_height"), "height"),
    **dict.fromkeys(("width", "w", "image_width"), "width"),
    **dict.fromkeys(("num_frames", "frames", "t", "time", "depth"), "clip"),
    **dict.fromkeys(("seq_len", "seq_length", "sequence_length", "length"), "seq"),
    **dict.fromkeys(("num_images", "num_tiles", "max_num_images", "num_concurrent_media", "_"), 1),
}
"""What models call the dimensions of their inputs."""


def form(guess: Guess, error: Exception, places: list[Place], sizes: Sizes) -> Guess | None:
    """The dimensions that the message lists, or that the line names which takes the tensor apart."""
    listed = FORM.search(str(error))
    if listed is not None:
        shape = [_dimension(word) for word in re.findall(r"\w+", listed[1])]
        return _reshaped(guess, main_input(guess), shape)
    unpacked = UNPACKED.search(str(error))
    if unpacked is not None or CONVOLVED.search(str(error)):
        for name in guess.given():
            form = guess.form(name)
            if form is not None and form.shape == BY_PATCH:
                return shaped(guess, name, form, ("grid*batch", "channels", "patch", "patch"))
    if unpacked is None:
        return None
    lacking = int(unpacked[1]) - int(unpacked[2])
    for place in places:
        taken = _taken_apart(place)
        if taken is None:
            continue
        words, source = taken
        name = source if source in guess.given() else main_input(guess)
        form = guess.form(name) if name else None
        if form is None:
            continue
        if len(words) == len(form.shape) + lacking and source in guess.given():
            known = [_dimension(word) for word in words]
            if None not in known:
                return _reshaped(guess, name, known)
        return shaped(guess, name, form, [form.shape[0], *[1] * lacking, *form.shape[1:]])
    return None


def other_form(guess: Guess, error: Exception, places: list[Place], sizes: Sizes) -> Guess | None:
    """The next form that models give a floating-point input, where nothing in the error can be read."""
    for name in guess.given():
        now = guess.form(name)
        for form in ARGUMENTS.get(name, ()):
            if now is not None and form.kind == now.kind == "floats" and not form.if_ and form.shape != now.shape:
                better = shaped(guess, name, now, form.shape)
                if better is not None and better.learned[-1] not in guess.learned:
                    return better
    return None


def _dimension(word: str) -> Size | None:
    return int(word) if word.isdigit() else DIMENSIONS.get(word.lower())


def _taken_apart(place: Place) -> tuple[list[str], str] | None:
    """``(names, tensor)`` of a line such as ``batch, channels, height, width = pixel_values.shape``."""
    try:
        statement = ast.parse(line_of(place)).body[0]
    except (SyntaxError, IndexError):
        return None
    if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Tuple):
        return None
    words = [one.id for one in statement.targets[0].elts if isinstance(one, ast.Name)]
    value: Any = statement.value
    while isinstance(value, (ast.Attribute, ast.Call)):
        value = value.func if isinstance(value, ast.Call) else value.value
    return (words, value.id) if isinstance(value, ast.Name) else None


def _reshaped(guess: Guess, name: str, shape: list[Size | None]) -> Guess | None:
    form = guess.form(name) if name else None
    if form is None or None in shape:
        return None
    return shaped(guess, name, form, [one for one in shape if one is not None])
