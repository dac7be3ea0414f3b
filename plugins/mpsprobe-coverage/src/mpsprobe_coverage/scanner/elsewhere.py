"""What a report says of a backend other than MPS: where its table is from, and what is not known of it."""

from __future__ import annotations

from collections.abc import Iterator

from mpsprobe.schemas import BackendTarget
from mpsprobe_coverage.kernels.table import KernelTable


def other_target(table: KernelTable) -> BackendTarget:
    """The target of a report on the backend of ``table``, with notes on what the prediction does not know."""
    assert table.family is not None
    return BackendTarget(
        backend=table.family.name,
        label=table.backend.label,
        variable=table.backend.variable,
        torch=table.release,
        source=table.source,
        sha256=table.sha256 or None,
        notes=[*table.notes, *_not_known(table)],
    )


def _not_known(table: KernelTable) -> Iterator[str]:
    assert table.family is not None
    label = table.backend.label
    if not table.whole:
        yield (
            f"The table does not hold every kernel of {label}: an operator that it does not name is unknown, and one "
            "that is made of others may have a kernel of its own"
        )
    routes = sorted(table.family.routes(table.release))
    but = f", but for {', '.join(routes)}" if routes else ""
    yield f"Where PyTorch's C++ asks for a tensor's device type, {label} was taken for one that it does not name{but}"
    yield f"What kernels of {label} refuse (dtypes, sizes) is not known: native means that one is registered"
