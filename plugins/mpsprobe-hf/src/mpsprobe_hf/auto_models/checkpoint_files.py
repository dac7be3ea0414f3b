"""A checkpoint folder's files, looked at before transformers is: what is missing or broken is said plainly."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mpsprobe.errors import WorkloadError
from mpsprobe.suggestions import an, printable

CONFIG = "config.json"
LARGEST_CONFIG = 16 * 2**20
"""Bytes; real ones have a few thousand."""
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")


def read_config(folder: Path) -> Mapping[str, Any]:
    """``config.json`` as it stands.

    Raises:
        WorkloadError: it is missing, unreadable, not JSON, or not an object; the hint says what the
            folder looks like instead.
    """
    path = folder / CONFIG
    shown = printable(str(folder))
    if not path.is_file():
        raise WorkloadError(f"the folder '{shown}' has no {CONFIG}", _what_it_is(folder))
    try:
        if path.stat().st_size > LARGEST_CONFIG:
            raise WorkloadError(
                f"{CONFIG} in '{shown}' is larger than {LARGEST_CONFIG} bytes: it is not a configuration"
            )
        config = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise WorkloadError(f"{CONFIG} in '{shown}' is not valid JSON: {error.msg} at {where}") from error
    except (OSError, UnicodeDecodeError, RecursionError) as error:
        raise WorkloadError(f"{CONFIG} in '{shown}' cannot be read: {type(error).__name__}") from error
    if not isinstance(config, dict):
        raise WorkloadError(f"{CONFIG} in '{shown}' holds {an(type(config).__name__)}, not an object")
    return config


def _what_it_is(folder: Path) -> str:
    names = {one.name for one in folder.iterdir()}
    if "adapter_config.json" in names:
        return "It holds an adapter (PEFT): give the folder of the model that it adapts, or merge the two."
    if "model_index.json" in names:
        return "It holds a diffusers pipeline: give one of its folders, or path/to/file.py:function."
    inside = sorted(one.name for one in folder.iterdir() if (one / CONFIG).is_file())
    if inside:
        return "Did you mean " + " or ".join(printable(str(folder / one)) for one in inside[:3]) + "?"
    return "A checkpoint folder is what model.save_pretrained(folder) writes."


def check_weights(folder: Path) -> None:
    """Raise unless there are weights in the safetensors format. Pickled ones can run code, and are never read.

    Raises:
        WorkloadError: there are none, or only pickled ones.
    """
    shown = printable(str(folder))
    if any(folder.glob("*.safetensors")):
        return
    pickled = sorted(one.name for pattern in PICKLES for one in folder.glob(pattern))
    if pickled:
        raise WorkloadError(
            f"the weights in '{shown}' are pickled ({printable(pickled[0])}), which can run any code when read",
            "Convert them once where you trust them: model.save_pretrained(folder) writes safetensors. "
            "Without --weights they are not needed.",
        )
    raise WorkloadError(
        f"the folder '{shown}' holds no weights (*.safetensors)", "Leave out --weights: random ones need no files."
    )


def needs_own_code(config: Mapping[str, Any], known_types: tuple[str, ...]) -> bool:
    """Whether the model exists only as code next to the checkpoint (``auto_map``)."""
    return bool(config.get("auto_map")) and config.get("model_type") not in known_types
