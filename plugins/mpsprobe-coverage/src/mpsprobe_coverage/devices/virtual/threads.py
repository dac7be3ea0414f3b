"""Threads that a program starts while the device is open: a dispatch mode is on in one thread only, so each enters it.

Python's own threads are meant (``DataLoader``'s, ``ThreadPoolExecutor``'s). Those of autograd take the modes of the
thread that called ``backward`` with them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode


class _Following(TorchDispatchMode):
    """The device's mode in another thread; a mode remembers what was on before it, so each thread has its own."""

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __init__(self, mode: TorchDispatchMode) -> None:
        super().__init__()
        self.mode: TorchDispatchMode | None = mode

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self.mode is None:  # the device was closed, and the thread goes on
            return func(*args, **(kwargs or {}))
        return self.mode.__torch_dispatch__(func, types, args, kwargs)


@contextmanager
def followed_into_threads(mode: TorchDispatchMode) -> Iterator[None]:
    """Threads started inside have ``mode`` on, until the context is left."""
    original, following = threading.Thread.start, set[_Following]()

    def start(thread: Any) -> None:
        run = thread.run

        def followed() -> None:
            own = _Following(mode)
            following.add(own)
            try:
                with own:
                    run()
            finally:
                following.discard(own)
                vars(thread).pop("run", None)

        thread.run = followed
        original(thread)

    threading.Thread.start = start  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        threading.Thread.start = original  # type: ignore[method-assign]
        for own in following:
            own.mode = None
