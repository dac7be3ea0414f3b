"""How a checkpoint says that it is quantized, what that makes of its tensors, and what runs it on MPS."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal

from mpsprobe.suggestions import printable
from mpsprobe_hf.checkpoint.dtypes import BITS
from mpsprobe_hf.checkpoint.reading import StoredTensor

Role = Literal["weights", "packed", "scales"]
MOST_BITS = 16
PLACES = ("quantization_config", "compression_config")
"""Keys of ``config.json`` with the settings of a quantized checkpoint; the second is that of older ones."""
INTEGERS = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64")


@dataclass(frozen=True, slots=True)
class Backend:
    """What is known of one method. The table is ``backends.toml``.

    Attributes:
        mps: what there is for MPS, as ``mpsprobe.schemas.MpsPath`` has it.
        explanation: the same in sentences.
        read_in: the release of the library in which it was read.
        sources: addresses or files that establish it.
        packed: endings of the names of tensors whose integers hold several weights each.
        scales: endings of the names of tensors that are no weights.
        bits: of a weight, where a configuration does not say it.
        opaque: the number of weights does not follow from the shapes of the tensors.
    """

    mps: str
    explanation: str
    read_in: str = ""
    sources: tuple[str, ...] = ()
    packed: tuple[str, ...] = ()
    scales: tuple[str, ...] = ()
    bits: int | None = None
    opaque: bool = False


UNKNOWN = Backend("unknown", "What runs it on MPS was not established.")


@dataclass(frozen=True, slots=True)
class Quantized:
    """A method with its settings.

    Attributes:
        method: as the configuration calls it.
        backend: what is known of it.
        bits: of a weight; ``None`` where that is not known.
    """

    method: str
    backend: Backend
    bits: int | None

    def role(self, tensor: StoredTensor) -> tuple[Role, int]:
        """What a tensor is for, and how many weights it holds."""
        if tensor.name.endswith(self.backend.scales):
            return "scales", 0
        width = BITS.get(tensor.dtype, 0)
        if self.bits and tensor.dtype in INTEGERS and width >= self.bits and tensor.name.endswith(self.backend.packed):
            return "packed", tensor.values * width // self.bits
        return "weights", tensor.values


@functools.cache
def backends() -> Mapping[str, Backend]:
    """What is known of each method, by the name that configurations have for it."""
    text = (files(__package__) / "backends.toml").read_text(encoding="utf-8")
    known = {}
    for name, one in tomllib.loads(text).items():
        lists = {key: tuple(value) for key, value in one.items() if isinstance(value, list)}
        known[name] = Backend(**{**one, **lists})
    return known


def quantization_of(*configs: Mapping[str, Any]) -> Quantized | None:
    """What the first of several configurations that says something says; ``None`` where none does."""
    for config in configs:
        for settings in _settings(config):
            method = _method(settings)
            if method is not None:
                backend = backends().get(method, UNKNOWN)
                return Quantized(printable(method), backend, _bits(settings) or backend.bits)
    return None


def of_file(format_name: str) -> Quantized | None:
    """GGUF says it in the dtypes of its tensors alone."""
    return Quantized("gguf", backends()["gguf"], None) if format_name == "gguf" else None


def _settings(config: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    inner = [config, *(config.get(key) for key in ("text_config", "llm_config", "language_config"))]
    for one in inner:
        if not isinstance(one, dict):
            continue
        yield from (one[key] for key in PLACES if isinstance(one.get(key), dict))
        mlx = one.get("quantization")  # of mlx-lm
        if isinstance(mlx, dict) and "group_size" in mlx:
            yield {"quant_method": "mlx", **mlx}


def _method(settings: Mapping[str, Any]) -> str | None:
    """``quant_method`` in lower case; of bitsandbytes with its size, as transformers names it."""
    named = settings.get("quant_method") or settings.get("quant_type") or settings.get("quant_library")
    eight, four = settings.get("load_in_8bit"), settings.get("load_in_4bit")
    if named == "bitsandbytes" or (named is None and (eight or four)) or settings.get("_load_in_4bit"):
        return "bitsandbytes_8bit" if eight and not four else "bitsandbytes_4bit"
    return named.lower() if isinstance(named, str) else None


def _bits(settings: Mapping[str, Any]) -> int | None:
    groups = settings.get("config_groups")
    if isinstance(groups, dict):  # of compressed-tensors and modelopt
        weights = [one.get("weights") for one in groups.values() if isinstance(one, dict)]
        found = [one.get("num_bits") for one in weights if isinstance(one, dict)]
        settings = {"bits": found[0]} if found else {}
    for key in ("bits", "w_bit", "nbits", "num_bits", "weight_bits"):
        value = settings.get(key)
        if type(value) is int and 0 < value <= MOST_BITS:
            return value
    named = settings.get("weights")  # of quanto: "int4"
    tail = named.removeprefix("int").removeprefix("qint") if isinstance(named, str) else ""
    return int(tail) if tail in ("2", "4", "8") else None
