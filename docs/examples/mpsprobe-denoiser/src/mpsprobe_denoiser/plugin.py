"""What mpsprobe reads at each start: two names, and a form of names for every other size."""

from __future__ import annotations

from mpsprobe import hookimpl
from mpsprobe.declarations import WorkloadDeclaration

from mpsprobe_denoiser.sizes import PREFIX, size_of

NAMED = {"denoiser-32": f"{PREFIX}32", "denoiser-64": f"{PREFIX}64x64"}
"""Names that are listed, and what each one stands for."""


def _declared(name: str, summary: str) -> WorkloadDeclaration:
    return WorkloadDeclaration(name, "mpsprobe_denoiser.workload:DenoiserWorkload", summary, family="diffusion")


@hookimpl
def mpsprobe_workloads() -> list[WorkloadDeclaration]:
    """The sizes that need no explanation."""
    return [
        _declared("denoiser-32", "Diffusion U-Net for images of 32 by 32 pixels"),
        _declared("denoiser-64", "Diffusion U-Net for images of 64 by 64 pixels, twice as wide"),
    ]


@hookimpl
def mpsprobe_resolve_workload(name: str) -> WorkloadDeclaration | None:
    """``denoiser:PIXELS`` and ``denoiser:PIXELSxWIDTH``."""
    size = size_of(name)
    if size is None:
        return None
    return _declared(name, f"Diffusion U-Net for images of {size.pixels} by {size.pixels} pixels")
