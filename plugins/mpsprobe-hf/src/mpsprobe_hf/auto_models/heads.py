"""What a head changes: the labels that it computes a loss from, and the form of inputs that it has of its own.

A head is known by the ending of its class's name, which means the same in all of transformers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mpsprobe_hf.auto_models.forms import TEXT, Argument
from mpsprobe_hf.auto_models.guess import Guess
from mpsprobe_hf.catalog.entry import Field

OBJECTS = 4
"""In an image, for detection and segmentation."""
CHOICES = 2


@dataclass(frozen=True, slots=True)
class Head:
    """One kind of head.

    Attributes:
        ending: of the class's name, a regular expression.
        labels: the arguments from which the model computes a loss; those that its ``forward`` has are given.
        inputs: forms of arguments in both phases.
        config: values of the configuration that whoever uses the head has to say, where it leaves them open.
    """

    ending: str
    labels: Mapping[str, Argument]
    inputs: Mapping[str, Argument] = field(default_factory=dict)
    config: Mapping[str, int] = field(default_factory=dict)


def _labels(kind: str, *shape: int | str, high: int | str = 0) -> Mapping[str, Argument]:
    return {"labels": Argument(kind, shape, high)}


_CLASS = _labels("integers", "batch", high="classes")
_EACH_TOKEN = _labels("token_labels", "batch", "seq", high="vocabulary")
_CHOICE = Argument("integers", ("batch", CHOICES, "seq"), "vocabulary")
_TRANSCRIPT = Argument("integers", ("batch", 8), "vocabulary", {"low": 1})
_POSITION = Argument("integers", ("batch",), 2)

HEADS: tuple[Head, ...] = (
    Head("TokenClassification", _labels("token_labels", "batch", "seq", high="classes")),
    Head("AudioFrameClassification", {}),
    Head(
        "(TimeSeries|Prediction|Regression)\\w*",
        {"future_values": Argument("floats", ("batch", "horizon", "variates"))},
    ),
    Head("SequenceClassification", _CLASS, config={"pad_token_id": 0}),
    Head("(Image|Audio|Video|TimeSeries|For)Classification\\w*|XVector", _CLASS),
    Head(
        "MultipleChoice",
        _labels("integers", "batch", high=CHOICES),
        {
            "input_ids": _CHOICE,
            "attention_mask": Argument("ones", ("batch", CHOICES, "seq"), with_=TEXT),
            "bbox": Argument("integers", ("batch", CHOICES, "seq", 4), 1, with_=TEXT),
        },
    ),
    Head("QuestionAnswering\\w*", {"start_positions": _POSITION, "end_positions": _POSITION, **_CLASS}),
    Head("NextSentencePrediction", _labels("integers", "batch", high=2)),
    Head(
        "PreTraining",
        {
            **_EACH_TOKEN,
            **dict.fromkeys(("next_sentence_label", "sentence_order_label"), Argument("integers", ("batch",), 2)),
        },
    ),
    Head("SemanticSegmentation", _labels("integers", "batch", "height", "width", high="classes")),
    Head("ObjectDetection|ForSegmentation", _labels("boxes", "batch", OBJECTS, high="classes")),
    Head(
        "(Universal|Instance)Segmentation",
        {
            "mask_labels": Argument("mask_lists", ("batch", OBJECTS, "height", "width")),
            "class_labels": Argument("class_lists", ("batch", OBJECTS), "classes"),
        },
    ),
    Head("DepthEstimation", _labels("floats", "batch", "height", "width")),
    Head("CTC|RNNT|TDT", {"labels": _TRANSCRIPT}, config={"vocab_size": 32}),
    Head("(LM|LMHead|LMHeadModel|ConditionalGeneration|Generation|2Text|ToText|Decision)", _EACH_TOKEN),
    Head("Model", {"return_loss": Argument("constant", (), settings={"value": True})}),
)
"""The first whose ending fits is taken."""


def head_of(class_name: str) -> Head | None:
    """The head of a model class; ``None`` where its name tells of none that is known."""
    return next((head for head in HEADS if re.search(rf"({head.ending})$", class_name)), None)


def complete(config: Any, class_name: str) -> None:
    """Give ``config`` what the head of ``class_name`` needs and nobody has said."""
    head = head_of(class_name)
    for name, value in head.config.items() if head else ():
        for one in {id(one): one for one in (config, config.get_text_config())}.values():
            if getattr(one, name, value) is None:
                setattr(one, name, value)


def label_fields(guess: Guess, inputs: Iterable[Field]) -> tuple[Field, ...]:
    """What makes the model compute a loss of its own; empty if it has none or its form is not known."""
    declared = [one for one in guess.arguments if one.endswith("labels")]
    if declared:
        return tuple(guess.field(one) for one in declared if one not in guess.without)
    head = head_of(guess.signature.name)
    if head is None:
        return ()
    masks = [dict(one.settings) for one in inputs if one.name == "attention_mask" and len(one.shape) == 2]
    given = {one.name for one in inputs}
    fields = []
    for name, form in head.labels.items():
        if name not in guess.signature.parameters or name in guess.without or name in given:
            continue
        if form.high == "vocabulary" and not guess.measures["vocabulary"]:
            continue
        made = guess.as_field(name, form)
        fields.append(made if form.kind != "token_labels" or not masks else _masked(made, masks[0]))
    return tuple(fields)


def _masked(made: Field, settings: Mapping[str, object]) -> Field:
    return Field(made.name, made.kind, made.shape, made.high, settings)
