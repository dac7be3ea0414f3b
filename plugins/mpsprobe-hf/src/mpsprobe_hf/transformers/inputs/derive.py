"""Inputs for a model class that nobody described: from its ``forward``, its main input and its configuration.

A head changes the labels that a loss is computed from, and may have a form of inputs of its own. It is known by the
ending of its class's name, which means the same in all of transformers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from mpsprobe.errors import UsageError, WorkloadError
from mpsprobe.protocols import RunOptions
from mpsprobe_hf.forms import Argument
from mpsprobe_hf.sizes import Field, check_positive
from mpsprobe_hf.transformers.generation import prompt
from mpsprobe_hf.transformers.inputs.guess import Guess
from mpsprobe_hf.transformers.inputs.rules import HEADS, ROOM, Head


def head_of(class_name: str) -> Head | None:
    """The head of a model class; ``None`` where its name tells of none that is known."""
    return next((head for head in HEADS if re.search(rf"({head.ending})$", class_name)), None)


def complete(config: Any, class_name: str) -> None:
    """Give ``config`` what the head of ``class_name`` needs and nobody has said."""
    head = head_of(class_name)
    for name, value in head.config.items() if head else ():
        for part in {id(one): one for one in (config, config.get_text_config())}.values():
            if getattr(part, name, value) is None:
                setattr(part, name, value)


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
    masks = [dict(spec.settings) for spec in inputs if spec.name == "attention_mask" and len(spec.shape) == 2]
    given = {spec.name for spec in inputs}
    fields = []
    for name, form in label_forms(guess).items():
        if name in given or (form.high == "vocabulary" and not guess.measures["vocabulary"]):
            continue
        made = guess.as_field(name, form)
        fields.append(made if form.kind != "token_labels" or not masks else _masked(made, masks[0]))
    return tuple(fields)


def _masked(made: Field, settings: Mapping[str, object]) -> Field:
    return Field(made.name, made.kind, made.shape, made.high, settings)


DEFAULT_LENGTH = 128
TEXT_LENGTH = 64
"""Tokens of text in addition to those that stand for an image or a sound."""
OWN_FUNCTION = "Write a function that returns the model and its inputs, and name it instead: path/to/file.py:function"


@dataclass(frozen=True, slots=True)
class Derived:
    """Inputs and sizes for a model class.

    A batch has one sample in inference and two in training, which is enough for every kind of normalisation.
    """

    name: str
    fields: tuple[Field, ...]  # what ``forward`` is given
    labels: tuple[Field, ...]  # those of them that only a loss of the model's own needs
    own_loss: bool  # whether the model computes one
    note: str  # what was assumed, for the report
    seq_len: int | None
    longest: int
    shortest: int = 1
    seq_unit: str = "tokens"
    batch_size: Mapping[str, int] = field(default_factory=dict)


def derive(name: str, guess: Guess, phase: str, hint: str = OWN_FUNCTION) -> Derived:
    """Inputs for one step of ``phase``; ``hint`` says what to do where there are none.

    Raises WorkloadError: the class and its configuration do not show what ``forward`` needs.
    """
    signature = guess.signature
    fields = [guess.field(name) for name in guess.given()]
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


def choose_sizes(derived: Derived, options: RunOptions, room: int = 0) -> dict[str, int]:
    """``{"batch": …}``, with ``"seq"`` for a workload that has sequences.

    Raises UsageError: a size below 1, a sequence longer or shorter than the model takes, or a sequence length for a
    workload without sequences.

    Args:
        options: what the user asked for.
        room: tokens that are added to the sequences, and that the model must have positions for too.
    """
    phase = "training" if options.phase == "training" else "inference"
    batch = derived.batch_size[phase] if options.batch_size is None else options.batch_size
    check_positive("batch size", batch)
    sizes = {"batch": batch}
    if derived.seq_len is None:
        if options.seq_len is not None:
            raise UsageError(f"the workload '{derived.name}' has no sequences", "Leave out --seq-len.")
        return sizes
    longest = max(derived.longest - room, 1) if derived.longest else 0
    default = min(derived.seq_len, longest) if longest else derived.seq_len
    length = default if options.seq_len is None else options.seq_len
    check_positive("sequence length", length)
    if length < derived.shortest or (longest and length > longest):
        upper = f" to {longest}" if longest else " or more"
        raise UsageError(
            f"sequence length {length} is outside what '{derived.name}' takes",
            f"Choose {derived.shortest}{upper} {derived.seq_unit}.",
        )
    return {**sizes, "seq": length}
