"""Checkpoints made byte by byte, as their formats' documents have them."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

WIDTHS = {"F64": 64, "F32": 32, "F16": 16, "BF16": 16, "I32": 32, "U8": 8, "I8": 8, "F8_E4M3": 8, "F4": 4, "U32": 32}
Tensors = Mapping[str, tuple[str, Sequence[int]]]


def header_of(tensors: Tensors) -> tuple[dict[str, Any], int]:
    """The header of a safetensors file, and the bytes of its data."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, (dtype, shape) in tensors.items():
        bits = WIDTHS[dtype]
        for size in shape:
            bits *= size
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [end, end + bits // 8]}
        end += bits // 8
    return header, end


def safetensors(path: Path, tensors: Tensors) -> Path:
    """A safetensors file, whose data are a hole that takes no room on the disk."""
    header, size = header_of(tensors)
    return with_header(path, header, size)


def with_header(path: Path, header: Any, size: int) -> Path:
    """A file with this header, and so many bytes of data."""
    text = json.dumps(header).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text)
        stream.truncate(8 + len(text) + size)
    return path


def sharded(folder: Path, tensors: Tensors, count: int, config: Mapping[str, Any] | None = None) -> Path:
    """A folder with an index and ``count`` shards."""
    mapped: dict[str, str] = {}
    names = list(tensors)
    for number in range(count):
        name = f"model-{number + 1:05}-of-{count:05}.safetensors"
        own = names[number::count]
        safetensors(folder / name, {one: tensors[one] for one in own})
        mapped |= dict.fromkeys(own, name)
    index = {"metadata": {"total_size": header_of(tensors)[1]}, "weight_map": mapped}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    (folder / "config.json").write_text(json.dumps(config or {"model_type": "llama"}), encoding="utf-8")
    return folder


def text(value: str) -> bytes:
    """A string of GGUF."""
    return struct.pack("<Q", len(value.encode())) + value.encode()


def gguf(
    path: Path,
    tensors: Sequence[tuple[str, Sequence[int], int, int]],
    metadata: Sequence[bytes] = (),
    size: int = 0,
    counts: tuple[int, int] | None = None,
) -> Path:
    """A GGUF file of version 3: tensors as (name, shape, number of the type, offset), metadata as it stands."""
    many, pairs = counts or (len(tensors), len(metadata))
    data = b"GGUF" + struct.pack("<IQQ", 3, many, pairs) + b"".join(metadata)
    for name, shape, kind, offset in tensors:
        data += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)
    data += b"\0" * (-len(data) % 32)
    with path.open("wb") as stream:
        stream.write(data)
        stream.truncate(len(data) + size)
    return path


def pair(key: str, kind: int, value: bytes) -> bytes:
    """A key and a value of GGUF's metadata."""
    return text(key) + struct.pack("<I", kind) + value
