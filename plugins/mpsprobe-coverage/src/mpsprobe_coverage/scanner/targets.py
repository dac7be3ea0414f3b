"""Which kernel tables a target release means."""

from __future__ import annotations

import sys

from mpsprobe_coverage.kernels.backends import BackendTables
from mpsprobe_coverage.kernels.releases import resolve_release, torchvision_for
from mpsprobe_coverage.kernels.store import load_table
from mpsprobe_coverage.kernels.table import KernelTable


def table_for(release: str, backend: BackendTables | None = None) -> KernelTable:
    """The table of ``release``; ``installed`` is the live dispatcher where torch was built with MPS.

    ``backend`` brings the tables of another backend than MPS.
    """
    if backend is not None:
        return backend.target(release)
    if release == "installed":
        from mpsprobe_coverage.kernels.live import installed_table

        return installed_table()
    return load_table(resolve_release(release))


def libraries_for(table: KernelTable) -> dict[str, KernelTable]:
    """Tables of further libraries, by namespace: those whose operators are loaded in this process."""
    if not table.is_mps:  # a plugin's table has the operators of all libraries
        return {}
    if "torchvision" not in sys.modules:
        return {}
    version = torchvision_for(table.release)
    return {"torchvision": load_table(version, "torchvision")} if version else {}
