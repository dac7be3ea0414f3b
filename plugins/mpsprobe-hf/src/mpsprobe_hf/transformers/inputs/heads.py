"""What a head changes: the labels that it computes a loss from, and the form of inputs that it has of its own.

A head is known by the ending of its class's name, which means the same in all of transformers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from mpsprobe_hf.forms import Argument
from mpsprobe_hf.sizes import Field
from mpsprobe_hf.transformers.inputs.guess import Guess
from mpsprobe_hf.transformers.inputs.rules import HEADS, Head


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
