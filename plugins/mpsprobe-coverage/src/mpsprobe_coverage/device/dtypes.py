"""Dtypes that a release refuses wherever they turn up.

MPS has no 64-bit floating point in any release: "Cannot convert a MPS Tensor to float64 dtype as the
MPS framework doesn't support float64" stands in every libtorch from 1.12 to 2.15. bfloat16 is refused by
the releases whose library says "BFloat16 is not supported on MPS" (the marker ``bfloat16_refused``), complex
numbers by those that say "Complex types are unsupported on MPS" (``complex_refused``).
What single kernels refuse is in ``refusals/``.
"""

from __future__ import annotations

import torch

from mpsprobe.errors import PluginError
from mpsprobe_coverage.device.refusal import Refusal
from mpsprobe_coverage.device.tensor import TensorSpec
from mpsprobe_coverage.kernels.releases import torch_releases
from mpsprobe_coverage.kernels.store import load_table
from mpsprobe_coverage.kernels.table import KernelTable

_NEVER = {
    torch.float64: Refusal("a float64 tensor: MPS has no 64-bit floating point", source="dtype", evidence="float64"),
    torch.complex128: Refusal(
        "a complex128 tensor: MPS has no 64-bit floating point", source="dtype", evidence="complex128"
    ),
}


class DtypeRules:
    """The refusals of one release."""

    def __init__(self, table: KernelTable) -> None:
        self._refused: dict[torch.dtype, Refusal] = dict(_NEVER) if table.is_mps else _refused_by(table)
        if "bfloat16_refused" in table.markers:
            reason = f"a bfloat16 tensor: torch {table.release} refuses bfloat16 on MPS"
            self._refused[torch.bfloat16] = Refusal(
                reason, _first_without("bfloat16_refused"), source="dtype", evidence="bfloat16"
            )
        if "complex_refused" in table.markers:
            reason = f"a complex tensor: torch {table.release} refuses complex numbers on MPS"
            refused = Refusal(reason, _first_without("complex_refused"), source="dtype", evidence="complex")
            self._refused[torch.complex64] = self._refused[torch.complex32] = refused

    @property
    def refused(self) -> frozenset[object]:
        """The dtypes that no tensor can have on MPS."""
        return frozenset(self._refused)

    def refusal(self, inputs: tuple[TensorSpec, ...], outputs: tuple[TensorSpec, ...]) -> Refusal | None:
        """Why this call cannot be on MPS because of a dtype, or None."""
        for spec in outputs or inputs:
            reason = self._refused.get(spec.dtype)
            if reason is not None:
                return reason
        return None


def _refused_by(table: KernelTable) -> dict[torch.dtype, Refusal]:
    """What a plugin's table says that no tensor of its backend can be.

    Raises:
        PluginError: it names a dtype that torch does not have.
    """
    found = {}
    for name, why in table.refused_dtypes.items():
        dtype = getattr(torch, name, None)
        if not isinstance(dtype, torch.dtype):
            raise PluginError(f"{table.source} refuses the dtype '{name}', which torch does not have")
        found[dtype] = Refusal(f"a {name} tensor: {why}", source="dtype", evidence=name)
    return found


def _first_without(marker: str) -> str | None:
    """The release from which on no table has ``marker``."""
    since = None
    for release in reversed(torch_releases()):
        if marker in load_table(release).markers:
            break
        since = release
    return since
