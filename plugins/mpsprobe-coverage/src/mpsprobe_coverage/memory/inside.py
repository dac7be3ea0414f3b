"""What MPS's kernels allocate besides their results, where PyTorch's sources say it; freed before the call ends."""

from __future__ import annotations

from collections.abc import Iterable

from mpsprobe_coverage.memory.lifetimes import Event, Made


def bytes_inside(call: Made) -> int:
    """Bytes of buffers that the kernel of ``call`` makes for itself, at most at one time."""
    del call
    return 0


def not_counted(events: Iterable[Event], macos: str | None) -> list[str]:
    """What takes memory and is in no figure, in sentences."""
    del events, macos
    return []
