"""What a model's own error says about the inputs that it was given: another guess, or nothing.

Each thing is read from the error itself and none by the model's name: which argument was missing or ``None``; how many
features stand against how many tokens; how long a text has to be; how many labels a loss got and wants; the width that
a layer of torch.nn has and the one that it got; the numbers of the message where one of them is a size that was given;
the form of a tensor where the model takes it apart; that a cache of earlier tokens stands in the way.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace

from mpsprobe.suggestions import in_short
from mpsprobe_hf.forms import Argument
from mpsprobe_hf.transformers.correcting import sizes as of_sizes
from mpsprobe_hf.transformers.correcting.places import Place, Sizes, knowing, line_of, passed_through
from mpsprobe_hf.transformers.inputs.guess import Guess
from mpsprobe_hf.transformers.inputs.rules import PLACEHOLDERS

FEATURES = re.compile(r"(image|video|audio|multimodal)\D*(\d+)\D+features:? *(\d+)", re.IGNORECASE | re.DOTALL)
"""As in "Image features and image tokens do not match, tokens: 576, features: 1752"."""
BY_TOKEN = re.compile(r"Got (\d+) feature vectors for (\d+) placeholder tokens \(id (\d+)\)")
"""The features, the tokens, and the id of those."""
BOTH = re.compile(r"cannot specify both \W*input_ids\W+and")
"""The other is what the model makes of images or sound."""
LENGTH = re.compile(r"sequence length to (\d+)")
"""As in "padding your sequence length to 4096"."""
MOST_TOKENS = 2**17
"""A text with more is not made because a message wants it."""
MODIFIED = "has been modified by an inplace operation"
CACHES = "transformers.cache_utils"


def features(guess: Guess, error: Exception, places: list[Place], sizes: Sizes) -> Guess | None:
    """Another number of tokens that stand for an image, a video or a sound."""
    by_feature, by_token = FEATURES.search(str(error)), BY_TOKEN.search(str(error))
    measures = {token: measure for token, _, measure in guess.placeholders()}
    if by_token is not None and int(by_token[3]) in measures:
        measure, features = measures[int(by_token[3])], int(by_token[1])
    elif by_feature is not None:
        measure, features = f"{by_feature[1].lower()}_tokens", int(by_feature[3])
    else:
        return None
    if by_feature is not None and measure == "multimodal_tokens":  # that of which there are so many
        counts = {word: _now(guess, word) * sizes["batch"] for word in ("image_tokens", "video_tokens", "audio_tokens")}
        measure = next((name for name, count in counts.items() if count == int(by_feature[2])), "image_tokens")
    hidden, now = guess.measures["hidden"], _now(guess, measure)
    wanted = features // sizes["batch"]
    if hidden and features % hidden == 0 and features // hidden >= now // 64 and features > 8 * max(now, 1):
        wanted = features // hidden // sizes["batch"]  # the numbers in the features were counted
    if wanted == now or not wanted:
        return None
    return knowing(guess, f"{wanted} tokens for each {measure.partition('_')[0]}", **{measure: wanted})


def _now(guess: Guess, measure: str) -> int:
    named = next((name for name, (_, of) in PLACEHOLDERS.items() if of == measure and name in guess.given()), "")
    return guess.tokens_of(named, measure) if named else 0


def missing(guess: Guess, error: Exception, places: list[Place], sizes: Sizes) -> Guess | None:
    """An argument more: one that the message names, or that is ``None`` on the line that raised."""
    given = {*guess.given(), *guess.more, *guess.without}
    left = [name for name in guess.signature.parameters if name not in given and guess.form(name) is not None]
    words = set(re.findall(r"\w+", str(error)))
    named = [name for name in left if name in words]
    if not named and isinstance(error, (AttributeError, TypeError, ValueError)) and "None" in str(error):
        for place in places:
            words = set(re.findall(r"\w+", line_of(place)))
            nothing = [name for name in left if name in words and place[0].f_locals.get(name, 0) is None]
            if nothing:
                named = nothing
                break
    if "input_ids" in {*named, *given}:
        named = [name for name in named if name != "inputs_embeds"]  # what becomes of the ids
    if not named:
        return None
    return replace(guess, more=(*guess.more, *named), learned=(*guess.learned, f"{', '.join(named)} asked for"))


def length(guess: Guess, error: Exception, places: list[Place], sizes: Sizes) -> Guess | None:
    """As many tokens as the message wants."""
    match = LENGTH.search(str(error))
    if match is None or "seq" not in sizes or int(match[1]) > MOST_TOKENS:
        return None
    return replace(guess, length=int(match[1]), learned=(*guess.learned, f"{match[1]} tokens"))


def no_cache(guess: Guess, error: Exception, places: list[Place], sizes: Sizes) -> Guess | None:
    """No cache of earlier tokens, where it raised, or is written after a gradient wants what was in it."""
    of_cache = MODIFIED in str(error) or any(frame.f_globals.get("__name__") == CACHES for frame, _ in places)
    if not of_cache or "use_cache" not in guess.signature.parameters:
        return None
    off = Argument("constant", (), settings={"value": False})
    return replace(
        guess,
        arguments={**guess.arguments, "use_cache": off},
        more=(*guess.more, "use_cache"),
        learned=(*guess.learned, "use_cache False"),
    )


def one_of_both(guess: Guess, error: Exception, places: list[Place], sizes: Sizes) -> Guess | None:
    """No text in addition to what the model makes its embeddings from."""
    media = [name for name in guess.given() if name in PLACEHOLDERS and name != "input_ids"]
    if BOTH.search(str(error)) is None or not media or "input_ids" not in guess.given():
        return None
    said = f"no text: the model makes its embeddings of {', '.join(media)}"
    more = (*guess.more, *media)
    left_out = guess.without | {"input_ids", "attention_mask"}
    return replace(guess, more=more, without=left_out, learned=(*guess.learned, said))


TRIES = 12
"""Corrections of one run; each costs a part of a forward pass."""
OURS = ("mpsprobe.", "mpsprobe_coverage.")
"""Modules that run a step, whose lines speak of the loss too."""
UNFINISHED = re.compile(r"missing \d+ required positional argument")
"""As of a loss that transformers calls without what it takes: inputs are not at fault, nor are they in imports."""
READINGS = (
    features,
    missing,
    length,
    one_of_both,
    of_sizes.targets,
    of_sizes.widths,
    of_sizes.numbers,
    of_sizes.form,
    of_sizes.other_form,
    no_cache,
)
"""The first that reads something is followed."""


def corrected(guess: Guess, error: Exception, sizes: Sizes) -> Guess | None:
    """``guess`` with one thing changed by what ``error`` says, or ``None``.

    Args:
        error: what the model raised, with its traceback.
        sizes: ``batch`` and ``seq`` of the inputs that it was given.
    """
    if len(guess.learned) >= TRIES or isinstance(error, ImportError) or UNFINISHED.search(str(error)):
        return None
    places = passed_through(error)
    for reading in READINGS:
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
    where = {frame.f_code.co_name for frame, _ in passed_through(error)}
    # A model reads each of them in a function of its own.
    media = [name for name in media if f"get_{_modality(name)}_features" in where] or media
    said = f"{', '.join(media)} left out: none that fits could be derived ({in_short(error)})"
    return replace(guess, without=guess.without | set(media), learned=(*guess.learned, said))


def without_labels(guess: Guess, labels: Collection[str], error: Exception) -> Guess | None:
    """``guess`` without ``labels``, from which the model makes no loss; the loss is made up then."""
    if not labels or set(labels) & guess.signature.required:
        return None
    about = re.compile("|".join(("loss", *labels)))
    places = [place for place in passed_through(error) if not place[0].f_globals.get("__name__", "").startswith(OURS)]
    refuses = isinstance(error, NotImplementedError) or "support training" in str(error)
    of_labels = refuses and set(labels) & set(places[0][0].f_locals)
    if not of_labels and not any(about.search(f"{place[0].f_code.co_name} {line_of(place)}") for place in places):
        return None
    said = f"{', '.join(labels)} left out: none that fits could be derived ({in_short(error)})"
    return replace(guess, without=guess.without | set(labels), learned=(*guess.learned, said))


def _modality(name: str) -> str:
    return PLACEHOLDERS[name][1].partition("_")[0]
