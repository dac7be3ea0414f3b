"""What is copied between the GPU and host memory: TensorFlow sends a tensor once to each device that reads it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from mpsprobe_tensorflow.placing.kernels import CPU, GPU, definition
from mpsprobe_tensorflow.placing.nodes import ARGUMENTS, Graph, Node, Value
from mpsprobe_tensorflow.placing.placer import CONST, Placed

ON_THE_HOST = frozenset({"resource", "string", "variant"})
"""Handles and texts, which are in host memory wherever they are made; what a handle stands for is not copied."""
BYTES = {
    "bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "float16": 2, "bfloat16": 2, "int32": 4, "uint32": 4,
    "float32": 4, "int64": 8, "uint64": 8, "float64": 8, "complex64": 8, "complex128": 16,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Crossing:
    """One tensor that is copied."""

    value: Value
    to_gpu: bool  # from host memory to the GPU; otherwise the other way
    nbytes: int | None  # None where its shape is not known
    times: int  # how often the step has it


@dataclass
class Border:
    """All crossings of a graph, by the node that makes and by the node that reads the tensor."""

    crossings: list[Crossing] = field(default_factory=list)
    touching: dict[int, list[Crossing]] = field(default_factory=dict)

    def add(self, crossing: Crossing, *nodes: int) -> None:
        self.crossings.append(crossing)
        for node in nodes:
            self.touching.setdefault(node, []).append(crossing)


def nbytes(dtype: str, shape: Sequence[int | None] | None) -> int | None:
    """The size of a tensor; ``None`` where a dimension is not known."""
    if shape is None or None in shape or dtype not in BYTES:
        return None
    return prod(size for size in shape if size is not None) * BYTES[dtype]


def in_host_memory(node: Node, placed: Placed | None, output: int, host: Sequence[bool]) -> bool:
    """Whether a result is in host memory: all of the CPU are, and those that the kernel names."""
    if placed is None or placed.device != GPU:
        return True
    return node.results[output].dtype in ON_THE_HOST or (output < len(host) and host[output])


def border(graph: Graph, placed: Sequence[Placed | None], *, eager: bool = False) -> Border:
    """Every tensor of ``graph`` that has to be copied.

    In ``eager`` execution a constant is copied when it is made, but a single number, of which TensorFlow keeps the copy
    (``python/eager/pywrap_tensor_conversion.h``).
    """
    nodes = graph.nodes
    copied = Border()
    seen: set[tuple[Value, bool]] = set()
    outputs = [_of_arguments(node, kernel, outputs=True) for node, kernel in zip(nodes, placed, strict=True)]
    for index, node in enumerate(nodes):
        here = placed[index]
        if here is None or here.device is None or node.is_call:
            continue
        inputs = _of_arguments(node, here, outputs=False)
        is_copied = eager and node.operator == CONST and node.results[0].shape
        if is_copied and not in_host_memory(node, here, 0, outputs[index]):
            result = node.results[0]
            copied.add(Crossing(Value(index, 0), True, nbytes(result.dtype, result.shape), node.times), index)
        for number, value in enumerate(node.inputs):
            source = nodes[value.node]
            if value.output >= len(source.results) or source.results[value.output].dtype in ON_THE_HOST:
                continue
            there = placed[value.node]
            if there is not None and there.device is None:
                continue
            from_host = in_host_memory(source, there, value.output, outputs[value.node])
            if value.node in graph.resident:  # made once, not in each step
                continue
            to_host = here.device == CPU or (number < len(inputs) and inputs[number])
            if from_host == to_host or (value, to_host) in seen:
                continue
            seen.add((value, to_host))
            result = source.results[value.output]
            times = min(node.times, source.times) if source.operator not in ARGUMENTS else node.times
            crossing = Crossing(value, from_host, nbytes(result.dtype, result.shape), times)
            copied.add(crossing, index, value.node)
    return copied


def _of_arguments(node: Node, placed: Placed | None, *, outputs: bool) -> list[bool]:
    """For each tensor, whether the kernel keeps it in host memory."""
    kernel = placed.kernel if placed is not None else None
    known = definition(node.operator)
    if kernel is None or not kernel.host or known is None:
        return []
    arguments = known.output_arg if outputs else known.input_arg
    tensors = node.results if outputs else node.inputs
    return [name in kernel.host for name in _names(arguments, node, len(tensors))]


def _names(arguments: Sequence[Any], node: Node, count: int) -> list[str]:
    """The argument of each tensor. Of one with many tensors the number is what the others leave over."""
    names: list[str] = []
    plural = [argument for argument in arguments if argument.number_attr or argument.type_list_attr]
    rest = max(count - (len(arguments) - len(plural)), 0)
    for argument in arguments:
        times = 1
        if argument in plural:
            listed = node.types.get(argument.type_list_attr)
            times = len(listed) if listed is not None else rest // len(plural)
        names += [argument.name] * times
    return names
