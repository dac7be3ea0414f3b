"""How a command ends that something else ends: a signal to stop, or code in this process that calls ``os._exit``."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NoReturn

FAILED = 2
ENDING = ("_exit", "execv", "execve")  # every other os.exec… calls one of these

_exit = os._exit  # the real one, also inside ``ends_are_said``
_terminated = False


def was_terminated() -> bool:
    """Whether the last ``KeyboardInterrupt`` was a SIGTERM to this process alone, not Ctrl-C to all of a terminal."""
    return _terminated


@contextlib.contextmanager
def signals_raise() -> Iterator[None]:
    """Inside, SIGTERM raises ``KeyboardInterrupt`` as Ctrl-C does: what was measured is kept.

    While torch is imported either ends the process at once. What torch and its users catch then leaves half a torch.
    """
    global _terminated
    _terminated = False
    usual: dict[signal.Signals, Any] = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    here = threading.current_thread() is threading.main_thread()
    replaced = {number: handler for number, handler in usual.items() if here and signal.getsignal(number) is handler}
    for number in replaced:
        signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number, handler in replaced.items():
            signal.signal(number, handler)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    global _terminated
    _terminated = number == signal.SIGTERM
    while frame is not None:
        if frame.f_globals.get("__name__") == "torch" and frame.f_code.co_name == "<module>":
            _end(128 + number, "interrupted while torch was imported: nothing was run")
        frame = frame.f_back
    raise KeyboardInterrupt


def _end(code: int, problem: str) -> NoReturn:
    with contextlib.suppress(OSError):
        os.write(2, f"Error: {problem}\n".encode())
    _exit(code)


@contextlib.contextmanager
def ends_are_said() -> Iterator[None]:
    """Inside, ``os._exit`` and ``os.exec…`` of a plugin or a user's function end with 2 and a line that says where.

    Both would end the command with any code and no output. A child that was forked in here may call them.
    """
    process = os.getpid()
    homes = (os, sys.modules[os.name])  # `os` has copies of what `posix` or `nt` defines
    usual = {name: getattr(os, name) for name in ENDING}

    def instead_of(name: str) -> Callable[..., Any]:
        def end(*given: Any, **named: Any) -> Any:
            if os.getpid() != process:
                return usual[name](*given, **named)
            caller = sys._getframe(1)
            while caller.f_globals.get("__name__") == "os" and caller.f_back is not None:  # execl calls execv
                caller = caller.f_back
            place = f"{caller.f_code.co_filename!a}:{caller.f_lineno}"
            return _end(FAILED, f"os.{name} was to end the command, called in {place}")

        return end

    def put(functions: dict[str, Callable[..., Any]]) -> None:
        for name, function in functions.items():
            for home in homes:
                setattr(home, name, function)

    try:
        put({name: instead_of(name) for name in ENDING})
        yield
    finally:
        put(usual)
