"""From which release on the plugin has the kernels that a workload needs."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from mpsprobe_tensorflow.placing.kernels import GPU, Kernels
from mpsprobe_tensorflow.placing.nodes import Node
from mpsprobe_tensorflow.tables import table


def native_since(nodes: Iterable[Node], macos: str | None) -> str | None:
    """The first release from which on, without a gap up to the newest, each of ``nodes`` has a kernel for the GPU.

    Where all have one, TensorFlow prefers the GPU for all.
    """
    kinds = {(node.operator, node.label, tuple(sorted(node.types.items()))): node for node in nodes}
    since = None
    for release in reversed(table.releases()):
        kernels = kernels_of(release, macos)
        if not all(GPU in kernels.of(node) for node in kinds.values()):
            break
        since = release
    return since


@lru_cache(maxsize=64)
def kernels_of(release: str, macos: str | None) -> Kernels:
    """The kernels of a release on a macOS, the same object each time."""
    return Kernels(table.load(release).on(macos))
