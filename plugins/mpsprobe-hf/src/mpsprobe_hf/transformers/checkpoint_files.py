"""A checkpoint folder's files, looked at before transformers is: what is missing or broken is said plainly."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mpsprobe.errors import WorkloadError
from mpsprobe.suggestions import printable
from mpsprobe_hf.checkpoint.folders import INDEX, entries, format_of, mapped_files, read_weights, text_of
from mpsprobe_hf.checkpoint.reading import AGAIN, LARGEST_NUMBER, read_json

CONFIG = "config.json"
ADAPTER = "adapter_config.json"
SAFE_INDEX = f".safetensors{INDEX}"
LARGEST_COUNTS = {
    ("expert",): 100_000,  # doge has 16,384
    ("layer", "depth", "block", "stage", "repeat", "head", "level", "stack", "type"): 10_000,
    ("label", "class"): 200_000,  # ImageNet-21k has 21,843
}
"""What names contain that count things → the most that a model has."""
NO_COUNTS = ("size", "vocab", "dim", "token", "length", "width", "channels", "index", "id2label", "label2id")
"""What names contain that count none: lengths of axes, which take no memory before there is a tensor."""


def read_config(folder: Path) -> Mapping[str, Any]:
    """``config.json`` as it stands.

    Raises WorkloadError: it is missing, unreadable, not JSON, or not an object; the hint says what the folder looks
    like instead.
    """
    path = folder / CONFIG
    if not path.is_file():
        raise WorkloadError(f"the folder '{printable(str(folder))}' has no {CONFIG}", _what_it_is(folder))
    return read_json(path)


def _what_it_is(folder: Path) -> str:
    names = {path.name for path in folder.iterdir()}
    if ADAPTER in names:
        base = text_of(read_json(folder / ADAPTER), "base_model_name_or_path")
        return (
            f"It holds an adapter (PEFT): give the model that it adapts{f', {base}' if base else ''}, or merge the two."
        )
    if "model_index.json" in names:
        return (
            "It holds a diffusers pipeline: give one of its folders, or path/to/file.py:function. "
            f"mpsprobe checkpoint {printable(str(folder))} says what it holds."
        )
    inside = sorted(path.name for path in folder.iterdir() if (path / CONFIG).is_file())
    if inside:
        return "Did you mean " + " or ".join(printable(str(folder / name)) for name in inside[:3]) + "?"
    return "A checkpoint folder is what model.save_pretrained(folder) writes."


def check_weights(folder: Path) -> None:
    """Raise unless there are whole weights in the safetensors format. Pickled ones can run code, and are never read.

    Raises WorkloadError: there are none, only pickled ones, or an index that maps to pickled ones; they are cut off,
    damaged, or not in the folder.
    """
    shown = printable(str(folder))
    names = entries(folder)
    for index in names:
        if index.endswith(SAFE_INDEX):
            check_index(folder, index)
    if any(name.endswith((".safetensors", SAFE_INDEX)) for name in names):
        if missing := read_weights(folder).missing:
            raise WorkloadError(f"'{shown}' has no {printable(missing[0])}, which its index names", AGAIN)
        return
    pickled = [name for name in names if format_of(folder / name) == "pickle"]
    if pickled:
        raise _pickled(shown, pickled[0])
    raise WorkloadError(
        f"the folder '{shown}' holds no weights (*.safetensors)", "Leave out --weights: random ones need no files."
    )


def check_index(folder: Path, index: str) -> None:
    """Raise as ``check_weights`` if an index of safetensors maps to anything else: that would be read as what it is."""
    for name in mapped_files(folder, index)[0]:
        if not (folder / name).is_file():  # a pipe would be waited for
            shown = printable(str(folder))
            raise WorkloadError(f"'{shown}' has no file {printable(name)}, which {printable(index)} names", AGAIN)
        if format_of(folder / name) != "safetensors":
            raise _pickled(printable(str(folder)), f"{printable(name)}, which {printable(index)} names")


def _pickled(shown: str, what: str) -> WorkloadError:
    return WorkloadError(
        f"the weights in '{shown}' are pickled ({printable(what)}), which can run any code when read",
        "Convert them once where you trust them: model.save_pretrained(folder) writes safetensors. "
        "Without --weights they are not needed.",
    )


def check_sizes(name: str, config: Mapping[str, Any]) -> None:
    """Refuse counts that no model has, and that take all memory in Python objects when the model is made of them.

    Raises WorkloadError: one, at any depth, is larger than ``LARGEST_COUNTS`` allows; the message names it.
    """
    left: list[tuple[str, str, Any]] = [("", "", dict(config))]
    while left:
        path, key, value = left.pop()
        if isinstance(value, dict):
            left += [(f"{path}.{inner}" if path else str(inner), str(inner), of) for inner, of in value.items()]
        elif isinstance(value, list | tuple):
            left += [(path, key, of) for of in value]
        elif type(value) is int and value > _most(key):
            shown = str(value) if value < LARGEST_NUMBER else f"a number of {value.bit_length()} bits"
            raise WorkloadError(f"the configuration of '{printable(name)}' has {printable(path)} = {shown}")


def _most(key: str) -> float:
    if any(part in key for part in NO_COUNTS):
        return LARGEST_NUMBER
    return next((most for parts, most in LARGEST_COUNTS.items() if any(part in key for part in parts)), LARGEST_NUMBER)


def needs_own_code(config: Mapping[str, Any], known_types: tuple[str, ...]) -> bool:
    """Whether the model exists only as code next to the checkpoint (``auto_map``)."""
    return bool(config.get("auto_map")) and config.get("model_type") not in known_types


def own_code(config: Mapping[str, Any]) -> str:
    """The files that ``auto_map`` names, as ``file.py`` or ``organisation/repository: file.py``: what would be run."""
    mapped = config.get("auto_map")
    values = list(mapped.values()) if isinstance(mapped, dict) else []
    named = [
        name for value in values for name in (value if isinstance(value, list) else [value]) if isinstance(name, str)
    ]
    files = dict.fromkeys(f"{reference.rpartition('.')[0].replace('--', ': ')}.py" for reference in named)
    return printable(", ".join(files) or f"auto_map in {CONFIG}")
