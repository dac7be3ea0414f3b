"""Inputs for a model class that nobody described: from its ``forward``, its main input and its configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from mpsprobe.errors import WorkloadError
from mpsprobe_hf.sizes import Field
from mpsprobe_hf.transformers.generation import prompt
from mpsprobe_hf.transformers.inputs.guess import Guess
from mpsprobe_hf.transformers.inputs.heads import computes_loss, label_fields
from mpsprobe_hf.transformers.inputs.rules import ROOM

DEFAULT_LENGTH = 128
TEXT_LENGTH = 64
"""Tokens of text in addition to those that stand for an image or a sound."""
OWN_FUNCTION = "Write a function that returns the model and its inputs, and name it instead: path/to/file.py:function"


@dataclass(frozen=True, slots=True)
class Derived:
    """Inputs and sizes for a model class; has what ``mpsprobe_hf.sizes.Limits`` asks for.

    A batch has one sample in inference and two in training, which is enough for every kind of normalisation.

    Attributes:
        fields: what ``forward`` is given.
        labels: those of them that only a loss of the model's own needs.
        own_loss: whether the model computes one.
        note: what was assumed, for the report.
    """

    name: str
    fields: tuple[Field, ...]
    labels: tuple[Field, ...]
    own_loss: bool
    note: str
    seq_len: int | None
    longest: int
    shortest: int = 1
    seq_unit: str = "tokens"
    batch_size: Mapping[str, int] = field(default_factory=dict)


def derive(name: str, guess: Guess, phase: str, hint: str = OWN_FUNCTION) -> Derived:
    """Inputs for one step of ``phase``; ``hint`` says what to do where there are none.

    Raises:
        WorkloadError: the class and its configuration do not show what ``forward`` needs.
    """
    signature = guess.signature
    fields = [guess.field(one) for one in guess.given()]
    labels: tuple[Field, ...] = ()
    if phase == "training" and fields:
        labels = label_fields(guess, fields)
        if any(field.name == "labels" for field in labels) and "decoder_input_ids" not in signature.required:
            fields = [one for one in fields if not one.name.startswith("decoder_") or one.name in guess.arguments]
    missing = sorted(signature.required - {field.name for field in (*fields, *labels)})
    if missing or not fields:
        needs = f"needs {', '.join(missing)}" if missing else f"takes {', '.join(_some(signature.parameters))}"
        rule = f"A rule for one is a line of {ROOM}/arguments.toml, for its type alone of families.toml."
        raise WorkloadError(f"no inputs can be derived for {signature.name}: its forward {needs}", f"{hint}\n{rule}")
    if phase == "generate":
        fields = list(prompt(fields))
    sequences = any("seq" in field.shape for field in (*fields, *labels))
    lead = sum(count for _, count in guess.leads())
    lead += sum(field.settings["keep"] for field in fields if field.kind == "leading")
    shortest = 1 + lead
    # A part of the model may store positions for fewer tokens than an image takes; then it is not the limit.
    longest = signature.longest if signature.longest >= shortest else 0
    default = guess.length or (lead + TEXT_LENGTH if lead else DEFAULT_LENGTH)
    said = [field.name for field in (*fields, *labels)]
    return Derived(
        name=name,
        fields=(*fields, *labels),
        labels=labels,
        own_loss=bool(labels) or computes_loss(guess),
        note="; ".join((f"inputs were derived from the model's configuration: {', '.join(said)}", *guess.learned)),
        seq_len=(min(default, longest) if longest else default) if sequences else None,
        longest=longest,
        shortest=shortest,
        batch_size={"inference": 1, "training": guess.samples},
    )


def _some(parameters: tuple[str, ...]) -> Iterator[str]:
    yield from sorted(parameters)[:12]
    if len(parameters) > 12:
        yield "…"
