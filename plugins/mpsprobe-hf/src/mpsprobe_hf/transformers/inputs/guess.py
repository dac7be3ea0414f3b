"""What is believed of a model's inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mpsprobe_hf.forms import Argument, Size
from mpsprobe_hf.sizes import Dimension, Field
from mpsprobe_hf.transformers.inputs.measures import Measures, first
from mpsprobe_hf.transformers.inputs.rules import ARGUMENTS, PLACEHOLDERS, ROOM
from mpsprobe_hf.transformers.inputs.signature import Signature


@dataclass(frozen=True, slots=True)
class Guess:
    """What is believed of a model's inputs; a correction makes another one."""

    signature: Signature  # of the model
    measures: Measures  # its sizes
    # Forms of arguments that are known better than ``ARGUMENTS``.
    arguments: Mapping[str, Argument] = field(default_factory=dict)
    more: tuple[str, ...] = ()  # arguments that are given although nothing in the signature asks for them
    without: frozenset[str] = frozenset()  # arguments that are left out
    length: int = 0  # tokens of a text where the model wants so many and no others; 0 for any
    samples: int = 2  # of one training step: two are enough for every kind of normalisation
    learned: tuple[str, ...] = ()  # what the model's own errors have corrected, for the report

    def form(self, name: str) -> Argument | None:
        """The form of the argument ``name`` that this model takes; ``None`` if nobody knows one."""
        if name in self.arguments:
            return self.arguments[name]
        return next((form for form in ARGUMENTS.get(name, ()) if self._applies(form.if_)), None)

    def rules(self, names: Iterable[str], labels: Mapping[str, Argument]) -> str:
        """Which rules have derived the arguments ``names``, for whoever mends one; ``labels`` are forms of its head."""
        forms = (self.form(name) or labels.get(name) for name in names)
        return f"derived by {ROOM}: {', '.join(form.rule or 'corrections' for form in forms if form)}"

    def _has_values(self, form: Argument) -> bool:
        """Whether there is a number that the argument could have: without a vocabulary there are no tokens."""
        return form.kind not in ("tokens", "integers") or self._number(form.high) > 0

    def _applies(self, condition: str) -> bool:
        says, _, measure = condition.rpartition(" ")
        return not condition or (self.measures.says(measure) if says else condition in self.signature.parameters)

    def given(self) -> tuple[str, ...]:
        """The arguments of one forward pass, in the order of the signature."""
        signature = self.signature
        names = (*signature.parameters, *(name for name in self.more if name not in signature.parameters))
        known = {name: form for name in names if (form := self.form(name)) is not None and self._has_values(form)}
        chosen = {name for name in (*signature.main, *self.more, *signature.required) if name in known} - self.without
        if not chosen & set(signature.main) and "input_ids" in known.keys() - self.without:
            chosen.add("input_ids")
        reasons = chosen | ({"encoder"} if signature.writes else set())
        grown = True
        while grown:
            more = {name for name, form in known.items() if set(form.with_) & reasons} - self.without
            grown = not more <= chosen
            chosen |= more
            reasons |= more
        return tuple(name for name in names if name in chosen)

    def leads(self) -> tuple[tuple[int, int], ...]:
        """``(id, count)`` of the tokens that stand for images, videos and sounds in the text, in this order."""
        return tuple((token, self.tokens_of(name, measure)) for token, name, measure in self.placeholders())

    def placeholders(self) -> tuple[tuple[int, str, str], ...]:
        """The id of each token that stands for an argument, that argument, and the measure of how many there are."""
        guesses = []
        for name, (tokens, measure) in PLACEHOLDERS.items():
            token = first([self.signature.config, *self.measures.parts("vision")], *tokens)
            if name in self.given() and isinstance(token, int) and 0 <= token < self.measures["vocabulary"]:
                guesses.append((token, name, measure))
        return tuple(guesses)

    def tokens_of(self, name: str, measure: str) -> int:
        """How many tokens of the text stand for the argument ``name``."""
        form = self.form(name)
        if measure == "image_tokens" and measure not in self.measures.known and form and "grid*batch" in form.shape:
            return self.measures["grid_tokens"]
        return self.measures[measure] if measure in self.measures else self.measures["grid_tokens"]

    def field(self, name: str) -> Field:
        """The argument ``name``, its measures as numbers."""
        form = self.form(name)
        assert form is not None
        return self.as_field(name, form)

    def as_field(self, name: str, form: Argument) -> Field:
        """The argument ``name`` in ``form``, its measures as numbers."""
        settings = {key: self._setting(value) for key, value in form.settings.items()}
        leads = self.leads() if form.kind in ("tokens", "spans", "padding_mask") and not name.startswith("dec") else ()
        if leads:
            settings |= {"keep": sum(count for _, count in leads)}
            settings |= {"leads": leads} if form.kind != "padding_mask" else {}
        pad = first(self.measures.parts("text"), "pad_token_id")
        if form.kind == "tokens" and isinstance(pad, int) and 0 <= pad < self.measures["vocabulary"]:
            settings["pad"] = pad
        separator = first(self.measures.parts("text"), "sep_token_id", "eos_token_id")
        if "separators" in settings and isinstance(separator, int) and separator != settings.get("pad"):
            settings["separator"] = separator
        shape = tuple(self.dimension(size) for size in form.shape)
        return Field(name, form.kind, shape, self._number(form.high), settings)

    def dimension(self, size: Size) -> Dimension:
        """``size`` as a catalog's fields have it."""
        if isinstance(size, int) or size in ("batch", "seq"):
            return size
        measure, times, of = size.partition("*")
        if not times:
            return self._number(size)
        return f"{measure if measure.isdigit() else self._number(measure)}*{of}"

    def _number(self, size: Size) -> int:
        return int(size) if isinstance(size, int) or size.isdigit() else self.measures[size]

    def _setting(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.measures[value]
        return tuple(map(self._number, value)) if isinstance(value, tuple) else value
