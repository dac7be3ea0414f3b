"""The dtypes of stored tensors: what each format calls them, and how large an element is (``dtypes.toml``)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib.resources import files

_TABLE = tomllib.loads((files(__package__) / "dtypes.toml").read_text(encoding="utf-8"))
BITS: Mapping[str, int] = _TABLE["bits"]
SAFETENSORS: Mapping[str, str] = _TABLE["safetensors"]
SAFETENSORS_BITS: Mapping[str, int] = _TABLE["safetensors_bits"]
STORAGES: Mapping[str, str] = _TABLE["storages"]
NEAREST: Mapping[str, str] = _TABLE["nearest"]
GGML: Mapping[int, tuple[str, int, int]] = {int(number): (*row,) for number, row in _TABLE["ggml"].items()}
COMPUTED_IN = ("bfloat16", "float16", "float32")
"""What weights of floating point are converted to, the first that the release takes."""


def is_float(name: str) -> bool:
    """Whether weights of this dtype are numbers of floating point that can be converted to another such dtype."""
    return name.startswith(("float", "bfloat"))
