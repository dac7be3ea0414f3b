"""What a user calls an operator, and which operators that means."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

from mpsprobe.errors import UnknownName

DEFAULT_OVERLOAD = ".default"
PYTHON_PREFIXES = ("torch.ops.", "torch.nn.functional.", "torch.Tensor.", "torch.")
PYTHON_MODULES = ("linalg", "fft", "special")  # torch.linalg.qr is aten::linalg_qr
LONGEST_NAME = 200  # characters; the longest operator's name has 75


def resolve_operators(texts: Iterable[str], known: frozenset[str]) -> list[str]:
    """The operators that ``texts`` mean, in that order, each once.

    ``linalg_qr.out``, ``aten::linalg_qr.out``, ``aten.linalg_qr.out`` and ``torch.linalg.qr`` are understood. A name
    without an overload means all of its overloads; with ``.default`` it means the one that has no overload name.
    ``known`` are those that there are (``KernelFamily.operators``).
    """
    return list(dict.fromkeys(operator for text in texts for operator in _resolve(text, known)))


def _resolve(text: str, known: frozenset[str]) -> list[str]:
    if len(text) <= LONGEST_NAME:
        for candidate in _candidates(text.strip()):
            if candidate.endswith(DEFAULT_OVERLOAD) and candidate.removesuffix(DEFAULT_OVERLOAD) in known:
                return [candidate.removesuffix(DEFAULT_OVERLOAD)]
            if candidate in _overloads(known):
                return _overloads(known)[candidate]
            if candidate in known:
                return [candidate]
    written_short = "::" not in text
    shown = {name.removeprefix("aten::") if written_short else name for name in known}
    raise UnknownName(
        "operator", text, shown, "Names look like aten::add.Tensor; mpsprobe kernels list shows them all."
    )


def _candidates(text: str) -> list[str]:
    """Full names that ``text`` could stand for, likeliest first."""
    if "::" in text:
        return [text]
    bare = next((text.removeprefix(prefix) for prefix in PYTHON_PREFIXES if text.startswith(prefix)), text)
    first, dot, rest = bare.partition(".")
    candidates = [f"aten::{bare}", f"torchvision::{bare}"]
    if dot:
        candidates.append(f"{first}::{rest}")
        if first in PYTHON_MODULES:
            candidates.append(f"aten::{first}_{rest}")
        if text.startswith("torchvision.ops."):
            candidates.append("torchvision::" + text.removeprefix("torchvision.ops."))
    return candidates


@functools.lru_cache(maxsize=4)
def _overloads(known: frozenset[str]) -> dict[str, list[str]]:
    """Name without overload → the operators of that name, the one without an overload name first."""
    overloads: dict[str, list[str]] = {}
    for operator in sorted(known):
        overloads.setdefault(re.sub(r"\.\w+$", "", operator), []).append(operator)
    return overloads
