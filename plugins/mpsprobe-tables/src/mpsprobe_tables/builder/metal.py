"""The Metal kernels in a library: their names, and the dtypes that the names tell.

Each section ``__TEXT,metal_*`` is a compiled Metal library: entries ``NAME``, a length of two bytes, and the name with
its final zero. From torch 2.7 on a kernel that computes element by element is called
``<operation>_<way of access>_<result>_<input>`` (``exp_dense_float_int``), with ``_cast`` or ``_castout`` for the
variants that convert while they read or write (PyTorch's c10/metal/indexing.h).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from mpsprobe_coverage.knowledge.kernels.kernel_facts import CONVERTING, METAL_TYPES
from mpsprobe_tables.builder.macho import MachO

LONGEST_NAME = 512
NEAR = 200  # bytes behind a name in which its size stands
_TYPE = "|".join(sorted(METAL_TYPES, key=len, reverse=True))
_WAY = r"(?:dense|strided|inner_contiguous)(?:_(?:scalar|broadcast|lhs|rhs|inner|contiguous|ilp\d*|castout|cast))*"
PATTERN = re.compile(r"(?:\w|\{\}){3,100}", re.ASCII)
ELEMENTWISE = re.compile(rf"(?P<operation>\w+?)_(?P<way>{_WAY})(?P<types>(?:_(?:{_TYPE}))+)(?:_\w*Params(?:_\w+)?)?$")


def kernel_sizes(library: MachO) -> dict[str, int]:
    """The names of all Metal kernels, of every section, and how many bytes each was compiled to (``MDSZ``).

    Which section is used depends on the macOS, a new one is assumed: the size is that in the last one.
    """
    sizes = {}
    for _, data in library.sections("__TEXT", "metal"):
        at = data.find(b"NAME")
        while at >= 0:
            length = int.from_bytes(data[at + 4 : at + 6], "little")
            text = data[at + 6 : at + 6 + length]
            if 1 < length <= LONGEST_NAME and text.endswith(b"\0") and re.fullmatch(rb"[A-Za-z_]\w*\0", text):
                size = data.find(b"MDSZ", at + 6 + length, at + 6 + length + NEAR)
                name = text[:-1].decode("ascii")
                sizes[name] = int.from_bytes(data[size + 6 : size + 14], "little") if size >= 0 else 0
            at = data.find(b"NAME", at + 4)
    return sizes


def elementwise(names: Iterable[str]) -> Mapping[str, list[str]]:
    """Operation → the kernels that compute it by element."""
    kernels: dict[str, list[str]] = {}
    for name in names:
        match = ELEMENTWISE.fullmatch(name)
        if match is not None:
            kernels.setdefault(match["operation"], []).append(name)
    return kernels


def elementwise_types(names: Iterable[str]) -> Mapping[str, frozenset[str]]:
    """Operation → the Metal types of its input that it has kernels for.

    Those of variants that convert their inputs are marked ``cast:``, since they serve inputs of differing dtypes.
    """
    dtypes: dict[str, set[str]] = {}
    for name in names:
        match = ELEMENTWISE.fullmatch(name)
        if match is None:
            continue
        types = match["types"][1:].split("_")
        converts = re.search(r"_cast(_|$)", match["way"]) is not None
        read = types[1] if len(types) > 1 else types[0]
        dtypes.setdefault(match["operation"], set()).add(CONVERTING + read if converts else read)
    return {operation: frozenset(types) for operation, types in dtypes.items()}


class KernelNames:
    """The kernels of one library, asked for by patterns of their names: ``{}`` stands for any text in a name."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = sorted(set(names))
        self._found: dict[str, tuple[re.Match[str], ...]] = {}

    def fits(self, pattern: str) -> bool:
        """Whether ``pattern`` is that of a kernel's name."""
        return bool(self._matches(pattern))

    def types(self, pattern: str) -> frozenset[str]:
        """The Metal types that stand in the places of ``{}``; empty when none does in one of the names."""
        kernels: set[str] = set()
        for match in self._matches(pattern):
            types = {part for text in match.groups() for part in text.split("_") if part in METAL_TYPES}
            if not types:
                return frozenset()
            kernels |= types
        return frozenset(kernels)

    def _matches(self, pattern: str) -> tuple[re.Match[str], ...]:
        known = self._found.get(pattern)
        if known is None:
            known = ()
            if PATTERN.fullmatch(pattern):
                expression = re.compile(r"(\w*)".join(re.escape(part) for part in pattern.split("{}")))
                known = tuple(m for m in map(expression.fullmatch, self._names) if m is not None)
            self._found[pattern] = known
        return known
