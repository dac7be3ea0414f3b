"""What a model's own error says about the inputs that it was given: another guess, or nothing.

Six things are read, each from the error itself and none by the model's name: which argument was missing or ``None``;
how many features stand against how many tokens; how many labels a loss got and wants; the width that a layer of
torch.nn has and the one that it got; the numbers of the message where one of them is a size that was given; the form
of a tensor where the model takes it apart.
"""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from types import FrameType
from typing import Any

import torch

from mpsprobe.suggestions import in_short
from mpsprobe_hf.auto_models.arguments import ARGUMENTS, PLACEHOLDERS
from mpsprobe_hf.auto_models.forms import BY_PATCH, Argument, Size
from mpsprobe_hf.auto_models.guess import Guess
from mpsprobe_hf.auto_models.heads import label_forms

TRIES = 12
"""Corrections of one run; each costs a part of a forward pass."""
OURS = ("mpsprobe.", "mpsprobe_coverage.")
"""Modules that run a step, whose lines speak of the loss too."""
Sizes = Mapping[str, int]
Place = tuple[FrameType, int]
"""A frame and its line; the frame itself may have gone on."""

FEATURES = re.compile(r"(image|video|audio|multimodal)\D*(\d+)\D+features:? *(\d+)", re.IGNORECASE | re.DOTALL)
"""As in "Image features and image tokens do not match, tokens: 576, features: 1752"."""
MULTIPLE = re.compile(
    r"(?P<got>\d+)\D{1,40}(?:multiple of|divisible by) *(?P<of>\d+)"
    r"|multiple of [^()]*\((?P<of2>\d+)\)[^()\d]*(?P<got2>\d+)"
)
NUMBERS: tuple[re.Pattern[str], ...] = (
    re.compile(r"image size \((?P<got>\d+)\*(?P<got2>\d+)\) doesn't match model \((?P<want>\d+)\*(?P<want2>\d+)\)"),
    re.compile(r"shape of the mask \[\d+, (?P<got>\d+)\] at index 1 does not match .*? tensor \[\d+, (?P<want>\d+)"),
    re.compile(r"length (?P<want>\d+), but found (?P<got>\d+)"),
    re.compile(r"[Ee]xpected:? (?P<want>\d+)\D{1,40}(?:got|found):? (?P<got>\d+)"),
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


def corrected(guess: Guess, error: Exception, sizes: Sizes) -> Guess | None:
    """``guess`` with one thing changed by what ``error`` says, or ``None``.

    Args:
        error: what the model raised, with its traceback.
        sizes: ``batch`` and ``seq`` of the inputs that it was given.
    """
    if len(guess.learned) >= TRIES:
        return None
    places = list(_places(error))
    for reading in (_features, _missing, _targets, _widths, _numbers, _form, _other_form):
        better = reading(guess, error, places, sizes)
        if better is not None:
            # What was tried before is tried in turns: it leads nowhere.
            return None if better.learned[-1] in guess.learned else better
    return None


def one_sample(guess: Guess, error: Exception, sizes: Sizes) -> Guess | None:
    """``guess`` for one sample, where two are not taken."""
    if min(sizes["batch"], guess.samples) == 1:
        return None
    return replace(guess, samples=1, learned=(*guess.learned, f"one sample: two are not taken ({in_short(error)})"))


def without_images(guess: Guess, error: Exception) -> Guess | None:
    """``guess`` without the images, videos or sounds that raised, where a model that reads text needs none."""
    media = [name for name in guess.given() if name in PLACEHOLDERS and name != "input_ids"]
    if "input_ids" not in guess.given() or not media or set(media) & guess.signature.required:
        return None
    where = {frame.f_code.co_name for frame, _ in _places(error)}
    # A model reads each of them in a function of its own.
    media = [name for name in media if f"get_{_modality(name)}_features" in where] or media
    said = f"{', '.join(media)} left out: none that fits could be derived ({in_short(error)})"
    return replace(guess, without=guess.without | set(media), learned=(*guess.learned, said))


def without_labels(guess: Guess, labels: Collection[str], error: Exception) -> Guess | None:
    """``guess`` without ``labels``, from which the model makes no loss; the loss is made up then."""
    if not labels or set(labels) & guess.signature.required:
        return None
    about = re.compile("|".join(("loss", *labels)))
    places = [place for place in _places(error) if not place[0].f_globals.get("__name__", "").startswith(OURS)]
    refuses = isinstance(error, NotImplementedError) or "support training" in str(error)
    of_labels = refuses and set(labels) & set(places[0][0].f_locals)
    if not of_labels and not any(about.search(f"{place[0].f_code.co_name} {_source(place)}") for place in places):
        return None
    said = f"{', '.join(labels)} left out: none that fits could be derived ({in_short(error)})"
    return replace(guess, without=guess.without | set(labels), learned=(*guess.learned, said))


def _modality(name: str) -> str:
    return PLACEHOLDERS[name][1].partition("_")[0]


def _places(error: Exception) -> Iterator[Place]:
    """Where the error went through, the innermost place first."""
    found = []
    traceback = error.__traceback__
    while traceback is not None:
        found.append((traceback.tb_frame, traceback.tb_lineno))
        traceback = traceback.tb_next
    return reversed(found)


def _features(guess: Guess, error: Exception, places: list[Place], sizes: Sizes) -> Guess | None:
    """Another number of tokens that stand for an image, a video or a sound."""
    found = FEATURES.search(str(error))
    if found is None:
        return None
    modality, features = found[1].lower(), int(found[3])
    if modality == "multimodal":  # that of which there are so many tokens
        counts = {one: _now(guess, f"{one}_tokens") * sizes["batch"] for one in ("image", "video", "audio")}
        modality = next((one for one, count in counts.items() if count == int(found[2])), "image")
    measure = f"{modality}_tokens"
    hidden, now = guess.measures["hidden"], _now(guess, measure)
    wanted = features // sizes["batch"]
    if hidden and features % hidden == 0 and features // hidden >= now // 64 and features > 8 * max(now, 1):
        wanted = features // hidden // sizes["batch"]  # the numbers in the features were counted
    if wanted == now or not wanted:
        return None
    return _knowing(guess, f"{wanted} tokens for each {modality}", **{measure: wanted})


def _now(guess: Guess, measure: str) -> int:
    named = next((name for name, (_, of) in PLACEHOLDERS.items() if of == measure and name in guess.given()), "")
    return guess.tokens_of(named, measure) if named else 0


def _missing(guess: Guess, error: Exception, places: list[Place], sizes: Sizes) -> Guess | None:
    """An argument more: one that the message names, or that is ``None`` on the line that raised."""
    given = {*guess.given(), *guess.more, *guess.without}
    left = [name for name in guess.signature.parameters if name not in given and guess.form(name) is not None]
    words = set(re.findall(r"\w+", str(error)))
    named = [name for name in left if name in words]
    if not named and isinstance(error, (AttributeError, TypeError, ValueError)) and "None" in str(error):
        for place in places:
            words = set(re.findall(r"\w+", _source(place)))
            nothing = [name for name in left if name in words and place[0].f_locals.get(name, 0) is None]
            if nothing:
                named = nothing
                break
    if "input_ids" in {*named, *given}:
        named = [name for name in named if name != "inputs_embeds"]  # what becomes of the ids
    if not named:
        return None
    return replace(guess, more=(*guess.more, *named), learned=(*guess.learned, f"{', '.join(named)} asked for"))


def _source(place: Place) -> str:
    return linecache.getline(place[0].f_code.co_filename, place[1]).strip()


def _widths(guess: Guess, error: Exception, places: list[Place], sizes: Sizes) -> Guess | None:
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
        return None if got == wanted else _resized(guess, got, int(wanted), sizes, tuple(given.shape), axis)
    return None


def _resized(
    guess: Guess, got: int, wanted: int, sizes: Sizes, shape: tuple[int, ...] = (), axis: int = -1
) -> Guess | None:
    """``guess`` with ``wanted`` where an input has ``got`` elements along one axis, or a share of that."""
    exact = [one for one in _axes(guess, sizes) if one[2] == got]
    if shape:
        exact.sort(key=lambda one: (one[3] != shape, one[1] != axis))
    for name, position, _, _ in exact[:1]:
        return _with_size(guess, name, position, wanted)
    for name, position, size, _ in _axes(guess, sizes):
        shares = size > 8 and (got % size == 0 or size % got == 0) and size * wanted % got == 0
        if shares and position == -1 and len(shape) > 2:
            return _with_size(guess, name, position, size * wanted // got)
    return None


def _axes(guess: Guess, sizes: Sizes) -> Iterator[tuple[str, int, int, tuple[int, ...]]]:
    """``(argument, axis, elements, shape)`` for each axis of a floating-point input that is no batch and no text."""
    for name in guess.given():
        form = guess.form(name)
        if form is None or form.kind not in ("floats", "series", "every_other"):
            continue
        shape = tuple(_elements(guess, size, sizes) for size in form.shape)
        for position, size in enumerate(form.shape):
            if size not in ("batch", "seq") and "*" not in str(size):
                yield name, position - len(shape), shape[position], shape


def _elements(guess: Guess, size: Size, sizes: Sizes) -> int:
    if isinstance(size, int):
        return size
    measure, times, of = size.partition("*")
    if times:
        return guess.measures[measure] * sizes.get(of, 1)
    return sizes.get(size, 0) if size in ("batch", "seq") else guess.measures[size]


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
        return _knowing(guess, f"{size} {wanted}", **known)
    shape = list(form.shape)
    shape[axis] = wanted
    return _shaped(guess, name, form, shape)


def _numbers(guess: Guess, error: Exception, places: list[Place], sizes: Sizes) -> Guess | None:
    """Another size, by the numbers in the message."""
    text = str(error)
    for pattern in NUMBERS:
        found = pattern.search(text)
        if found is None:
            continue
        for got, want in ((found["got"], found["want"]), (found["want"], found["got"])):
            better = _resized_exactly(guess, int(got), int(want), sizes)
            if better is not None:
                return better
    multiple = MULTIPLE.search(text)
    if multiple is not None:
        got, of = int(multiple["got"] or multiple["got2"]), int(multiple["of"] or multiple["of2"])
        return _resized_exactly(guess, got, -(-got // of) * of, sizes) if of else None
    return None


def _targets(guess: Guess, error: Exception, places: list[Place], sizes: Sizes) -> Guess | None:
    """As many labels as the loss has predictions."""
    found = next((found for pattern in TARGETS if (found := pattern.search(str(error)))), None)
    if found is None:
        return None
    got, want = int(found["got"]), int(found["want"])
    for name, form in label_forms(guess).items():
        for axis, size in enumerate(form.shape):
            now = _elements(guess, size, sizes)
            if size == "batch" or now < 2 or got % now or now * want % got:
                continue
            shape = [*form.shape[:axis], now * want // got, *form.shape[axis + 1 :]]
            return _shaped(guess, name, form, shape)
    return None


def _resized_exactly(guess: Guess, got: int, wanted: int, sizes: Sizes) -> Guess | None:
    for name, position, size, _ in _axes(guess, sizes):
        if size == got and wanted and got != wanted:
            better = _with_size(guess, name, position, wanted)
            if better is not None:
                return better
    return None


def _form(guess: Guess, error: Exception, places: list[Place], sizes: Sizes) -> Guess | None:
    """The dimensions that the message lists, or that the line names which takes the tensor apart."""
    listed = FORM.search(str(error))
    if listed is not None:
        shape = [_dimension(word) for word in re.findall(r"\w+", listed[1])]
        return _reshaped(guess, _main(guess), shape)
    unpacked = UNPACKED.search(str(error))
    if unpacked is not None or CONVOLVED.search(str(error)):
        for name in guess.given():
            form = guess.form(name)
            if form is not None and form.shape == BY_PATCH:
                return _shaped(guess, name, form, ("grid*batch", "channels", "patch", "patch"))
    if unpacked is None:
        return None
    lacking = int(unpacked[1]) - int(unpacked[2])
    for place in places:
        taken = _taken_apart(place)
        if taken is None:
            continue
        words, source = taken
        name = source if source in guess.given() else _main(guess)
        form = guess.form(name) if name else None
        if form is None:
            continue
        if len(words) == len(form.shape) + lacking and source in guess.given():
            known = [_dimension(word) for word in words]
            if None not in known:
                return _reshaped(guess, name, known)
        return _shaped(guess, name, form, [form.shape[0], *[1] * lacking, *form.shape[1:]])
    return None


def _other_form(guess: Guess, error: Exception, places: list[Place], sizes: Sizes) -> Guess | None:
    """The next form that models give a floating-point input, where nothing in the error can be read."""
    for name in guess.given():
        now = guess.form(name)
        for form in ARGUMENTS.get(name, ()):
            if now is not None and form.kind == now.kind == "floats" and not form.if_ and form.shape != now.shape:
                better = _shaped(guess, name, now, form.shape)
                if better is not None and better.learned[-1] not in guess.learned:
                    return better
    return None


def _dimension(word: str) -> Size | None:
    return int(word) if word.isdigit() else DIMENSIONS.get(word.lower())


def _taken_apart(place: Place) -> tuple[list[str], str] | None:
    """``(names, tensor)`` of a line such as ``batch, channels, height, width = pixel_values.shape``."""
    try:
        statement = ast.parse(_source(place)).body[0]
    except (SyntaxError, IndexError):
        return None
    if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Tuple):
        return None
    words = [one.id for one in statement.targets[0].elts if isinstance(one, ast.Name)]
    value: Any = statement.value
    while isinstance(value, (ast.Attribute, ast.Call)):
        value = value.func if isinstance(value, ast.Call) else value.value
    return (words, value.id) if isinstance(value, ast.Name) else None


def _main(guess: Guess) -> str:
    """The main input, as far as it has a form that can change."""
    given = guess.given()
    return next((name for name in (*guess.signature.main, *given) if name in given and name != "input_ids"), "")


def _reshaped(guess: Guess, name: str, shape: list[Size | None]) -> Guess | None:
    form = guess.form(name) if name else None
    if form is None or None in shape:
        return None
    return _shaped(guess, name, form, [one for one in shape if one is not None])


def _shaped(guess: Guess, name: str, form: Argument, shape: Iterable[Size]) -> Guess | None:
    better = replace(form, shape=tuple(shape))
    if better == form:
        return None
    said = f"{name} as ({', '.join(map(str, better.shape))})"
    return replace(guess, arguments={**guess.arguments, name: better}, learned=(*guess.learned, said))


def _knowing(guess: Guess, said: str, **known: int) -> Guess:
    return replace(guess, measures=guess.measures.knowing(**known), learned=(*guess.learned, said))
