"""Registrations through PyTorch's stable C ABI, as torchvision makes them since 0.29.

``STABLE_TORCH_LIBRARY_IMPL(torchvision, MPS, m)`` (torch/csrc/stable/library.h) is inlined into the static initialiser
of its source file and calls C functions of libtorch, whose names the binary keeps: one opens a library with a namespace
and a key, the next ones register names in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mpsprobe_tables.builder.emulator import Call, run
from mpsprobe_tables.builder.macho import MachO

NAMESPACE, KEY, TEXT = 0, 1, 1  # which argument of the calls


@dataclass(frozen=True, slots=True)
class StableRegistration:
    """An operator's name for a dispatch key, or, where ``key`` is ``None``, a schema."""

    namespace: str
    key: str | None
    text: str


def read_stable(library: MachO) -> Iterator[StableRegistration]:
    """Every kernel and schema that ``library`` registers through the stable ABI."""
    if not library.objects_named("STABLE_TORCH_LIBRARY_"):
        return
    for _, address in library.functions_named("_GLOBAL__sub_I_"):
        namespace, key = "", None
        for event in run(library, address):
            if not isinstance(event, Call):
                continue
            called = library.symbol_at(event.target) or ""
            if "torch_library_init_" in called:
                namespace = _text(library, event, NAMESPACE) or ""
                key = _text(library, event, KEY) if called.endswith("_impl") else None
            elif called.endswith(("torch_library_impl", "torch_library_def")):
                text = _text(library, event, TEXT)
                if text is not None:
                    yield StableRegistration(namespace, key, text)


def _text(library: MachO, call: Call, argument: int) -> str | None:
    address = call.argument(argument)
    return library.string_at(address) if isinstance(address, int) else None
