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
    replaced = [one for one, handler in usual.items() if signal.getsignal(one) is handler]
    if threading.current_thread() is not threading.main_thread():
        replaced = []
    for one in replaced:
        signal.signal(one, _interrupt)
    try:
        yield
    finally:
        for one in replaced:
            signal.signal(one, usual[one])


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
    kept = {name: getattr(os, name) for name in ENDING}

    def instead_of(name: str) -> Callable[..., Any]:
        def end(*given: Any, **named: Any) -> Any:
            if os.getpid() != process:
                return kept[name](*given, **named)
            caller = sys._getframe(1)
            while caller.f_globals.get("__name__") == "os" and caller.f_back is not None:  # execl calls execv
                caller = caller.f_back
            place = f"{caller.f_code.co_filename!a}:{caller.f_lineno}"
            return _end(FAILED, f"os.{name} was to end the command, called in {place}")

        return end

    try:
        for name in ENDING:
            instead = instead_of(name)
            for home in homes:
                setattr(home, name, instead)
        yield
    finally:
        for name, real in kept.items():
            for home in homes:
                setattr(home, name, real)
