"""This package's own tables, of MPS: with the questions that every backend's answer, and in the form of a plugin's."""

from __future__ import annotations

from collections.abc import Sequence

from mpsprobe.protocols import BackendKernels
from mpsprobe_coverage.kernels import store
from mpsprobe_coverage.kernels.backends import MPS_NAME, BackendTables, backend_tables
from mpsprobe_coverage.kernels.live import target_table
from mpsprobe_coverage.kernels.releases import torch_releases
from mpsprobe_coverage.kernels.table import MPS, MPS_BACKEND, KernelTable


class OwnTables:
    """As ``BackendTables``, for MPS."""

    name = MPS_NAME
    backend = MPS_BACKEND

    @property
    def releases(self) -> tuple[str, ...]:
        """The torch releases with a table, oldest first."""
        return torch_releases()

    @property
    def operators(self) -> frozenset[str]:
        """Every operator of every release, torchvision's included."""
        return store.all_operators()

    def load(self, release: str) -> KernelTable:
        """The table of one of ``releases``."""
        return store.load_table(release)

    def target(self, text: str) -> KernelTable:
        """The table that ``--torch TEXT`` means."""
        return target_table(text)

    def history(self, operator: str, key: str | None = None) -> tuple[tuple[str, str], ...]:
        """``(release, verdict)`` for every release, oldest first."""
        return store.history(operator, key or MPS)

    def native_since(self, operator: str, key: str | None = None) -> str | None:
        """The first release from which ``operator`` has been native without a gap; None if the newest is not."""
        return store.native_since(operator, key or MPS)

    def removed_in(self, operator: str) -> str | None:
        """The first release that no longer has ``operator``."""
        return store.removed_in(operator)


def tables_named(name: str) -> OwnTables | BackendTables:
    """The tables of the backend called ``name``. Raises as ``backend_tables``."""
    return backend_tables(name) or OwnTables()


class MpsTables:
    """The tables of MPS as a plugin's: a ``mpsprobe.protocols.KernelTables``."""

    backend = MPS_BACKEND

    def releases(self) -> Sequence[str]:
        """Every release with a table."""
        return torch_releases()

    def table(self, release: str) -> BackendKernels:
        """What the wheel of ``release`` registers, kernels from torch's Python code included."""
        table = store.load_table(release)
        kernels = {**table.keys, MPS: table.native | table.python}
        return BackendKernels(release, kernels, table.wheel, table.sha256, fallback=table.fallback, raising=table.error)
