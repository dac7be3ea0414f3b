"""The header of a GGUF file (github.com/ggml-org/ggml, docs/gguf.md): metadata and what its tensors are."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from mpsprobe.suggestions import printable
from mpsprobe_hf.checkpoint.reading import LARGEST_NUMBER, MEBIBYTE, ReadFile, StoredTensor, damaged, open_regular

MAGIC = b"GGUF"
VERSIONS = (2, 3)
LARGEST_HEADER = 64 * MEBIBYTE
"""Bytes; a vocabulary of 256,000 words has about 10 MB."""
MOST_DIMENSIONS = 8  # ggml has four
SMALLEST_TENSOR, SMALLEST_PAIR = 24, 13  # bytes that a description has at least
ALIGNMENT = "general.alignment"
LONGEST_NAME = 65_535  # bytes; the format allows keys of that length, ggml names of 64
SHOWN = (
    "general.architecture", "general.name", "general.file_type", "general.quantization_version", "general.size_label",
)  # fmt: skip
STRING, ARRAY = 8, 9
LENGTH = struct.Struct("<Q")
FIXED: Mapping[int, str] = {
    0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d",
}  # fmt: skip
"""Types of metadata of one size → how ``struct`` reads them."""

TYPES: Mapping[int, tuple[str, int, int]] = {
    0: ("float32", 1, 4),
    1: ("float16", 1, 2),
    2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34),
    9: ("Q8_1", 32, 36),
    10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210),
    15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66),
    17: ("IQ2_XS", 256, 74),
    18: ("IQ3_XXS", 256, 98),
    19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18),
    21: ("IQ3_S", 256, 110),
    22: ("IQ2_S", 256, 82),
    23: ("IQ4_XS", 256, 136),
    24: ("int8", 1, 1),
    25: ("int16", 1, 2),
    26: ("int32", 1, 4),
    27: ("int64", 1, 8),
    28: ("float64", 1, 8),
    29: ("IQ1_M", 256, 56),
    30: ("bfloat16", 1, 2),
    34: ("TQ1_0", 256, 54),
    35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17),
    40: ("NVFP4", 64, 36),
    41: ("Q1_0", 128, 18),
    42: ("Q2_0", 64, 18),
}
"""Numbers of ggml's types → name (torch's where torch has it), values in a block, bytes of a block.

