"""What a user can do about one finding, in a sentence or two."""

from __future__ import annotations

from mpsprobe_coverage.knowledge.judging.judgement import EVERYWHERE, Judgement
from mpsprobe_coverage.knowledge.judging.registration import may_have_kernel
from mpsprobe_coverage.knowledge.kernels.table import KernelTable
from mpsprobe_exporters.units import byte_size

IN_TIME = "(set before Python imports torch)"
_NARROWER = {"float64": "float32", "complex128": "complex64"}


def advise(operator: str, judgement: Judgement, table: KernelTable, where: str, moved_bytes: int) -> str | None:
    """Advice for a finding that is not native; None for one that needs none.

    ``where`` is the first line that makes such a call, as `` at file.py:12``, or empty; of a dtype that no tensor has,
    the one that makes the first tensor. ``moved_bytes`` are what the calls of a step read and write.
    """
    backend = table.backend
    if judgement.verdict in ("native", "composite"):
        return None
    if judgement.verdict == "unknown":
        machine = table.family.machine
        if may_have_kernel(operator, table):
            return f"Run it on {machine}, or give its plugin a source that says so (see the notes)."
        return f"Not covered by a kernel table: run it on {machine}, or ask its library which devices it supports."
    if judgement.verdict == "unsupported":
        return _unsupported(judgement, table, where)
    moved = f"about {byte_size(moved_bytes)} are copied to the CPU and back in each step"
    does = "has a kernel for it" if judgement.source == "registration" else "keeps such a call on the GPU"
    upgrade = f"No release up to {table.family.releases[-1]} {does}."
    if judgement.accepted_since is not None:
        upgrade = f"Native from torch {judgement.accepted_since} on: upgrade."
    if judgement.verdict == "fallback":
        return f"It works, slowly: {moved}. {upgrade}"
    if backend.variable is None:
        return f"{upgrade} Until then move this part to the CPU by hand{where}."
    return f"{upgrade} Until then {backend.variable} {IN_TIME} runs it on the CPU: {moved}."


def _unsupported(judgement: Judgement, table: KernelTable, where: str) -> str:
    # No exception is raised and no fallback is asked for: the framework itself ends the process.
    ends = "It ends the process: neither try nor the environment variable prevents that. " * judgement.ends_process
    if judgement.remedy is not None:
        later = f" Accepted from torch {judgement.accepted_since} on." if judgement.accepted_since else ""
        return f"{ends}{judgement.remedy}{later}"
    if judgement.needs_macos is not None:
        macos = judgement.needs_macos
        return f"{ends}macOS {macos} has it with this torch: upgrade macOS, or change the call{where}."
    if judgement.accepted_since is not None:
        accepted = f"{ends}Accepted from torch {judgement.accepted_since} on: upgrade"
        return (
            f"{accepted}, or change the call{where}."
            if ends
            else f"{accepted}. The environment variable does not help."
        )
    if ends:
        return f"{ends}Change the call, or move this part to the CPU by hand{where}."
    if judgement.source == "device":
        device = table.backend.device
        return f'Make the tensor with device="{device}", or move it there with .to("{device}"), before the call{where}.'
    if judgement.evidence == EVERYWHERE:
        return f"It raises on every device, also on the CPU: use another dtype{where}."
    if judgement.source == "dtype":
        narrower = _NARROWER.get(judgement.evidence or "", "another dtype")
        return f"Use {narrower}{where} before the tensor reaches {table.backend.label}."
    return f"It raises whatever the environment says. Move this part to the CPU by hand{where}."
