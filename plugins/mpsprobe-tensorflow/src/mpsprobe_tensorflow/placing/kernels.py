"""Which kernels an operation has: those of TensorFlow itself, from its registry, and those of the plugin's table.

``FindKernelRegistration`` of TensorFlow's ``core/framework/op_kernel.cc`` looks for a kernel of the device's own type
first, and for one of the type ``DEFAULT`` where no own one has these dtypes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from mpsprobe_tensorflow.placing.nodes import Node
from mpsprobe_tensorflow.tables import table

GPU, CPU, DEFAULT = "GPU", "CPU", "DEFAULT"
DEVICES = (GPU, CPU)
"""The types of devices, the preferred one first."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """One registration."""

    device: str  # GPU, CPU or DEFAULT
    types: Mapping[str, frozenset[str]]  # attribute → the dtypes that it may have; one that is not named may have any
    host: frozenset[str] = frozenset()  # names of arguments and results that are in host memory
    priority: int = 0  # the higher one wins, before the preference of devices
    label: str = ""  # _kernel that a node has to ask for

    def serves(self, node: Node) -> bool:
        """Whether the dtypes of ``node`` are among those of the kernel."""
        if self.label != node.label:
            return False
        return all(name in node.types and allowed.issuperset(node.types[name]) for name, allowed in self.types.items())


class Kernels:
    """All kernels there are for one release of the plugin, of which its table has ``registrations``."""

    def __init__(self, registrations: Iterable[table.Registration]) -> None:
        self._plugin: dict[str, list[Kernel]] = {}
        for registration in registrations:
            types = {name: frozenset((dtype,)) for name, dtype in registration.types.items()}
            self._plugin.setdefault(registration.operator, []).append(
                Kernel(registration.device, types, frozenset(registration.host))
            )
        self._found: dict[Any, dict[str, Kernel]] = {}

    def of(self, node: Node) -> dict[str, Kernel]:
        """The kernel that ``node`` would get on each type of device that has one."""
        key = (node.operator, node.label, tuple(sorted(node.types.items())))
        if key not in self._found:
            self._found[key] = self._find(node)
        return self._found[key]

    def of_plugin(self, operator: str) -> Sequence[Kernel]:
        return self._plugin.get(operator, ())

    def _find(self, node: Node) -> dict[str, Kernel]:
        everyone = (*self._plugin.get(node.operator, ()), *of_tensorflow(node.operator))
        able = [kernel for kernel in everyone if kernel.serves(node)]
        found: dict[str, Kernel] = {}
        for device in DEVICES:
            own = [kernel for kernel in able if kernel.device == device] or [
                kernel for kernel in able if kernel.device == DEFAULT
            ]
            if own:
                found[device] = max(own, key=lambda kernel: kernel.priority)
        return found


@lru_cache(maxsize=64)
def kernels_of(release: str, macos: str | None) -> Kernels:
    """The kernels of a release on a macOS, the same object each time."""
    return Kernels(table.load(release).on(macos))


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


@lru_cache(maxsize=4096)
def definition(operator: str) -> Any:
    """The ``OpDef`` of an operator: its arguments, results and attributes; ``None`` where TensorFlow has no such."""
    from tensorflow.python.framework import op_def_registry

    return op_def_registry.get(operator)


@lru_cache(maxsize=4096)
def of_tensorflow(operator: str) -> tuple[Kernel, ...]:
    """The kernels that the installed TensorFlow itself has for ``operator``, but for those of other hardware."""
    from tensorflow.python.framework import kernels

    registered = []
    for kernel in kernels.get_registered_kernels_for_op(operator).kernel:
        if kernel.device_type in (GPU, CPU, DEFAULT):
            types = {each.name: frozenset(map(dtype_name, each.allowed_values.list.type)) for each in kernel.constraint}
            host = frozenset(kernel.host_memory_arg)
            registered.append(Kernel(kernel.device_type, types, host, priority=kernel.priority, label=kernel.label))
    return tuple(registered)


@lru_cache(maxsize=256)
def dtype_name(number: int) -> str:
    """A dtype of ``types.proto`` as numpy writes it; that of a reference as what it refers to."""
    from tensorflow.python.framework import dtypes

    try:
        return str(dtypes.as_dtype(number).name).removesuffix("_ref")
    except TypeError:  # a number that is none
        return "unknown"
