"""What C++ calls in Python itself, as ``interpreter.h`` takes it."""

from __future__ import annotations

import ctypes
from typing import Any

_FUNCTIONS = (
    "PyErr_SetInterrupt", "PyGILState_Ensure", "PyGILState_Release", "Py_GetRecursionLimit", "Py_SetRecursionLimit",
)  # fmt: skip


def functions() -> list[int]:
    """The addresses of those functions."""
    return [address_of(ctypes.pythonapi[name]) for name in _FUNCTIONS]


def address_of(function: Any) -> int:
    """Where a function of C is, or one of Python that ``CFUNCTYPE`` made into one."""
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    return address
