"""How a checkpoint says that it is quantized, what that makes of its tensors, and what runs it on MPS."""

from __future__ import annotations

import functools
import itertools
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal

from mpsprobe.suggestions import printable
from mpsprobe_hf.checkpoint.dtypes import BITS
from mpsprobe_hf.checkpoint.reading import StoredTensor

if TYPE_CHECKING:
    from mpsprobe.schemas.checkpoint import MpsPath

Role = Literal["weights", "packed", "scales"]
MOST_BITS = 16
PLACES = ("quantization_config", "compression_config")
"""Keys of ``config.json`` with the settings of a quantized checkpoint; the second is that of older ones."""
INTEGERS = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64")


@dataclass(frozen=True, slots=True)
class Backend:
    """What is known of one method. The table is ``backends.toml``."""

    mps: MpsPath  # what there is for MPS
    explanation: str  # the same in sentences
    read_in: str = ""  # the release of the library in which it was read
    sources: Sequence[str] = ()  # addresses or files that establish it
    packed: Sequence[str] = ()  # endings of the names of tensors whose integers hold several weights each
    scales: Sequence[str] = ()  # endings of the names of tensors that are no weights
    bits: int | None = None  # of a weight, where a configuration does not say it
    opaque: bool = False  # the number of weights does not follow from the shapes of the tensors


UNKNOWN = Backend("unknown", "What runs it on MPS was not established.")


@dataclass(frozen=True, slots=True)
class Quantized:
    """A method, as the configuration calls it, with its settings."""

    method: str
    backend: Backend
    bits: int | None  # of a weight, where that is known

    def role(self, tensor: StoredTensor) -> tuple[Role, int]:
        """What a tensor is for, and how many weights it holds."""
        if tensor.name.endswith(tuple(self.backend.scales)):
            return "scales", 0
        width = BITS.get(tensor.dtype, 0)
        packed = tensor.dtype in INTEGERS and tensor.name.endswith(tuple(self.backend.packed))
        if packed and self.bits and width >= self.bits:
            return "packed", tensor.values * width // self.bits
        return "weights", tensor.values


@functools.cache
def backends() -> Mapping[str, Backend]:
    """What is known of each method, by the name that configurations have for it."""
    text = (files(__package__) / "backends.toml").read_text(encoding="utf-8")
    return {method: Backend(**row) for method, row in tomllib.loads(text).items()}


def quantization_of(*configs: Mapping[str, Any]) -> Quantized | None:
    """What the first of several configurations that says something says; ``None`` where none does."""
    for settings in itertools.chain.from_iterable(map(_settings, configs)):
        if (method := _method(settings)) is not None:
            backend = backends().get(method, UNKNOWN)
            return Quantized(printable(method), backend, _bits(settings) or backend.bits)
    return None


def of_file(format_name: str | None) -> Quantized | None:
    """GGUF says it in the dtypes of its tensors alone."""
    return Quantized("gguf", backends()["gguf"], None) if format_name == "gguf" else None


def _settings(config: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    for part in (config, *(config.get(key) for key in ("text_config", "llm_config", "language_config"))):
        if not isinstance(part, dict):
            continue
        yield from (part[key] for key in PLACES if isinstance(part.get(key), dict))
        mlx = part.get("quantization")  # of mlx-lm
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
        weights = [group.get("weights") for group in groups.values() if isinstance(group, dict)]
        bits = [of_group.get("num_bits") for of_group in weights if isinstance(of_group, dict)]
        settings = {"bits": bits[0]} if bits else {}
    for key in ("bits", "w_bit", "nbits", "num_bits", "weight_bits"):
        value = settings.get(key)
        if type(value) is int and 0 < value <= MOST_BITS:
            return value
    named = settings.get("weights")  # of quanto: "int4"
    tail = named.removeprefix("int").removeprefix("qint") if isinstance(named, str) else ""
    return int(tail) if tail in ("2", "4", "8") else None
