"""Every named workload, from the TOML files in this folder; ``shared.toml`` says how to add a name."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mpsprobe_hf.catalog.entry import Entry, Pipeline
    from mpsprobe_hf.catalog.reading import Names

FILES = ("pipelines", "text", "images", "audio", "series")
"""In the order in which their names are listed."""
PIPELINES = FILES[0]


@cache
def listed() -> dict[str, Mapping[str, Any]]:
    """What is listed about each name, and the file that has it: from ``names.json``, which is read in a millisecond.

    ``python -m mpsprobe_hf.catalog`` writes that file.
    """
    names: dict[str, Mapping[str, Any]] = json.loads(_text("names.json"))
    return names


def models() -> dict[str, Mapping[str, Any]]:
    """What is listed about each model of transformers."""
    return {name: facts for name, facts in listed().items() if facts["file"] != PIPELINES}


@cache
def entries_of(file: str) -> dict[str, Entry]:
    """The models of one of ``FILES``."""
    from mpsprobe_hf.catalog.entry import Entry

    return {name: entry for name, entry in _names_of(file).items() if isinstance(entry, Entry)}


@cache
def pipelines() -> dict[str, Pipeline]:
    """The pipelines of diffusers, by name."""
    from mpsprobe_hf.catalog.entry import Pipeline

    return {name: entry for name, entry in _names_of(PIPELINES).items() if isinstance(entry, Pipeline)}


def _names_of(file: str) -> dict[str, Entry | Pipeline]:
    from mpsprobe_hf.catalog.reading import Names

    return Names(_text(f"{file}.toml"), f"{file}.toml", shared()).entries()


@cache
def shared() -> Names:
    """The inputs, components and kinds of names for every file."""
    from mpsprobe_hf.catalog.reading import Names

    return Names(_text("shared.toml"), "shared.toml")


def entries() -> dict[str, Entry]:
    """The models of transformers, by name."""
    return {name: entry for file in FILES for name, entry in entries_of(file).items()}


def entry_of(name: str) -> Entry:
    """The entry of a model that is listed; only its file is read."""
    return entries_of(listed()[name]["file"])[name]


def published_as(checkpoint: str) -> Entry | None:
    """The model with the sizes of that repository of the Hub."""
    return next((entry_of(name) for name, facts in models().items() if facts["checkpoint"] == checkpoint), None)


def _text(file: str) -> str:
    # Importing pathlib takes longer than to read the names.
    with open(os.path.join(os.path.dirname(__file__), file), encoding="utf-8") as text:  # noqa: PTH118, PTH120, PTH123
        return text.read()
