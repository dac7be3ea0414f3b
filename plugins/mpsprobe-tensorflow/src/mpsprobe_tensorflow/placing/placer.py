"""Which device TensorFlow puts each operation on: the rules of its ``placer.cc`` and ``colocation_graph.cc``.

1. An operation can be on a device that has a kernel with its dtypes. Of these the GPU is preferred.
2. What reads or writes one variable is on one device with it, and so is what asks for it (``_class``).
3. A device scope is followed where there is a kernel; elsewhere soft placement takes another device, or it is an error.
4. What only asks for the shape of a tensor goes where the tensor is, and what reads nothing goes where all that read it
   are. An ``Identity`` with nothing before it but its tensor, and at most one reader, goes where the tensor is: seen
   with TensorFlow 2.20.0 (``tests/real/test_placer.py``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mpsprobe_tensorflow.placing.kernels import CPU, DEVICES, GPU, Kernel, Kernels
from mpsprobe_tensorflow.placing.nodes import ARGUMENTS, Graph, Node

METADATA = frozenset({"Shape", "Size", "Rank"})
"""``NC_METADATA`` of TensorFlow's ``core/graph/graph.cc``: they go where the tensor is that they ask about."""
RESOURCE, CONST = "resource", "Const"
Able = Sequence[dict[str, Kernel]]
"""For each node the kernel that it would get on each type of device."""
XLA = "the function is compiled by XLA (jit_compile=True), which has no compiler for this device"


@dataclass(frozen=True, slots=True)
class Placed:
    """What becomes of an operation."""

    device: str | None  # GPU or CPU; None where TensorFlow raises
    kernel: Kernel | None = None  # the one that runs; None where TensorFlow raises
    why: str | None = None  # the rule, where it is not on the preferred device, in a sentence without its point


class _Groups:
    """Nodes that have to be on one device: a union-find."""

    def __init__(self, size: int) -> None:
        self._parents = list(range(size))

    def of(self, node: int) -> int:
        while self._parents[node] != node:
            self._parents[node] = self._parents[self._parents[node]]
            node = self._parents[node]
        return node

    def join(self, node: int, other: int) -> None:
        self._parents[self.of(other)] = self.of(node)


def place(graph: Graph, kernels: Kernels, *, soft: bool = True, eager: bool = False) -> list[Placed | None]:
    """What becomes of each node of ``graph``; ``None`` for its arguments.

    Soft placement is on in TensorFlow 2 unless a program switches it off. In eager execution each operation is placed
    when Python calls it.
    """
    nodes = graph.nodes
    able = [kernels.of(node) for node in nodes]
    placed: list[Placed | None] = [None] * len(nodes)
    if eager:
        for index, node in enumerate(nodes):
            if node.operator not in ARGUMENTS:
                placed[index] = _called(index, graph, able, placed, kernels, soft)
        return placed
    groups = _grouped(graph)
    members: dict[int, list[int]] = {}
    for index in range(len(nodes)):
        members.setdefault(groups.of(index), []).append(index)
    possible = {group: _of_group(graph, able, each, kernels, soft) for group, each in members.items()}
    readers: dict[int, list[int]] = {}
    for index, node in enumerate(nodes):
        for source in (*(value.node for value in node.inputs), *node.after):
            readers.setdefault(source, []).append(index)
    later = []
    for index, node in enumerate(nodes):
        if node.operator in ARGUMENTS:
            continue
        if not node.inputs and len(node.results) == 1:
            later.append(index)
            continue
        devices, why = possible[groups.of(index)]
        device = devices[0] if devices else None
        passes_on = node.operator == "Identity" and not node.inserted and not node.after and node.edges <= 1
        if devices and node.inputs and (node.operator in METADATA or passes_on):
            there = _device_of(node.inputs[0].node, graph, placed)
            if there != device and there in devices:
                device, why = there, "it goes where the tensor is that it asks about or passes on"
        placed[index] = _placed(device, able[index], why, node)
    for index in later:
        devices, why = possible[groups.of(index)]
        device = devices[0] if devices else None
        around = {at.device for reader in readers.get(index, ()) if (at := placed[reader]) is not None}
        if len(around) == 1 and device not in around and (only := around.pop()) in devices:
            device, why = only, "it goes where all that read it are"
        placed[index] = _placed(device, able[index], why, nodes[index])
    return placed


def _device_of(source: int, graph: Graph, placed: Sequence[Placed | None]) -> str | None:
    """Where a tensor is that is read: an argument is in host memory, unless it is a variable or was made before."""
    placement = placed[source]
    if placement is not None:
        return placement.device
    return None if source in graph.resident or source in graph.held else CPU


def _placed(device: str | None, able: dict[str, Kernel], why: str | None, node: Node) -> Placed:
    if node.jitted:
        return Placed(None, None, XLA)
    return Placed(device, able.get(device) if device is not None else None, why)


