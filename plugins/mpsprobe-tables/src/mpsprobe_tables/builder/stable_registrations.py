"""Registrations through PyTorch's stable C ABI, as torchvision makes them since 0.29.

``STABLE_TORCH_LIBRARY_IMPL(torchvision, MPS, m)`` (torch/csrc/stable/library.h) is inlined into the static initialiser
of its source file and calls C functions of libtorch, whose names the binary keeps: one opens a library with a namespace
and a key, the next ones register names in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mpsprobe_tables.builder.arm64 import references
from mpsprobe_tables.builder.macho import MachO

NAMESPACE_REGISTER, KEY_REGISTER, TEXT_REGISTER = 0, 1, 1  # first and second argument: x0, x1


@dataclass(frozen=True, slots=True)
class StableRegistration:
    """An operator's name for a dispatch key, or, where ``key`` is ``None``, a schema."""

    namespace: str
    key: str | None
    text: str


def read_stable(library: MachO) -> Iterator[StableRegistration]:
    """Every kernel and schema that ``library`` registers through the stable ABI."""
    if not library.has_symbol(b"STABLE_TORCH_LIBRARY_"):
        return
    for _, start, end in library.functions_named(b"_GLOBAL__sub_I_"):
        strings: dict[int, str] = {}
        namespace, key = "", None
        for reference in references(library.code(start, end), start):
            if reference.register is not None:
                text = library.string_at(reference.address)
                if text is not None:
                    strings[reference.register] = text
                continue
            called = library.symbol_at(reference.address) or ""
            if "torch_library_init_" in called:
                namespace = strings.get(NAMESPACE_REGISTER, "")
                key = strings.get(KEY_REGISTER) if called.endswith("_impl") else None
            elif called.endswith(("torch_library_impl", "torch_library_def")) and TEXT_REGISTER in strings:
                yield StableRegistration(namespace, key, strings[TEXT_REGISTER])
