"""What a verdict rests on, in the words of a report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpsprobe_coverage.device.keys import serving_key
from mpsprobe_coverage.device.refusal import Refusal
from mpsprobe_coverage.kernels.table import MPS, KernelTable, verdict_of

if TYPE_CHECKING:
    from mpsprobe.schemas import Source

_BRANCH = "the call goes to {} by the type of its device, without a registration"


def evidence(operator: str, verdict: str, reason: str | None, table: KernelTable) -> tuple[Source | None, str | None]:
    """The kind of source behind a verdict, and what it says; ``(None, None)`` where nothing is known.

    Args:
        reason: as recorded; a ``Refusal`` brings its own source.
        table: of the release that was judged. A table of another library covers its own namespace only.
    """
    if isinstance(reason, Refusal):
        return reason.source, reason.evidence
    if verdict == "unknown":
        return None, None
    labels = table.labels.get(operator, frozenset())
    key = serving_key(operator, table.backend.key)
    registered = verdict_of(labels, key) if labels else None
    if registered == verdict:
        return "registration", _registration(verdict, key, labels, table)
    if verdict == "native":
        return "branch", _BRANCH.format(table.backend.label or table.backend.key)
    if verdict == "unsupported" and registered == "missing":
        return "registration", f"no kernel under {key} in {_where(table)}"
    if verdict == "unsupported":
        return "message", None
    return "registration", None


def _where(table: KernelTable) -> str:
    return "the library" if table.is_mps else f"the table of {table.backend.label}"


def _registration(verdict: str, key: str, labels: frozenset[str], table: KernelTable) -> str:
    if verdict == "fallback":
        return "registered with PyTorch's own CPU fallback"
    if verdict == "unsupported":
        return "registered with a kernel that only raises"
    if verdict == "missing":
        return f"no kernel under {key} and no composite one in {_where(table)}"
    if key not in labels and key == MPS:
        return "registered for MPS from torch's Python code"
    if not table.is_mps:
        return f"{_where(table)} has it under {key}"
    live = "" if table.wheel else ", in the dispatcher of the installed torch"
    return f"a kernel is registered under {key}{live}"
