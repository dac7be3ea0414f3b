"""What TensorFlow says about an operator: its arguments, results and attributes."""

from __future__ import annotations

from functools import lru_cache
from typing import Any


@lru_cache(maxsize=4096)
def definition(operator: str) -> Any:
    """The ``OpDef`` of an operator that the installed TensorFlow has; ``None`` for another one."""
    from tensorflow.python.framework import op_def_registry

    return op_def_registry.get(operator)
