"""What this distribution offers. Declares only: yaml and torch stay out of here."""

from __future__ import annotations

from mpsprobe import hookimpl
from mpsprobe.declarations import KernelTablesDeclaration


@hookimpl
def mpsprobe_kernel_tables() -> list[KernelTablesDeclaration]:
    return [
        KernelTablesDeclaration(
            name="xpu",
            target="mpsprobe_xpu.tables:XpuTables",
            summary="Intel GPUs, from the dispatch entries of native_functions.yaml.",
        )
    ]
