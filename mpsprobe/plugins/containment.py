"""Runs a plugin's code so that what it does to the process ends with it.

While it runs, what it prints goes to standard error (standard output carries data for a pipe), it reads an empty
standard input (the real one may be the user's report), and afterwards everything in ``FEW`` is as it was. Nothing here
helps against code that never ends or that ends the process.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple


class Outcome(NamedTuple):
    """What came of a function: its answer or what it raised, and how long it took in ns."""

    answer: Any
    error: BaseException | None
    took_ns: int


def outcome_of(function: Callable[[], Any]) -> Outcome:
    """What comes of ``function``, which is a plugin's; Ctrl-C alone is let out."""
    answer, raised, started = None, None, time.perf_counter_ns()
    with contained():
        try:
            answer = function()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - the caller's to judge
            raised = error
    return Outcome(answer, raised, time.perf_counter_ns() - started)


@contextlib.contextmanager
def contained() -> Iterator[None]:
    """Whatever a plugin prints, reads or changes in here does not reach the command around it."""
    before = {name: read() for name, (read, _) in FEW.items()}
    with warnings.catch_warnings(), _descriptors_are_kept(), _importers_are_kept():
        sys.stdin, sys.stdout, sys.__stdout__ = io.StringIO(), sys.stderr, sys.stderr  # type: ignore[assignment,misc]
        try:
            yield
        finally:
            for name, (read, write) in FEW.items():
                if read() != before[name]:
                    write(before[name])
            if sys.stderr is not None and sys.stderr.closed:  # the plugin closed it; the descriptor stays open
                sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115


@contextlib.contextmanager
def _descriptors_are_kept() -> Iterator[None]:
    """Inside, standard output is standard error, also for child processes and libraries in C.

    Afterwards all three descriptors are what they were: one that a plugin closes would be that of the next file.
    """
    copies = {}
    for number in range(3):
        with contextlib.suppress(OSError):  # closed
            copies[number] = os.dup(number)
    try:
        if 1 in copies:
            with contextlib.suppress(OSError):
                os.dup2(2, 1)
        yield
    finally:
        for number, copy in copies.items():
            os.dup2(copy, number, inheritable=True)
            os.close(copy)


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


def _folder() -> str | None:
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
    sys.path[:] = [*before, *(entry for entry in sys.path if entry not in before)]


@contextlib.contextmanager
def _importers_are_kept() -> Iterator[None]:
    """What finds modules afterwards finds them again; what is new stays, where it was put."""
    kept: list[tuple[Any, list[Any]]] = [(finders, list(finders)) for finders in (sys.meta_path, sys.path_hooks)]
    try:
        yield
    finally:
        for now, before in kept:
            now[:] = [*(finder for finder in before if finder not in now), *now]


FEW: Mapping[str, tuple[Callable[[], Any], Callable[[Any], object]]] = {
    "the working folder": (_folder, _enter),
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
"""What is put back, by the words that messages use for it: how it is read, and how it is written.

mpsprobe-devkit knows everything else that a plugin should leave alone.
"""