def _called(
    index: int, graph: Graph, able: Able, placed: Sequence[Placed | None], kernels: Kernels, soft: bool
) -> Placed:
    """One operation in eager execution: where its variable is (``eager/placement_utils.cc``), else by rules 1 and 3.

    Seen with TensorFlow 2.20.0 (``tests/real/test_placer.py``): a device scope that names no type is one for the CPU,
    the first device, whose name completes it; a constant is copied to the GPU when it is made, but for int32, which
    stays in host memory.
    """
    node, here = graph.nodes[index], able[index]
    for value in node.inputs:
        made = graph.nodes[value.node].results
        if value.output >= len(made) or made[value.output].dtype != RESOURCE or not here or node.is_call:
            continue
        held = graph.held.get(value.node)
        there = variable_device(held, kernels) if held is not None else _device_of(value.node, graph, placed)
        if there is None:
            continue
        if there not in here:
            held_there = f"the variable, {held}," if held else "what it reads or writes"
            return Placed(None, None, f"{held_there} is on the {there}, which has no such kernel of {node.operator}")
        reason = f"the variable, {held}, is in host memory" if held else "what it reads or writes is there"
        return _placed(there, here, reason if there == CPU and GPU in here else None, node)
    devices, why = _of_group(graph, able, [index], kernels, soft, eager=True)
    if node.operator == CONST and devices[:1] == [GPU] and node.results[0].dtype == "int32":
        here = {**here, GPU: replace(here[GPU], host=frozenset({"output"}))}
    return _placed(devices[0] if devices else None, here, why, node)


def _grouped(graph: Graph) -> _Groups:
    groups = _Groups(len(graph.nodes))
    named = {(node.scope, node.name): index for index, node in enumerate(graph.nodes)}
    for index, node in enumerate(graph.nodes):
        for value in node.inputs:
            made = graph.nodes[value.node].results
            # A call passes on what it is given: its body has the variable, and the call runs anywhere.
            if value.output < len(made) and made[value.output].dtype == RESOURCE and not node.is_call:
                groups.join(value.node, index)
        for name in node.colocated_with:
            other = named.get((node.scope, name))
            if other is not None:
                groups.join(other, index)
    return groups


def _of_group(
    graph: Graph, able: Able, members: Sequence[int], kernels: Kernels, soft: bool, *, eager: bool = False
) -> tuple[list[str], str | None]:
    """The devices that a group can be on, the best first, and why it is not the preferred one."""
    nodes = graph.nodes
    operations = [index for index in members if nodes[index].operator not in ARGUMENTS]
    common = set(DEVICES).intersection(*(able[index].keys() for index in operations)) if operations else set(DEVICES)
    held = [(index, graph.held[index]) for index in members if index in graph.held]
    for _, dtype in held:  # the variable was made before: it is where it is
        common &= {variable_device(dtype, kernels)}
    if not common:
        return [], _conflict(nodes, able, operations, held, kernels)
    priority = {device: max((able[index][device].priority for index in operations), default=0) for device in common}
    devices = sorted(common, key=lambda device: (-priority[device], DEVICES.index(device)))
    scopes = {nodes[index].device for index in operations if nodes[index].device}
    asked = {wanted for scope in scopes if (wanted := requested(scope) or (CPU if eager else None)) is not None}
    why = None
    if len(asked) == 1 and (wanted := asked.pop()) != devices[0]:
        if wanted in devices:
            devices = [wanted, *(device for device in devices if device != wanted)]
            why = f"a device scope of the model asks for the {wanted}"
        elif not soft:
            return [], f"a device scope asks for the {wanted}, which has no such kernel, and soft placement is off"
    if devices[0] == CPU and why is None:
        why = _without(nodes, able, operations, held)
    return devices, why


def variable_device(dtype: str, kernels: Kernels) -> str:
    """Where a variable lives that was made eagerly: on the GPU, where that has a kernel that makes one.

    Of a handle of something else (a lookup table, an iterator), which has no dtype, the CPU.
    """
    if not dtype:
        return CPU
    made = kernels.of(Node("", "VarHandleOp", {"dtype": (dtype,)}))
    return GPU if GPU in made else CPU


def requested(device: str) -> str | None:
    """The type that a device scope asks for (``/device:GPU:0``, ``/gpu:0``); ``None`` for none or another one."""
    match = re.search(r"(?:/|device:|^)(cpu|gpu)\b", device, re.IGNORECASE)
    return match[1].upper() if match else None


def _without(
    nodes: Sequence[Node], able: Able, operations: Sequence[int], held: Sequence[tuple[int, str]]
) -> str | None:
    """What keeps a group of several from the GPU; of one node its own kernels say it."""
    lacking = sorted({nodes[index].operator for index in operations if GPU not in able[index]})
    if lacking and len(operations) > 1:
        return f"it has to be where {', '.join(lacking[:3])} is, which the GPU has no such kernel of"
    return f"the variable, {held[0][1]}, is in host memory" if held and not lacking else None


def _conflict(
    nodes: Sequence[Node], able: Able, operations: Sequence[int], held: Sequence[tuple[int, str]], kernels: Kernels
) -> str:
    nowhere = sorted({nodes[index].operator for index in operations if not able[index]})
    if nowhere:
        return f"no device has a kernel of {', '.join(nowhere[:3])} with these dtypes"
    lacking = sorted({nodes[index].operator for index in operations if GPU not in able[index]})
    if held and variable_device(held[0][1], kernels) == GPU:
        return f"the variable, {held[0][1]}, is on the GPU, which has no such kernel of {', '.join(lacking[:3])}"
    return "what has to be on one device has no device in common"
