"""What of a process a plugin could change at its import and should not."""

from __future__ import annotations

import locale
import logging
import os
import signal
import socket
import sys
import threading
import warnings
from typing import Any


def snapshot() -> dict[str, Any]:
    """The state by the words that a finding uses for it."""
    state: dict[str, Any] = {
        "the working directory": _folder(),
        "sys.path": list(sys.path),
        "sys.argv": list(sys.argv),
        "sys.excepthook": sys.excepthook,
        "sys.stdout": sys.stdout,
        "sys.stderr": sys.stderr,
        "sys.stdin": sys.stdin,
        "the recursion limit": sys.getrecursionlimit(),
        "the locale": _locale(),
        "the default time-out of sockets": socket.getdefaulttimeout(),
        "the handlers of the root logger": list(logging.root.handlers),
        "the level of the root logger": logging.root.level,
    }
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGPIPE", "SIGALRM", "SIGCHLD", "SIGSEGV"):
        if hasattr(signal, name):
            state[f"the handler of {name}"] = signal.getsignal(getattr(signal, name))
    return state


def environment() -> dict[str, str]:
    """The environment variables."""
    return dict(os.environ)


def filters() -> list[Any]:
    """The filter of warnings."""
    return list(warnings.filters)


def threads(*, daemon: bool = True) -> set[str]:
    """The names of the threads that end with the process; or of those that the process would wait for."""
    return {one.name for one in threading.enumerate() if one.daemon == daemon}


def changes(before: dict[str, Any], variables: dict[str, str], running: set[str]) -> list[str]:
    """What is different now, in words. Values are left out: a variable may be a secret."""
    after, now = snapshot(), environment()
    found = [name for name, value in before.items() if after[name] != value]
    found += [f"the variable {name}" for name in sorted({*variables, *now}) if variables.get(name) != now.get(name)]
    return found + [f"a thread that goes on running ('{name}')" for name in sorted(threads() - running)]


def _folder() -> str | None:
    try:
        return os.getcwd()  # noqa: PTH109
    except OSError:
        return None


def _locale() -> str:
    try:
        return locale.setlocale(locale.LC_ALL)
    except locale.Error:
        return "?"
