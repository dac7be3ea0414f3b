"""What ``torch.compile`` made of a step or a program, as the report has it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mpsprobe.schemas import GraphBreak, MetalKernel, Recompilation, RefusedGraph
from mpsprobe_coverage.devices.native.inductor import Generated, Kernel, Line
from mpsprobe_coverage.knowledge.calls.spec import spec_of, tensors_in
from mpsprobe_coverage.knowledge.kernels.releases import installed_release
from mpsprobe_coverage.recording.phases import phase_now
from mpsprobe_coverage.reporting.findings import same_fields, site


@dataclass(slots=True)
class Launched:
    """What became of one kernel: launches by phase; those that were compared with its operators, and what was wrong."""

    phases: Counter[str] = field(default_factory=Counter)
    moved_bytes: int = 0
    largest_bytes: int = 0  # of these, what the largest tensor of each launch holds
    compared: int = 0
    faults: list[str] = field(default_factory=list)

    def add(self, *args: Any) -> None:
        """Count a launch with ``args``, and the bytes of its tensors, each once."""
        held = {id(tensor): spec_of(tensor).nbytes for tensor in tensors_in(args)}
        self.phases[phase_now()] += 1
        self.moved_bytes += sum(held.values())
        self.largest_bytes += max(held.values(), default=0)


def made(generated: Generated, launched: Mapping[Kernel, Launched]) -> dict[str, Any]:
    """The fields of ``CompiledStep`` about what was generated."""
    breaks = Counter(generated.broken)
    return {
        "torch": installed_release(),
        "graphs": generated.graphs,
        "not_run": generated.not_run,
        "breaks": [
            GraphBreak(reason=graph_break.reason, times=times, call_site=_site(graph_break.line))
            for graph_break, times in breaks.most_common()
        ],
        "recompiled": recompilations(generated),
        "refused": [
            RefusedGraph(reason=refusal.reason, operator=refusal.operator, call_site=_site(refusal.line))
            for refusal in generated.refused
        ],
        "kernels": [_kernel(kernel, launched.get(kernel, Launched())) for kernel in generated.kernels],
    }


def recompilations(generated: Generated) -> list[Recompilation]:
    """What was compiled again until now, by guard and line."""
    again = Counter(generated.recompiled())
    return [
        Recompilation(reason=recompiled.reason, times=times, call_site=_site(recompiled.line))
        for recompiled, times in again.items()
    ]


def _kernel(kernel: Kernel, launched: Launched) -> MetalKernel:
    own = {"name": kernel.title, "call_sites": [site(*line) for line in kernel.lines]}
    counted = {"launches": launched.phases.total()} | same_fields(MetalKernel, launched)
    return MetalKernel(**same_fields(MetalKernel, kernel) | own | counted)


def _site(line: Line | None) -> str | None:
    return None if line is None else site(*line)
