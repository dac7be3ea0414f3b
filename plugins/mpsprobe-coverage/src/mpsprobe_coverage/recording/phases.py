"""Which part of a program makes a call: forward, backward or the optimizer, for each thread by itself.

Here alone steps of optimizers are followed: the devices and the observers ask, or get a call.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from mpsprobe_coverage.recording.recorder import Recorder

PHASES = FORWARD, BACKWARD, OPTIMIZER = "forward", "backward", "optimizer"
_current_node: Any = torch._C._current_autograd_node


class _Thread(threading.local):
    optimizers = 0  # steps that this thread is in
    muted = False


_thread = _Thread()
_following: list[Callable[[bool], object]] = []
_hooks: list[Any] = []


def phase_now() -> str:
    """Backward where an autograd node runs, optimizer inside the step of one, else forward."""
    if _current_node() is not None:
        return BACKWARD
    return OPTIMIZER if _thread.optimizers else FORWARD


@contextmanager
def optimizers_followed(notify: Callable[[bool], object] | None = None) -> Iterator[None]:
    """Inside, ``phase_now`` knows of the steps of every optimizer of ``torch.optim``.

    A closure that a step gets computes the loss again, so it is not part of the step. ``notify`` gets whether this
    thread is in a step, on that thread, whenever that changes.
    """
    if not _following:
        _hooks[:] = register_optimizer_step_pre_hook(_begin), register_optimizer_step_post_hook(_end)
    following = notify or bool
    _following.append(following)
    try:
        yield
    finally:
        _following.remove(following)
        if not _following:
            for hook in _hooks:
                hook.remove()


def _begin(optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any] | None:
    _deeper(1)
    if len(args) > 1 and callable(args[1]):
        return (args[0], _outside(args[1]), *args[2:]), kwargs
    if callable(kwargs.get("closure")):
        return args, {**kwargs, "closure": _outside(kwargs["closure"])}
    return None


def _outside(closure: Callable[[], Any]) -> Callable[[], Any]:
    def call() -> Any:
        _deeper(-1)
        result = closure()
        _deeper(1)  # an exception leaves the step, too
        return result

    return call


def _end(*_arguments: Any) -> None:
    _deeper(-1)


def _deeper(by: int) -> None:
    _thread.optimizers = max(0, _thread.optimizers + by)
    for notify in _following:
        notify(_thread.optimizers > 0)


class ProgramRecorder(Recorder):
    """A recorder whose phase is that of the thread that asks; ``None`` set in a thread mutes it there."""

    @property
    def phase(self) -> str | None:
        return None if _thread.muted else phase_now()

    @phase.setter
    def phase(self, value: str | None) -> None:
        _thread.muted = value is None
