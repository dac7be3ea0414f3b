"""What is put back after every call of a plugin, and the threads that it may have left behind.

The parts are called by the words that messages use for them. mpsprobe-devkit knows everything else that a plugin should
leave alone.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any


def _mask() -> int:
    mask = os.umask(0o077)  # the strict one for the moment in between
    os.umask(mask)
    return mask


def _torch_defaults() -> tuple[Any, bool] | None:
    """Default dtype and grad mode; ``None`` while torch is not imported: a hook that imports it changes nothing."""
    torch: Any = sys.modules.get("torch")
    if not hasattr(torch, "get_default_dtype"):
        return None
    return torch.get_default_dtype(), torch.is_grad_enabled()


def _set_torch_defaults(before: tuple[Any, bool] | None) -> None:
    torch = sys.modules["torch"]
    dtype, grad = before or (torch.float32, True)  # as torch begins
    torch.set_default_dtype(dtype)
    torch.set_grad_enabled(grad)


def _set_environment(before: Mapping[str, str]) -> None:
    for name in os.environ.keys() - before.keys():
        del os.environ[name]
    os.environ.update(before)


def folder() -> str | None:
    """The working folder; ``None`` where it was deleted."""
    try:
        return os.getcwd()  # noqa: PTH109 - a Path costs more than the question
    except OSError:
        return None


def _enter(path: str | None) -> None:
    with contextlib.suppress(OSError, TypeError):  # it was deleted meanwhile, or before
        os.chdir(path)  # type: ignore[arg-type]


def _set_filters(filters: list[Any]) -> None:
    warnings.resetwarnings()  # tells the module that its filters changed
    warnings.filters[:] = filters  # type: ignore[index]


def _set_path(before: list[str]) -> None:
    """What was there, in its order; what is new stays behind it.

    A plugin may need its own folder again, when the module that it declares is imported, and may not hide the modules
    of others.
    """
    sys.path[:] = [*before, *(one for one in sys.path if one not in before)]


FEW: Mapping[str, tuple[Callable[[], Any], Callable[[Any], object]]] = {
    "the working folder": (folder, _enter),
    "the environment": (os.environ.copy, _set_environment),
    "sys.path": (lambda: list(sys.path), _set_path),
    "the umask": (_mask, os.umask),
    "the recursion limit": (sys.getrecursionlimit, sys.setrecursionlimit),
    "torch's default dtype and grad mode": (_torch_defaults, _set_torch_defaults),
    "the warnings filter": (lambda: list(warnings.filters), _set_filters),
    **{
        f"sys.{name}": (partial(getattr, sys, name), partial(setattr, sys, name))
        for name in ("stdin", "stdout", "stderr", "__stdout__")
    },
}
"""How each of them is read, and how it is put back."""


def few_things() -> dict[str, Any]:
    """The state of ``FEW``, which takes a few microseconds and imports nothing."""
    return {name: read() for name, (read, _) in FEW.items()}


def put_few_back(before: Mapping[str, Any]) -> None:
    """Give what is different from ``before`` its value there again."""
    for name, (read, write) in FEW.items():
        if read() != before[name]:
            write(before[name])
    if sys.stderr is not None and sys.stderr.closed:  # a plugin closed it; the descriptor stays open
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115


def threads(*, daemon: bool) -> set[threading.Thread]:
    """The threads that end with the process, or those that it would wait for."""
    return {one for one in threading.enumerate() if one.daemon is daemon}
