"""The OpInfo database of the installed torch: the entries that PyTorch's MPS tests run."""

from __future__ import annotations

import copy
import functools
import sys
import warnings
from typing import Any

import torch

from mpsprobe.errors import UnknownName

DTYPES = ("float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64")
"""The dtypes of ``TestConsistency.test_output_match``: those that MPS tensors can have, and no exotic ones."""
GRADIENT_DTYPES = frozenset({"float32", "float16"})
"""The dtypes of ``TestConsistency.test_output_grad_match``."""


def dtype_named(name: str) -> torch.dtype:
    """``float32`` as a dtype. Raises UnknownName: no dtype of the audit has this name."""
    if name not in DTYPES:
        raise UnknownName("dtype", name, DTYPES, "There are: " + ", ".join(DTYPES) + ".")
    dtype: torch.dtype = getattr(torch, name)
    return dtype


@functools.cache
def entries() -> dict[str, Any]:
    """Every entry by its key, which is its name and its variant without anything between (``divno_rounding_mode``)."""
    by_name = {entry.name + entry.variant_test_name: entry for entry in _database()}
    antialiased = by_name.get("_upsample_bilinear2d_aa")
    if antialiased is not None and "_upsample_bicubic2d_aa" not in by_name:
        # ``test_mps.py`` makes this entry of the other one, and the lists speak of it.
        bicubic = copy.deepcopy(antialiased)
        bicubic.name, bicubic.op = "_upsample_bicubic2d_aa", torch.ops.aten._upsample_bicubic2d_aa
        by_name[bicubic.name] = bicubic
    return by_name


def entry_named(name: str) -> Any:
    """The entry with this key. Raises UnknownName: there is none."""
    if name not in entries():
        raise UnknownName("OpInfo entry", name, entries(), f"torch {torch.__version__} has {len(entries())} of them.")
    return entries()[name]


def module_named(name: str) -> Any:
    """The entry of the database of modules with this name. Raises UnknownName: there is none."""
    if name not in module_entries():
        known = module_entries()
        raise UnknownName("module", name, known, f"torch {torch.__version__} tests {len(known)} of them.")
    return module_entries()[name]


@functools.cache
def module_entries() -> dict[str, Any]:
    """Every entry of the database of modules, by its name (``nn.Conv3d``)."""
    entries()  # torch's test modules are imported once, with care

    from torch.testing._internal.common_modules import module_db

    return {entry.name: entry for entry in module_db}


def _database() -> Any:
    arguments, sys.argv = sys.argv, sys.argv[:1]  # torch's test modules of some releases read the command line
    bracketed = torch.backends.__allow_nonbracketed_mutation_flag
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from torch.testing._internal.common_methods_invocations import op_db
    finally:
        sys.argv = arguments
        torch.backends.__allow_nonbracketed_mutation_flag = bracketed  # they forbid to set flags of backends
    return op_db