From ``enum ggml_type`` of ggml.h and ``GGML_QUANT_SIZES`` of gguf-py, 2026; the blocks are the structures of
ggml-common.h. Numbers that are missing were removed from ggml.
"""


class _Header:
    """Reads forward, and no more than ``LARGEST_HEADER``."""

    def __init__(self, path: Path, stream: IO[bytes], size: int) -> None:
        self.path, self.size, self.at = path, size, 0
        self._stream, self._data, self._start = stream, b"", 0

    def take(self, count: int) -> bytes:
        """The next ``count`` bytes."""
        begin = self.at - self._start
        if count > len(self._data) - begin:
            if count > self.size - self.at:
                raise damaged(self.path, "is cut off: its header goes on after the end of the file")
            if self.at + count > LARGEST_HEADER:
                raise damaged(self.path, f"has a header of more than {LARGEST_HEADER:,} bytes")
            self._data = self._data[begin:] + self._stream.read(max(count, MEBIBYTE))
            self._start, begin = self.at, 0
            if count > len(self._data):
                raise damaged(self.path, "is cut off: its header goes on after the end of the file")
        self.at += count
        return self._data[begin : begin + count]

    def number(self, kind: str) -> Any:
        """The next number, of a type of ``struct``."""
        return struct.unpack("<" + kind, self.take(struct.calcsize("<" + kind)))[0]

    def text(self) -> str:
        """The next name."""
        length = self.number("Q")
        if length > LONGEST_NAME:
            raise damaged(self.path, f"has a name of {length:,} bytes in its header")
        return self.take(length).decode("utf-8", "replace")

    def counted(self, what: str, least: int) -> int:
        """The next count, of things that take ``least`` bytes each."""
        count: int = self.number("Q")
        if count > (self.size - self.at) // least:
            raise damaged(self.path, f"is cut off or damaged: it says that it has {count:,} {what}")
        return count

    def skip_texts(self, count: int) -> None:
        """Pass over texts: a vocabulary has hundreds of thousands, so those in the buffer are passed over at once."""
        while count:
            at, data = self.at - self._start, self._data
            while count and at + LENGTH.size <= len(data):
                after = at + LENGTH.size + LENGTH.unpack_from(data, at)[0]
                if after > len(data):
                    break
                at, count = after, count - 1
            self.at = self._start + at
            if count:  # the next one is not whole in the buffer
                self.take(self.counted("bytes of text", 1))
                count -= 1

    def value(self, kind: int) -> Any:
        """The next value of metadata; ``None`` for an array, which is passed over."""
        if kind in FIXED:
            return self.number(FIXED[kind])
        if kind == STRING:
            data = self.take(self.counted("bytes of text", 1))
            return data[:1000].decode("utf-8", "replace")
        if kind != ARRAY:
            raise damaged(self.path, f"has metadata of an unknown type ({kind})")
        inner = self.number("I")
        if inner in FIXED:
            width = struct.calcsize("<" + FIXED[inner])
            self.take(self.counted("numbers", width) * width)
        elif inner == STRING:
            self.skip_texts(self.counted("texts", 8))
        else:
            raise damaged(self.path, f"has an array of an unknown type ({inner}) in its metadata")
        return None


def read_gguf(path: Path) -> ReadFile:
    """What the header of ``path`` says, compared with the size of the file.

    Raises:
        WorkloadError: it is not such a file, damaged, or of a version or type that is not known here.
    """
    stream, size = open_regular(path)
    with stream:
        header = _Header(path, stream, size)
        if size < 24 or header.take(4) != MAGIC:
            raise damaged(path, "is not a GGUF file")
        version = header.number("I")
        if version not in VERSIONS:
            if version & 0xFFFF == 0:
                raise damaged(path, "is a big-endian GGUF file, which no Mac reads", "Take a little-endian one.")
            raise damaged(path, f"is a GGUF file of version {version}; known are 2 and 3", "Convert it with llama.cpp.")
        count = header.counted("tensors", SMALLEST_TENSOR)
        pairs = header.counted("values of metadata", SMALLEST_PAIR)
        metadata: dict[str, Any] = {}
        for _ in range(pairs):
            key, value = header.text(), header.value(header.number("I"))
            if key in SHOWN or key == ALIGNMENT:
                metadata[key] = value
        tensors, places = [], []
        for _ in range(count):
            tensor, begin = _tensor(header)
            tensors.append(tensor)
            places.append((begin, begin + tensor.bytes))
    alignment = metadata.pop(ALIGNMENT, 32)
    if type(alignment) is not int or not 0 < alignment <= MEBIBYTE:
        raise damaged(path, f"has an impossible alignment: {printable(str(alignment))}")
    _check_places(path, places, -(-header.at // alignment) * alignment, size)
    shown = {key: printable(str(value)) for key, value in metadata.items() if value is not None}
    return ReadFile(path, "gguf", size, tensors, shown)


def _tensor(header: _Header) -> tuple[StoredTensor, int]:
    name, dimensions = header.text(), header.number("I")
    if dimensions > MOST_DIMENSIONS:
        raise damaged(header.path, f"is damaged: '{printable(name)}' has {dimensions:,} dimensions")
    shape = [header.number("Q") for _ in range(dimensions)]
    kind, begin = header.number("I"), header.number("Q")
    values = 1
    for size in shape:
        values *= size
        if values >= LARGEST_NUMBER:
            raise damaged(header.path, f"has a header with impossible numbers for '{printable(name)}'")
    if kind not in TYPES:
        known = "Its type may be newer than this version of mpsprobe, or belong to a fork of ggml."
        raise damaged(header.path, f"has '{printable(name)}' in a type of ggml that is not known here ({kind})", known)
    dtype, block, width = TYPES[kind]
    if (shape[0] if shape else 1) % block:
        raise damaged(header.path, f"is damaged: rows of '{printable(name)}' are not whole blocks of {dtype}")
    return StoredTensor(name, dtype, values, values // block * width), begin


def _check_places(path: Path, places: list[tuple[int, int]], data: int, size: int) -> None:
    end = 0
    for begin, stop in sorted(places):
        if begin < end:
            raise damaged(path, f"is damaged: its tensors overlap at byte {data + begin:,}")
        end = stop
    if places and data + end > size:
        raise damaged(path, f"is cut off: its tensors need {data + end:,} bytes, it has {size:,}")
