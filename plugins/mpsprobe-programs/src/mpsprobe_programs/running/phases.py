"""Which part of a program makes a call: forward, backward or the optimizer, for each thread by itself."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from mpsprobe_coverage.device.recorder import Recorder

FORWARD, BACKWARD, OPTIMIZER = "forward", "backward", "optimizer"
_current_node: Any = torch._C._current_autograd_node


class _Thread(threading.local):
    optimizers = 0  # steps that this thread is in
    muted = False


_thread = _Thread()


def phase_now() -> str:
    """Backward where an autograd node runs, optimizer inside the step of one, else forward."""
    if _current_node() is not None:
        return BACKWARD
    return OPTIMIZER if _thread.optimizers else FORWARD


@contextmanager
def optimizers_followed() -> Iterator[None]:
    """Inside, ``phase_now`` knows of the steps of every optimizer of ``torch.optim``."""
    hooks = [register_optimizer_step_pre_hook(_begin), register_optimizer_step_post_hook(_end)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _begin(*_arguments: Any) -> None:
    _thread.optimizers += 1


def _end(*_arguments: Any) -> None:
    _thread.optimizers -= 1


class ProgramRecorder(Recorder):
    """A recorder whose phase is that of the thread that asks; ``None`` set in a thread mutes it there."""

    @property
    def phase(self) -> str | None:
        """The phase of a call that this thread makes now."""
        return None if _thread.muted else phase_now()

    @phase.setter
    def phase(self, value: str | None) -> None:
        _thread.muted = value is None
