"""The header of a GGUF file (github.com/ggml-org/ggml, docs/gguf.md): metadata and what its tensors are."""

# gguf's own reader (0.19) makes two arrays of each word of a vocabulary, and says nothing plain about damage; figures
# are in docs/explanation/dependencies.md.

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from mpsprobe.suggestions import printable
from mpsprobe_hf.checkpoint.dtypes import GGML
from mpsprobe_hf.checkpoint.reading import MEBIBYTE, ReadFile, StoredTensor, damaged, elements, open_regular

MAGIC = b"GGUF"
VERSIONS = (2, 3)
LARGEST_HEADER = 64 * MEBIBYTE
"""Bytes; a vocabulary of 256,000 words has about 10 MB."""
MOST_DIMENSIONS = 8  # ggml has four
MOST_TENSORS = 200_000  # some 10 µs each; models have thousands
SMALLEST_TENSOR, SMALLEST_PAIR = 24, 13  # bytes that a description has at least
ALIGNMENT = "general.alignment"
LONGEST_NAME = 65_535  # bytes; the format allows keys of that length, ggml names of 64
SHOWN = (
    "general.architecture", "general.name", "general.file_type", "general.quantization_version", "general.size_label",
)  # fmt: skip
STRING, ARRAY = 8, 9
FIXED: Mapping[int, struct.Struct] = {
    number: struct.Struct("<" + kind)
    for kind, number in zip("BbHhIif?Qqd", (0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), strict=True)
}
"""Types of metadata of one size → how they are read."""
UINT32, UINT64 = FIXED[4], FIXED[10]


class _Header:
    """Reads forward, and no more than ``LARGEST_HEADER``."""

    def __init__(self, path: Path, stream: IO[bytes], size: int) -> None:
        self.path, self.size, self.at = path, size, 0
        self.most, self._stream = min(size, LARGEST_HEADER), stream

    def take(self, count: int) -> bytes:
        self.at += count
        if self.at <= self.most and len(data := self._stream.read(count)) == count:
            return data
        if self.size >= self.at > LARGEST_HEADER:
            raise damaged(self.path, f"has a header of more than {LARGEST_HEADER:,} bytes")
        raise damaged(self.path, "is cut off: its header goes on after the end of the file")

    def number(self, kind: struct.Struct = UINT32) -> Any:
        return kind.unpack(self.take(kind.size))[0]

    def name(self) -> str:
        """A key, or the name of a tensor."""
        length = self.number(UINT64)
        if length > LONGEST_NAME:
            raise damaged(self.path, f"has a name of {length:,} bytes in its header")
        return self.take(length).decode("utf-8", "replace")

    def counted(self, what: str, least: int) -> int:
        """The next count, of things that take ``least`` bytes each."""
        count: int = UINT64.unpack(self.take(8))[0]
        if count > (self.size - self.at) // least:
            raise damaged(self.path, f"is cut off or damaged: it says that it has {count:,} {what}")
        return count

    def text(self) -> bytes:
        return self.take(self.counted("bytes of text", 1))

    def value(self, kind: int) -> Any:
        """The next value of metadata; ``None`` for an array, which is passed over."""
        if kind in FIXED:
            return self.number(FIXED[kind])
        if kind == STRING:
            return self.text()[:1000].decode("utf-8", "replace")
        if kind != ARRAY:
            raise damaged(self.path, f"has metadata of an unknown type ({kind})")
        inner = self.number()
        if inner in FIXED:
            width = FIXED[inner].size
            self.take(self.counted("numbers", width) * width)
        elif inner == STRING:
            for _ in range(self.counted("texts", 8)):
                self.text()
        else:
            raise damaged(self.path, f"has an array of an unknown type ({inner}) in its metadata")
        return None


def read_gguf(path: Path) -> ReadFile:
    """What the header of ``path`` says, compared with the size of the file."""
    stream, size = open_regular(path)
    with stream:
        header = _Header(path, stream, size)
        if size < 24 or header.take(4) != MAGIC:
            raise damaged(path, "is not a GGUF file")
        version = header.number()
        if version not in VERSIONS:
            if version & 0xFFFF == 0:
                raise damaged(path, "is a big-endian GGUF file, which no Mac reads", "Take a little-endian one.")
            raise damaged(path, f"is a GGUF file of version {version}; known are 2 and 3", "Convert it with llama.cpp.")
        count = header.counted("tensors", SMALLEST_TENSOR)
        if count > MOST_TENSORS:
            raise damaged(path, f"has {count:,} tensors, more than any model ({MOST_TENSORS:,})")
        pairs = header.counted("values of metadata", SMALLEST_PAIR)
        metadata: dict[str, Any] = {}
        for _ in range(pairs):
            key, value = header.name(), header.value(header.number())
            if key in SHOWN or key == ALIGNMENT:
                metadata[key] = value
        described = [_tensor(header) for _ in range(count)]
    alignment = metadata.pop(ALIGNMENT, 32)
    if type(alignment) is not int or not 0 < alignment <= MEBIBYTE:
        raise damaged(path, f"has an impossible alignment: {printable(str(alignment))}")
    data, end = -(-header.at // alignment) * alignment, 0
    for begin, length in sorted((begin, tensor.bytes) for tensor, begin in described):
        if begin < end:
            raise damaged(path, f"is damaged: its tensors overlap at byte {data + begin:,}")
        end = begin + length
    if described and data + end > size:
        raise damaged(path, f"is cut off: its tensors need {data + end:,} bytes, it has {size:,}")
    shown = {key: printable(str(value)) for key, value in metadata.items() if value is not None}
    return ReadFile(path, "gguf", size, [tensor for tensor, _ in described], shown)


def _tensor(header: _Header) -> tuple[StoredTensor, int]:
    """The next tensor, and where it begins."""
    name, dimensions = header.name(), header.number()
    if dimensions > MOST_DIMENSIONS:
        raise damaged(header.path, f"is damaged: '{printable(name)}' has {dimensions:,} dimensions")
    shape = [header.number(UINT64) for _ in range(dimensions)]
    kind, begin = header.number(), header.number(UINT64)
    values = elements(shape, name, header.path)
    if kind not in GGML:
        reason = "Its type may be newer than this version of mpsprobe, or belong to a fork of ggml."
        raise damaged(header.path, f"has '{printable(name)}' in a type of ggml that is not known here ({kind})", reason)
    dtype, block, width = GGML[kind]
    if (shape[0] if shape else 1) % block:
        raise damaged(header.path, f"is damaged: rows of '{printable(name)}' are not whole blocks of {dtype}")
    return StoredTensor(name, dtype, values, values // block * width), begin
