"""Other sizes of inputs: by the layer that refused one, by numbers in the message, by what a loss wants; and other
dimensions: those that a message lists, or that a line names which takes a tensor apart.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from mpsprobe_hf.forms import Size
from mpsprobe_hf.transformers.correcting.places import Place, Sizes, elements, knowing, line_of, main_input, shaped
from mpsprobe_hf.transformers.inputs.derive import label_forms
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
    words = [node.id for node in statement.targets[0].elts if isinstance(node, ast.Name)]
    value: Any = statement.value
    while isinstance(value, (ast.Attribute, ast.Call)):
        value = value.func if isinstance(value, ast.Call) else value.value
    return (words, value.id) if isinstance(value, ast.Name) else None


def _reshaped(guess: Guess, name: str, shape: list[Size | None]) -> Guess | None:
    form = guess.form(name) if name else None
    if form is None or None in shape:
        return None
    return shaped(guess, name, form, [size for size in shape if size is not None])


IMAGE = ("batch", "channels", "height", "width")
MULTIPLE = re.compile(
    r"(?P<got>\d+)\D{1,40}(?:multiple of|divisible by) *(?P<of>\d+)"
    r"|multiple of [^()]*\((?P<of2>\d+)\)[^()\d]*(?P<got2>\d+)"
)
NUMBERS: tuple[re.Pattern[str], ...] = (
    re.compile(r"\((?P<got>\d+)(?:\*\d+)?\) doesn't match model \((?P<want>\d+)(?:\*\d+)?\)"),
    re.compile(r"shape of the mask \[\d+, (?P<got>\d+)\] at index 1 does not match .*? tensor \[\d+, (?P<want>\d+)"),
    re.compile(r"length (?P<want>\d+), but found (?P<got>\d+)"),
    re.compile(r"(?<!unpack \()[Ee]xpected:? (?P<want>\d+)\D{1,40}(?:got|found):? (?P<got>\d+)"),
    re.compile(r"(?P<got>\d+) but the model expects (?P<want>\d+)"),
    re.compile(r"Expected (?:size )?(?P<got>\d+)(?: in dimension \d+)? but got (?:size )?(?P<want>\d+) for tensor"),
    re.compile(r"size of tensor a \((?P<got>\d+)\) must match the size of tensor b \((?P<want>\d+)\)"),
    re.compile(r"dimension of length (?P<want>\d+) at -1! Mismatching .* broadcastable to \[[\d, ]*?(?P<got>\d+)\]"),
)
"""Messages with the size that was given and the one that fits."""
TARGETS: tuple[re.Pattern[str], ...] = (
    re.compile(r"input batch_size \((?P<want>\d+)\) to match target batch_size \((?P<got>\d+)\)"),
    re.compile(r"labels with sequence length (?P<got>\d+), expected (?P<want>\d+)"),
)
"""Messages of losses with the number of labels that were given, or along one axis, and the one that fits."""


def widths(guess: Guess, error: Exception, places: list[Place], sizes: Sizes) -> Guess | None:
    """The width of an input, by the layer of torch.nn that refused it."""
    for frame, _ in places:
        layer, given = frame.f_locals.get("self"), frame.f_locals.get("input")
        if not isinstance(layer, torch.nn.Module) or not isinstance(given, torch.Tensor) or not given.dim():
            continue
        if isinstance(layer, torch.nn.Linear):
            axis, wanted = -1, layer.in_features
        elif isinstance(layer, (torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d)):
            spatial = len(layer.kernel_size)
            axis, wanted = -spatial - 1, layer.in_channels
            if given.dim() <= spatial:
                return None
        elif isinstance(layer, torch.nn.LayerNorm):
            axis, wanted = -1, layer.normalized_shape[-1]
        else:
            continue
        got = int(given.shape[axis])
        if isinstance(layer, torch.nn.Linear) and wanted == guess.measures["patch_values"] != got:
            patches = _by_patches(guess, tuple(given.shape), sizes)
            if patches is not None:
                return patches
        return None if got == wanted else _resized(guess, got, int(wanted), sizes, tuple(given.shape), axis)
    return None


def _by_patches(guess: Guess, shape: tuple[int, ...], sizes: Sizes) -> Guess | None:
    """``guess`` with images as their patches, where a linear layer that takes the values of one got images."""
    for name in guess.given():
        form = guess.form(name)
        if form is not None and form.shape == IMAGE and tuple(elements(guess, n, sizes) for n in IMAGE) == shape:
            return shaped(guess, name, form, ("batch", "patches", "patch_values"))
    return None


def _resized(
    guess: Guess, got: int, wanted: int, sizes: Sizes, shape: tuple[int, ...] = (), axis: int = -1
) -> Guess | None:
    """``guess`` with ``wanted`` where an input has ``got`` elements along one axis, or a share of that."""
    exact = [axis for axis in _axes(guess, sizes) if axis[2] == got]
    if shape:
        exact.sort(key=lambda candidate: (candidate[3] != shape, candidate[1] != axis))
    for name, position, _, _ in exact[:1]:
        return _with_size(guess, name, position, wanted)
    for name, position, size, _ in _axes(guess, sizes):
        shares = min(size, got) > 8 and (got % size == 0 or size % got == 0) and size * wanted % got == 0
        if shares and position == -1 and len(shape) > 2:
            return _with_size(guess, name, position, size * wanted // got)
    return None


def _axes(guess: Guess, sizes: Sizes) -> Iterator[tuple[str, int, int, tuple[int, ...]]]:
    """``(argument, axis, elements, shape)`` for each axis of a floating-point input that is no batch and no text."""
    for name in guess.given():
        form = guess.form(name)
        if form is None or form.kind not in ("floats", "series", "every_other"):
            continue
        shape = tuple(elements(guess, size, sizes) for size in form.shape)
        for position, size in enumerate(form.shape):
            if size not in ("batch", "seq") and "*" not in str(size):
                yield name, position - len(shape), shape[position], shape


def _with_size(guess: Guess, name: str, axis: int, wanted: int) -> Guess | None:
    form = guess.form(name)
    assert form is not None
    size = form.shape[axis]
    if isinstance(size, str):
        if guess.measures.known.get(size) == wanted:
            return None
        also = {"height": "width", "width": "height"}.get(size)
        square = also and guess.measures[also] == guess.measures[size]
        known = {size: wanted, **({also: wanted} if square and also else {})}
        return knowing(guess, f"{size} {wanted}", **known)
    shape = list(form.shape)
    shape[axis] = wanted
    return shaped(guess, name, form, shape)


def numbers(guess: Guess, error: Exception, places: list[Place], sizes: Sizes) -> Guess | None:
    """Another size, by the numbers in the message."""
    text = str(error)
    for pattern in NUMBERS:
        match = pattern.search(text)
        if match is None:
            continue
        for got, want in ((match["got"], match["want"]), (match["want"], match["got"])):
            better = _resized_exactly(guess, int(got), int(want), sizes)
            if better is not None:
                return better
    multiple = MULTIPLE.search(text)
    if multiple is not None:
        got, of = int(multiple["got"] or multiple["got2"]), int(multiple["of"] or multiple["of2"])
        return _resized_exactly(guess, got, -(-got // of) * of, sizes) if of else None
    return None


def targets(guess: Guess, error: Exception, places: list[Place], sizes: Sizes) -> Guess | None:
    """As many labels as the loss has predictions."""
    match = next((match for pattern in TARGETS if (match := pattern.search(str(error)))), None)
    if match is None:
        return None
    got, want = int(match["got"]), int(match["want"])
    for name, form in label_forms(guess).items():
        for axis, size in enumerate(form.shape):
            now = elements(guess, size, sizes)
            if size == "batch" or now < 2 or got % now or now * want % got:
                continue
            shape = [*form.shape[:axis], now * want // got, *form.shape[axis + 1 :]]
            return shaped(guess, name, form, shape)
    return None


def _resized_exactly(guess: Guess, got: int, wanted: int, sizes: Sizes) -> Guess | None:
    for name, position, size, _ in _axes(guess, sizes):
        if size == got and wanted and got != wanted:
            better = _with_size(guess, name, position, wanted)
            if better is not None:
                return better
    return None
