"""What a report without a finding does not prove. Headlines, exit codes and tables ask here: all say the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mpsprobe.schemas import AdvisoryMatch, CoverageReport, DataDependence, MatrixReport, MemoryFit

GUESSED = "taken as "
"""What a run without values answered a program that asks for a number or a truth begins so: ``taken as False``."""

TRIED = "tried as False and as True"
"""And so where it was run with both answers; what lies on either side was judged."""
LOOPED = "its loop ran once"
"""And so where a loop has as many rounds as values say."""

ASKED = (GUESSED, TRIED, LOOPED)
"""So begins what a line of the program asked; what an operator finds is assumed in other words."""


def guesses(report: CoverageReport | MatrixReport) -> list[DataDependence]:
    """Where the program took the course of a guess: what lies on the other one was not judged."""
    return [read for read in report.data_dependence if read.assumed.startswith(GUESSED)]


def loops(report: CoverageReport | MatrixReport) -> list[DataDependence]:
    """Where a loop ran once, of which only values say how often it runs."""
    return [read for read in report.data_dependence if read.assumed.startswith(LOOPED)]


def unwatched(report: CoverageReport | MatrixReport) -> int:
    """How many processes a program started that had the device, and whose calls are not in the report."""
    program = report.program if report.kind == "coverage" else None
    return program.processes_unreported if program is not None else 0


def applying(report: CoverageReport | MatrixReport) -> list[AdvisoryMatch]:
    """The known wrong results that apply, without those of which that depends on values that are not known."""
    return [advisory for advisory in report.advisories if not advisory.undecided]


def exceeds(fit: MemoryFit) -> bool:
    """Whether a run takes more memory than the Mac physically has, where PyTorch does not raise by every figure.

    PyTorch's limit is 1.7 times what Metal recommends (``MPSAllocator.h``): that can be more than there is.
    """
    return (
        fit.answer in ("pressure", "unclear")
        and max(fit.low.reserved_bytes, fit.high.reserved_bytes) > fit.memory_bytes
    )
