"""What a head changes: the labels that it computes a loss from, and the form of inputs that it has of its own.

A head is known by the ending of its class's name, which means the same in all of transformers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mpsprobe_hf.catalog.entry import Field
from mpsprobe_hf.transformers.inputs.forms import TEXT, Argument
from mpsprobe_hf.transformers.inputs.guess import Guess

OBJECTS = 4
"""In an image, for detection and segmentation."""
CHOICES = 2
TRANSCRIPT = 8
"""Tokens of what was said."""


@dataclass(frozen=True, slots=True)
class Head:
    """One kind of head.

    Attributes:
        ending: of the class's name, a regular expression.
        labels: the arguments from which the model computes a loss; those that its ``forward`` has are given.
        inputs: forms of arguments in both phases.
        config: values of the configuration that whoever uses the head has to say, where it leaves them open.
        computes: whether the model has a loss without any labels.
    """

    ending: str
    labels: Mapping[str, Argument]
    inputs: Mapping[str, Argument] = field(default_factory=dict)
    config: Mapping[str, int] = field(default_factory=dict)
    computes: bool = False


def _labels(kind: str, *shape: int | str, high: int | str = 0) -> Mapping[str, Argument]:
    return {"labels": Argument(kind, shape, high)}


_CLASS = _labels("integers", "batch", high="classes")
_EACH_TOKEN = _labels("token_labels", "batch", "seq", high="vocabulary")
_TRANSCRIPT = Argument("integers", ("batch", TRANSCRIPT), "vocabulary", {"low": 1})
_AFTER_BLANK = Argument("integers", ("batch", TRANSCRIPT + 1), "vocabulary", {"low": 1}, with_=("input_features",))
_POSITION = Argument("integers", ("batch",), 2)


def _text(separators: int, *choices: int) -> Argument:
    """A text with as many separators as a tokenizer puts into it for the head, and some models look for."""
    return Argument("tokens", ("batch", *choices, "seq"), "vocabulary", {"separators": separators})


HEADS: tuple[Head, ...] = (
    Head("NextSentencePrediction", _labels("integers", "batch", high=2)),
    Head("TokenClassification", _labels("token_labels", "batch", "seq", high="classes")),
    Head("AudioFrameClassification", _labels("floats", "batch", "label_frames", "classes")),
    Head("Regression", {"target_values": Argument("floats", ("batch", "targets"))}),
    Head("Prediction|TimeSeries", {"future_values": Argument("floats", ("batch", "horizon", "variates"))}),
    Head("SequenceClassification", _CLASS, {"input_ids": _text(1)}, {"pad_token_id": 0}),
    Head(
        "(Image|Audio|Video|TimeSeries|For)Classification\\w*|XVector",
        {**_CLASS, "target_values": Argument("integers", ("batch",), "targets")},
    ),
    Head(
        "MultipleChoice",
        _labels("integers", "batch", high=CHOICES),
        {
            "input_ids": _text(3, CHOICES),
            "attention_mask": Argument("padding_mask", ("batch", CHOICES, "seq"), with_=TEXT),
            "bbox": Argument("integers", ("batch", CHOICES, "seq", 4), 1, with_=TEXT),
        },
    ),
    Head("ViltForQuestionAnswering", _labels("floats", "batch", "classes")),
    Head("TapasForQuestionAnswering", _labels("integers", "batch", "seq", high=2)),
    Head(
        "QuestionAnswering\\w*",
        {"start_positions": _POSITION, "end_positions": _POSITION, **_CLASS},
        {"input_ids": _text(3)},
    ),
    Head("(ViTMAE|VideoMAE)ForPreTraining", {}, computes=True),
    # facebook/hiera-tiny-224-mae-hf
    Head(
        "HieraForPreTraining",
        {},
        config={"decoder_hidden_size": 512, "decoder_num_heads": 16, "decoder_depth": 2},
        computes=True,
    ),
    Head("MaskedImageModeling", {"bool_masked_pos": Argument("every_other", ("batch", "patches"))}),
    Head(
        "SplinterForPreTraining",
        dict.fromkeys(("start_positions", "end_positions"), Argument("integers", ("batch", "question_tokens"), 2)),
    ),
    Head(
        "PreTraining",
        {
            **_EACH_TOKEN,
            **dict.fromkeys(("next_sentence_label", "sentence_order_label"), Argument("integers", ("batch",), 2)),
            "mask_time_indices": Argument("every_other", ("batch", "label_frames")),
            "sampled_negative_indices": Argument("integers", ("batch", "label_frames", "negatives"), "label_frames"),
        },
    ),
    Head("SemanticSegmentation", _labels("integers", "batch", "height", "width", high="classes")),
    Head("ObjectDetection", _labels("boxes", "batch", OBJECTS, high="classes")),
    Head(
        "ForSegmentation|RfDetrForInstanceSegmentation",
        _labels("boxes", "batch", OBJECTS, "height", "width", high="classes"),
    ),
    Head(
        "(Universal|Instance)Segmentation",
        {
            "mask_labels": Argument("mask_lists", ("batch", OBJECTS, "height", "width")),
            "class_labels": Argument("class_lists", ("batch", OBJECTS), "classes"),
        },
    ),
    Head("DepthEstimation", _labels("floats", "batch", "height", "width")),
    Head("CTC", {"labels": _TRANSCRIPT}, config={"vocab_size": 32}),
    Head("RNNT|TDT", {"labels": _TRANSCRIPT}, {"decoder_input_ids": _AFTER_BLANK}, {"vocab_size": 32}),
    Head(
        "SpeechT5For(TextToSpeech|SpeechToSpeech)",
        _labels("floats", "batch", "frames", "mels"),
    ),
    Head(
        "Decision",
        _EACH_TOKEN,
        {
            "marks": Argument("integers", ("batch", OBJECTS), 8, {"low": 1}),
            "num_options": Argument("ones", ("batch", OBJECTS)),
            "question_type_ids": Argument("integers", ("batch", OBJECTS), 1),
        },
    ),
    Head(
        "LM|LMHead|LMHeadModel|ConditionalGeneration|Generation|2Text|ToText|ImageModeling"
        "|TextToSpeech|SpeechToSpeech|EncoderDecoderModel|MTModel",
        _EACH_TOKEN,
    ),
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


def label_forms(guess: Guess) -> Mapping[str, Argument]:
    """The arguments that the model computes a loss of its own from, and their forms."""
    head = head_of(guess.signature.name)
    declared = {name: form for name, form in guess.arguments.items() if name.endswith("labels")}
    forms = {**(head.labels if head else {}), **declared}
    taken = (name for name in guess.signature.parameters if name in forms and name not in guess.without)
    return {name: guess.form(name) or forms[name] for name in taken}


def computes_loss(guess: Guess) -> bool:
    """Whether the model computes a loss of its own without labels, or has among its inputs what it needs for one."""
    head = head_of(guess.signature.name)
    return head is not None and (head.computes or not label_forms(guess).keys().isdisjoint(guess.given()))


def label_fields(guess: Guess, inputs: Iterable[Field]) -> tuple[Field, ...]:
    """What makes the model compute a loss of its own; empty if it has none or its form is not known."""
    masks = [dict(one.settings) for one in inputs if one.name == "attention_mask" and len(one.shape) == 2]
    given = {one.name for one in inputs}
    fields = []
    for name, form in label_forms(guess).items():
        if name in given or (form.high == "vocabulary" and not guess.measures["vocabulary"]):
            continue
        made = guess.as_field(name, form)
        fields.append(made if form.kind != "token_labels" or not masks else _masked(made, masks[0]))
    return tuple(fields)


def _masked(made: Field, settings: Mapping[str, object]) -> Field:
    return Field(made.name, made.kind, made.shape, made.high, settings)
