"""Presets for ``profile``: well-known comparisons by name, or a user's own in a TOML file."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mpsprobe.errors import UnknownName, UsageError
from mpsprobe.suggestions import printable

SUFFIX = ".toml"


class PresetWorkload(BaseModel):
    """A workload by name, with its sizes (samples in a step, tokens in a sample); ``None``: the workload's own."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1)
    batch_size: int | None = Field(default=None, ge=1)
    seq_len: int | None = Field(default=None, ge=1)


class Preset(BaseModel):
    """Several workloads to measure in one report. Flags of the command line go before what stands here."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    summary: str = ""
    source: str | None = None
    phases: list[Literal["inference", "training"]] = Field(default=["inference"], min_length=1)
    baseline: str | None = None
    notes: list[str] = []
    workloads: list[PresetWorkload] = Field(min_length=1)


def preset_names() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in Path(__file__).parent.glob(f"*{SUFFIX}")))


def load_preset(name: str) -> Preset:
    """The preset called ``name``, or that of the file ``name`` if it ends in ``.toml``."""
    shown, known = printable(name), preset_names()
    if name not in known and not name.lower().endswith(SUFFIX):
        hint = f"There are: {', '.join(known)}. One of your own is a file: --preset FILE.toml"
        raise UnknownName("preset", name, known, hint)
    try:
        path = Path(__file__).with_name(f"{name}{SUFFIX}") if name in known else Path(name)
        text = path.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"cannot read the preset '{shown}': {printable(str(reason))}") from error
    try:
        return Preset.model_validate(tomllib.loads(text.decode("utf-8")))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"the preset '{shown}' is not TOML: {printable(str(error))}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UsageError(
            f"the preset '{shown}' is wrong at '{printable(where)}': {first['msg']}",
            "It needs [[workloads]] with a name each, and may have phases, baseline, batch_size and seq_len.",
        ) from error
