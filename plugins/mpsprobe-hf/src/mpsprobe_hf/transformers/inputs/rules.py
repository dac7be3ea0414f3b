"""The rules by which inputs are derived, from the TOML files of this folder, whose tops explain their keys."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mpsprobe_hf.forms import Argument, Family, Table, family_of, form_of, merged

ROOM = "mpsprobe_hf/transformers/inputs"
"""Where the rules are, for whoever mends one."""


@dataclass(frozen=True, slots=True)
class Head:
    """One kind of head, as ``heads.toml`` explains them."""

    ending: str
    labels: Mapping[str, Argument]
    inputs: Mapping[str, Argument]
    config: Mapping[str, int]
    computes: bool


def _table(file: str) -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name(file).read_text(encoding="utf-8"))


def _forms(said: Table, rule: str) -> dict[str, Argument]:
    return {name: form_of(form, f"{name} in {rule}") for name, form in said.items()}


def _family(name: str) -> Family:
    said = _families[name]
    while "like" in said:
        said = merged(_families[said["like"]], {key: said[key] for key in said if key != "like"})
    return family_of({**said, "config": _made(said.get("config", {}))}, f"families.toml [{name}]")


def _made(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _made(inner) for key, inner in value.items()}
    return MADE[value]() if isinstance(value, str) and value in MADE else value


def _chameleon_codes() -> dict[str, int]:
    """Each code of an image is named by its digits as letters."""
    letters = str.maketrans("0123456789", "ABCDEFGHIJ")
    return {"<image>": 8711, **{f"IMGIMG{str(code).translate(letters)}Z": 4 + code for code in range(8192)}}


def _emu3_codes() -> dict[str, int]:
    codes = {f"<|visual token {code:06d}|>": 151854 + code for code in range(32768)}
    return {"<image>": 151646, "<|extra_200|>": 151846, **codes}


MADE = {"$chameleon_codes": _chameleon_codes, "$emu3_codes": _emu3_codes}
"""Values of ``families.toml`` that are too long to write down."""

_arguments, _families, _measures = _table("arguments.toml"), _table("families.toml")["family"], _table("measures.toml")
ARGUMENTS: Mapping[str, tuple[Argument, ...]] = {
    name: tuple(form_of(form, f"{name} in arguments.toml") for form in (said if isinstance(said, list) else [said]))
    for name, said in _arguments["argument"].items()
}
"""Name → its forms, the special ones first."""
PLACEHOLDERS: Mapping[str, tuple[tuple[str, ...], str]] = {
    name: (tuple(argument["tokens"]), argument["measure"]) for name, argument in _arguments["placeholder"].items()
}
"""Argument → what configurations call the token that stands for it in a text, and the measure of how many there are."""
FAMILIES: dict[str, Family] = {name: _family(name) for name in _families}
"""Model type → what it needs in addition."""
HEADS: tuple[Head, ...] = tuple(
    Head(
        head["ending"],
        _forms(head.get("labels", {}), f"heads.toml [{head['ending']}]"),
        _forms(head.get("inputs", {}), f"heads.toml [{head['ending']}]"),
        head.get("config", {}),
        head.get("computes", False),
    )
    for head in _table("heads.toml")["head"]
)
"""The first whose ending fits is taken."""
PARTS: Mapping[str, tuple[str, ...]] = {name: tuple(measure) for name, measure in _measures["part"].items()}
"""Attributes of a configuration that hold the configurations of its parts."""
MEASURES: Mapping[str, tuple[str, tuple[str, ...], int]] = {
    name: (measure["part"], tuple(measure["names"]), measure.get("otherwise", 0))
    for name, measure in _measures["measure"].items()
}
"""Measure → the part that has it, its names there, and what is taken where none says it."""
