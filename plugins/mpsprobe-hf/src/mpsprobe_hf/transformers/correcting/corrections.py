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
from mpsprobe_hf.transformers.correcting import shapes, wanted
from mpsprobe_hf.transformers.correcting import sizes as of_sizes
from mpsprobe_hf.transformers.correcting.places import Sizes, line_of, passed_through
from mpsprobe_hf.transformers.inputs.guess import Guess
from mpsprobe_hf.transformers.inputs.rules import PLACEHOLDERS

TRIES = 12
"""Corrections of one run; each costs a part of a forward pass."""
OURS = ("mpsprobe.", "mpsprobe_coverage.")
"""Modules that run a step, whose lines speak of the loss too."""
UNFINISHED = re.compile(r"missing \d+ required positional argument")
"""As of a loss that transformers calls without what it takes: inputs are not at fault, nor are they in imports."""
READINGS = (
    wanted.features,
    wanted.missing,
    wanted.length,
    wanted.one_of_both,
    of_sizes.targets,
    of_sizes.widths,
    of_sizes.numbers,
    shapes.form,
    shapes.other_form,
    wanted.no_cache,
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
