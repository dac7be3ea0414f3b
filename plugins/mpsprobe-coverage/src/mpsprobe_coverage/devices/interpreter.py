"""What C++ calls in Python itself, as ``interpreter.h`` takes it; and exceptions that are not its own.

A handler of a signal is called between two lines of Python, so also in a function of ours that C++ calls. What it
raises (a timeout, Ctrl-C) is for the program.
"""

from __future__ import annotations

import ctypes
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import CodeType, TracebackType
from typing import Any

_FUNCTIONS = (
    "PyErr_SetInterrupt", "PyGILState_Ensure", "PyGILState_Release", "Py_GetRecursionLimit", "Py_SetRecursionLimit",
    "Py_AddPendingCall", "PyObject_Type", "PyErr_SetObject", "Py_DecRef",
)  # fmt: skip


def functions() -> list[int]:
    """The addresses of those functions."""
    return [address_of(ctypes.pythonapi[name]) for name in _FUNCTIONS]


def address_of(function: Any) -> int:
    """Where a function of C is, or one of Python that ``CFUNCTYPE`` made into one."""
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    return address


def is_of_a_signal(error: BaseException, pass_on: Callable[[int], object]) -> bool:
    """Whether a handler of a signal raised ``error``, which is then given to ``pass_on``, as C++ takes it."""
    handlers = {_code(signal.getsignal(number)) for number in signal.valid_signals()}
    place: TracebackType | None = error.__traceback__
    while place is not None and place.tb_frame.f_code not in handlers:
        place = place.tb_next
    if place is None and not isinstance(error, KeyboardInterrupt):
        return False
    error.__traceback__ = place  # without frames of ours
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(error))
    pass_on(id(error))
    return True


def called_by_c(
    kind: Any,
    run: Callable[..., int],
    pass_on: Callable[[int], object],
    errors: list[BaseException],
    other: int = 0,
) -> Any:
    """A function of C of that ``kind``, whose last argument gets what ``run`` makes of the others.

    What is raised cannot pass through C: the first goes into ``errors``, and the answer is ``other``. What a handler of
    a signal raises is given to ``pass_on``; C++ has Python raise it later, and the answer stays as it is.
    """
    return kind(partial(answer_c, run, pass_on, errors, other))


def answer_c(
    run: Callable[..., int], pass_on: Callable[[int], object], errors: list[BaseException], other: int, *given: Any
) -> None:
    """What such a function does. TorchDynamo must not follow it: ``devices/native/inductor.py``."""
    try:
        given[-1][0] = run(*given[:-1])
    except BaseException as error:  # noqa: BLE001
        if not is_of_a_signal(error, pass_on):
            if not errors:
                errors.append(error)
            given[-1][0] = other


@contextmanager
def passing_on(pass_on: Callable[[int], object]) -> Iterator[None]:
    """Inside, what a handler raises in such a function before its first line, where none can catch it, too."""
    hook, usual = sys.unraisablehook, sys.__unraisablehook__

    def unraisable(arguments: Any) -> None:
        where = f"{arguments.err_msg} {arguments.object!r}"
        ours = "ctypes callback" in where and answer_c.__name__ in where
        if not (ours and is_of_a_signal(arguments.exc_value, pass_on)):
            hook(arguments)

    if hook is usual:  # who compares the two finds that nobody set one
        sys.__unraisablehook__ = unraisable
    sys.unraisablehook = unraisable
    try:
        yield
    finally:
        sys.unraisablehook, sys.__unraisablehook__ = hook, usual


def _code(handler: Any) -> CodeType | None:
    function = getattr(handler, "func", handler)  # of a ``partial``
    for candidate in (function, getattr(function, "__func__", None), vars(type(function)).get("__call__")):
        if isinstance(code := getattr(candidate, "__code__", None), CodeType):
            return code
    return None
