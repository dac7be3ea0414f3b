"""What this distribution offers. Declares only: torch and pydantic stay out of here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from mpsprobe import hookimpl
from mpsprobe.declarations import CommandDeclaration, DoctorFinding, KernelTablesDeclaration, ScannerDeclaration

if TYPE_CHECKING:
    from mpsprobe.protocols import Workload

COMMANDS = {
    "coverage": "Which operators of a workload have no MPS kernel, where, and which release fixes them.",
    "card": "Will it run on that Mac? Four lights, one sentence, the next command; also as a picture.",
    "run": "What MPS does with each operator that a whole program calls, unchanged.",
    "verify": "Whether a device computes a step rightly, and where it first goes wrong; what half precision does.",
    "fit": "The largest batch, sequence or image that fits on a Mac, and what would save memory.",
    "upgrade": "What another torch release changes: kernels, wrong results, macOS, and your workloads.",
    "cache": "Answers that are kept, so that nothing is worked out twice.",
    "kernels": "Which kernels each torch release registers for MPS.",
    "advisories": "Known wrong results: which calls, on which releases, and what to do.",
    "chips": "Apple's chips: cores, bandwidth, memory, and what Metal lets a process take of it.",
}


@hookimpl
def mpsprobe_scanners() -> list[ScannerDeclaration]:
    return [
        ScannerDeclaration(
            name="coverage",
            target="mpsprobe_coverage.scanning.scan:CoverageScanner",
            summary="Judges each operator call against the kernel table of a torch release.",
        )
    ]


@hookimpl
def mpsprobe_workload_of(model: object, inputs: object) -> Workload | None:
    """Modules, functions with inputs, and what is made of them; whoever has one has imported torch."""
    import sys

    if "torch" not in sys.modules:
        return None
    from mpsprobe_coverage.object_workload import given

    return given(model, inputs)


@hookimpl
def mpsprobe_kernel_tables() -> list[KernelTablesDeclaration]:
    return [
        KernelTablesDeclaration(
            name="mps",
            target="mpsprobe_coverage.knowledge.kernels.mps:MpsTables",
            summary="Apple GPUs, from the macOS wheels of every release since 1.12.0.",
        )
    ]


@hookimpl
def mpsprobe_commands() -> list[CommandDeclaration]:
    return [
        CommandDeclaration(name=name, target=f"mpsprobe_coverage.commands.{name}:{name}", summary=summary)
        for name, summary in COMMANDS.items()
    ]


@hookimpl
def mpsprobe_doctor(environment: Mapping[str, Any]) -> Iterable[DoctorFinding]:
    """Whether the installed torch is known here, and fits this macOS."""
    from mpsprobe_coverage.doctor import findings

    return findings(environment)
