"""What the torch that is installed has registered, asked of its dispatcher."""

from __future__ import annotations

import functools
import platform
import re
from typing import Any

from mpsprobe.errors import TableError
from mpsprobe_coverage.knowledge.kernels import table
from mpsprobe_coverage.knowledge.kernels.table import COMPOSITE_LABELS, DEFINED, MPS

MPS_KEYS = (MPS, "SparseMPS", "SparseCsrMPS", "AutocastMPS")
FALLBACK_SOURCE = "MPSFallback.mm"
REGISTRATION = re.compile(r"(?P<key>\w+): registered at (?P<file>.*):\d+ :: .* \[ (?P<forms>[a-z ]+) \]$")


def has_mps_build() -> bool:
    """Whether the installed torch was built with MPS; torch is imported only where that is possible."""
    if platform.system() != "Darwin":
        return False
    try:
        import torch
    except ImportError:
        return False
    return bool(torch.backends.mps.is_built())


@functools.cache
def labels(keys: tuple[str, ...] = ()) -> dict[str, frozenset[str]]:
    """Each operator that the installed torch has → its composite kernels, and its kernels under ``keys``."""
    import torch

    ask = torch._C
    try:
        everything = ask._dispatch_get_all_op_names()
        by_key = {key: _registrations(ask, key) for key in (*keys, *COMPOSITE_LABELS)}
        dumps = {operator: ask._dispatch_dump(operator) for operator in by_key.get(MPS, ())}
    except (AttributeError, RuntimeError) as error:
        raise TableError(
            f"torch {torch.__version__} does not tell what it registers: {error}", "Name a release: --torch latest"
        ) from error
    labelled: dict[str, set[str]] = {operator: {DEFINED} for operator in sorted(everything)}
    for key, operators in by_key.items():
        for operator in operators:
            labelled.setdefault(operator, set()).add(key)
    for operator, dump in dumps.items():
        origin = origin_of(dump, MPS)
        if origin == table.MPS_PYTHON:
            labelled[operator].discard(MPS)  # as in the shipped tables, whose key MPS holds what the binary registers
        if origin is not None:
            labelled[operator].add(origin)
    return {operator: frozenset(known) for operator, known in labelled.items()}


def _registrations(ask: Any, key: str) -> list[str]:
    """Operators with a kernel under ``key``; none where this torch has no such key (SparseMPS before 2.7)."""
    try:
        operators: list[str] = ask._dispatch_get_registrations_for_dispatch_key(key)
    except RuntimeError as error:
        if key == MPS or "could not parse dispatch key" not in str(error):
            raise
        return []
    return operators


def origin_of(dump: str, key: str) -> str | None:
    """Where the active kernel for ``key`` comes from, read from ``torch._C._dispatch_dump``.

    Returns ``MPS:fallback``, ``MPS:error`` or ``MPS:python`` as in the tables, ``None`` for an ordinary kernel or none.
    """
    for line in dump.splitlines():
        match = REGISTRATION.match(line)
        if match is None or match["key"] != key:
            continue
        file = match["file"].replace("\\", "/").rpartition("/")[2]
        if file == FALLBACK_SOURCE:
            # mps_fallback is a boxed function; the other functions that this file registers only raise.
            return table.MPS_FALLBACK if match["forms"] == "boxed" else table.MPS_ERROR
        return table.MPS_PYTHON if file.endswith(".py") else None
    return None
