"""What a user can do about one finding, in a sentence or two."""

from __future__ import annotations

from dataclasses import dataclass

from mpsprobe.protocols import Backend
from mpsprobe_coverage.kernels.table import MPS_BACKEND

IN_TIME = "(set before Python imports torch)"


@dataclass(frozen=True, slots=True)
class Situation:
    """What the advice depends on; ``site`` is the first source line, ``newest`` the newest release known."""

    verdict: str
    reason: str | None
    release: str
    native_since: str | None
    newest: str
    site: str | None
    moved_bytes: int
    accepted_since: str | None = None
    needs_macos: str | None = None
    backend: Backend = MPS_BACKEND
    dtype_refused: bool = False
    may_have_kernel: bool = False


def advise(situation: Situation) -> str | None:
    """Advice for a finding that is not native; None for one that needs none."""
    if situation.verdict in ("native", "composite"):
        return None
    if situation.verdict == "unknown":
        machine = "a Mac" if situation.backend is MPS_BACKEND else f"a machine with {situation.backend.label}"
        if situation.may_have_kernel:
            return f"Run it on {machine}, or give its plugin a source that tells (see the notes)."
        return f"Not covered by a kernel table: run it on {machine}, or ask its library which devices it supports."
    if situation.verdict == "unsupported":
        return _unsupported(situation)
    moved = f"about {_size(situation.moved_bytes)} are copied to the CPU and back in each step"
    upgrade = _upgrade(situation)
    if situation.verdict == "fallback":
        return f"It works, slowly: {moved}. {upgrade}"
    if situation.backend.variable is None:
        where = f" at {situation.site}" if situation.site else ""
        return f"{upgrade} Until then move this part to the CPU by hand{where}."
    return f"{upgrade} Until then {situation.backend.variable} {IN_TIME} runs it on the CPU: {moved}."


def _unsupported(situation: Situation) -> str:
    where = f" at {situation.site}" if situation.site else ""
    reason = situation.reason or ""
    if situation.needs_macos is not None:
        return f"macOS {situation.needs_macos} has it with this torch: upgrade macOS, or change the call{where}."
    if situation.accepted_since is not None:
        return f"Accepted from torch {situation.accepted_since} on: upgrade. The environment variable does not help."
    if "64-bit floating point" in reason:
        return f"Make the tensor float32 (complex64){where} before it reaches MPS."
    if situation.backend is not MPS_BACKEND and situation.dtype_refused:
        return f"Use another dtype{where} before the tensor reaches {situation.backend.label}."
    if "view operator" in reason:
        return f"{_upgrade(situation)} The environment variable does not help: view operators cannot fall back."
    return f"It raises whatever the environment says. Move this part to the CPU by hand{where}."


def _upgrade(situation: Situation) -> str:
    if situation.native_since is None:
        return f"No release up to {situation.newest} has a kernel for it."
    return f"Native from torch {situation.native_since} on: upgrade."


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
