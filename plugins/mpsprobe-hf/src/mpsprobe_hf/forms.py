"""Forms of arguments of ``forward``, and what is known of a model type or a name beyond the rules, read from TOML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Size = int | str
Table = Mapping[str, Any]
KINDS = (
    "integers", "tokens", "padding_mask", "leading", "token_labels", "floats", "ones", "observed", "flags", "zeros",
    "every_other", "spans", "constant", "rows", "places", "columns", "series", "boxes", "class_lists", "mask_lists",
)  # fmt: skip
"""What an input can hold: each is a function in ``mpsprobe_hf.tensors``."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One form of an argument; ``transformers/inputs/arguments.toml`` says what its words mean."""

    kind: str
    shape: tuple[Size, ...]
    high: Size = 0
    settings: Table = field(default_factory=dict)
    if_: str = ""
    with_: tuple[str, ...] = ()
    rule: str = field(default="", compare=False)  # where it is from: a file and its table


@dataclass(frozen=True, slots=True)
class Family:
    """What a model type or a name needs beyond the rules; ``transformers/inputs/families.toml`` explains it."""

    config: Table = field(default_factory=dict)
    measures: Mapping[str, int] = field(default_factory=dict)
    arguments: Mapping[str, Argument] = field(default_factory=dict)
    more: tuple[str, ...] = ()
    without: tuple[str, ...] = ()

    def over(self, below: Family) -> Family:
        """Both, where this one says more."""
        return Family(
            {**below.config, **self.config},
            {**below.measures, **self.measures},
            {**below.arguments, **self.arguments},
            (*below.more, *self.more),
            (*below.without, *self.without),
        )


NOTHING = Family()


def form_of(said: Table, rule: str) -> Argument:
    """The form that a table describes."""
    settings = {key: frozen(said[key]) for key in said if key not in ("kind", "shape", "high", "if", "with")}
    with_ = tuple(said.get("with", ()))
    return Argument(said["kind"], tuple(said["shape"]), said.get("high", 0), settings, said.get("if", ""), with_, rule)


def family_of(said: Table, rule: str) -> Family:
    """What a table says about measures and arguments."""
    return Family(
        said.get("config", {}),
        said.get("measures", {}),
        {name: form_of(form, f"{name} in {rule}") for name, form in said.get("arguments", {}).items()},
        tuple(said.get("more", ())),
        tuple(said.get("without", ())),
    )


def merged(below: Table, above: Table) -> dict[str, Any]:
    """``above`` over ``below``, table by table."""
    tables = {key for key in above if isinstance(above[key], Mapping) and isinstance(below.get(key), Mapping)}
    return {**below, **above, **{key: merged(below[key], above[key]) for key in tables}}


def frozen(value: Any) -> Any:
    """Lists as tuples."""
    return tuple(frozen(part) for part in value) if isinstance(value, list) else value
