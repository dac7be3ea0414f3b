"""Labels for a model class, from the head that its name tells of."""

from __future__ import annotations

from collections.abc import Iterable

from mpsprobe_hf.auto_models.guess import Guess
from mpsprobe_hf.catalog.entry import Field

TOKEN_HEADS = ("CausalLM", "MaskedLM", "LMHeadModel", "ConditionalGeneration", "LMHead", "Seq2SeqLM")
SAMPLE_HEADS = ("SequenceClassification", "ImageClassification", "AudioClassification", "VideoClassification")


def label_fields(guess: Guess, inputs: Iterable[Field]) -> tuple[Field, ...]:
    """What makes the model compute a loss of its own; empty if it has none or its form is not known."""
    signature, measures = guess.signature, guess.measures
    name, parameters = signature.name, set(signature.parameters)
    classes = measures["classes"]
    if "return_loss" in parameters and {"input_ids", "pixel_values"} <= parameters:
        return (Field("return_loss", "constant", (), settings={"value": True}),)
    if {"start_positions", "end_positions"} <= parameters and name.endswith("QuestionAnswering"):
        return tuple(Field(one, "integers", ("batch",), 2) for one in ("start_positions", "end_positions"))
    if "labels" not in parameters:
        return ()
    if name.endswith(SAMPLE_HEADS):
        return (Field("labels", "integers", ("batch",), classes),)
    if name.endswith("TokenClassification"):
        return (Field("labels", "token_labels", ("batch", "seq"), classes),)
    if name.endswith("SemanticSegmentation"):
        return (Field("labels", "integers", ("batch", measures["height"], measures["width"]), classes),)
    vocabulary = measures["vocabulary"]
    if not vocabulary:
        return ()
    if name.endswith("CTC"):
        return (Field("labels", "integers", ("batch", 8), vocabulary, {"low": 1}),)
    if name.endswith(TOKEN_HEADS):
        masks = [dict(field.settings) for field in inputs if field.name == "attention_mask"]
        return (Field("labels", "token_labels", ("batch", "seq"), vocabulary, masks[0] if masks else {}),)
    return ()
