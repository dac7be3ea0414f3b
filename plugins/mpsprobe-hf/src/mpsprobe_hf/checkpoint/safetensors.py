"""The header of a safetensors file (github.com/huggingface/safetensors, "Format")."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mpsprobe.suggestions import printable
from mpsprobe_hf.checkpoint.dtypes import BITS, SAFETENSORS, SAFETENSORS_BITS
from mpsprobe_hf.checkpoint.reading import (
    LARGEST_JSON,
    LARGEST_NUMBER,
    ReadFile,
    StoredTensor,
    damaged,
    elements,
    impossible,
    open_regular,
    parsed,
)

LENGTH = 8
"""Bytes of the header's length, little-endian, at the start of the file."""
MOST_METADATA = 20


def read_safetensors(path: Path) -> ReadFile:
    """What the header of ``path`` says, compared with the size of the file."""
    stream, size = open_regular(path)
    with stream:
        head = stream.read(LENGTH)
        length = int.from_bytes(head, "little")
        if len(head) < LENGTH or length < 2:
            raise damaged(path, "is not a safetensors file: it has no header")
        if length > size - LENGTH:
            raise damaged(path, f"is cut off or no safetensors file: its header has {length:,} bytes of {size:,}")
        if length > LARGEST_JSON:
            raise damaged(path, f"has a header of {length:,} bytes, more than any needs ({LARGEST_JSON:,})")
        header = parsed(stream.read(length), path, "header")
    metadata = header.pop("__metadata__", None)
    places: list[tuple[int, int]] = []
    tensors = [_tensor(path, name, described, places) for name, described in header.items()]
    end = 0
    for begin, stop in sorted(places):
        if begin != end:
            raise damaged(path, f"is damaged: its tensors overlap or leave a gap at byte {min(begin, end):,}")
        end = stop
    if end != size - LENGTH - length:
        held = size - LENGTH - length
        raise damaged(path, f"is {'cut off' if held < end else 'damaged'}: its tensors have {end:,} bytes, it {held:,}")
    return ReadFile(path, "safetensors", size, tensors, _texts(metadata))


def _tensor(path: Path, name: str, described: Any, places: list[tuple[int, int]]) -> StoredTensor:
    try:
        called, shape, (begin, end) = described["dtype"], described["shape"], described["data_offsets"]
        numbers = [*shape, begin, end]
        dtype = SAFETENSORS[called]
    except (KeyError, TypeError, ValueError) as error:
        raise damaged(path, f"has a header that does not describe '{printable(name)}' as the format asks") from error
    if not all(type(number) is int and 0 <= number < LARGEST_NUMBER for number in numbers):
        raise impossible(path, name)
    values = elements(shape, name, path)
    bits = values * (SAFETENSORS_BITS.get(called) or BITS[dtype])
    if bits != (end - begin) * 8:
        raise damaged(
            path, f"is damaged: '{printable(name)}' has {end - begin:,} bytes for {values:,} values of {called}"
        )
    places.append((begin, end))
    return StoredTensor(name, dtype, values, end - begin)


def _texts(metadata: Any) -> dict[str, str]:
    """The format allows texts only; a few of them are shown."""
    if not isinstance(metadata, dict):
        return {}
    texts = {printable(key): printable(value) for key, value in metadata.items() if isinstance(value, str)}
    return dict(list(texts.items())[:MOST_METADATA])
