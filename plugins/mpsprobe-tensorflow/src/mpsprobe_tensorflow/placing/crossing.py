"""What is copied between the GPU and host memory: TensorFlow sends a tensor once to each device that reads it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from mpsprobe_tensorflow.placing.kernels import CPU, GPU, Kernel
from mpsprobe_tensorflow.placing.nodes import ARGUMENTS, Graph, Node, Value
from mpsprobe_tensorflow.placing.operators import definition
from mpsprobe_tensorflow.placing.placer import CONST, Placed

ON_THE_HOST = frozenset({"resource", "string", "variant"})
"""Handles and texts, which are in host memory wherever they are made; what a handle stands for is not copied."""
BYTES = {
    "bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "float16": 2, "bfloat16": 2, "int32": 4, "uint32": 4,
    "float32": 4, "int64": 8, "uint64": 8, "float64": 8, "complex64": 8, "complex128": 16,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Crossing:
    """One tensor that is copied.

    Attributes:
        value: the tensor.
        to: the node that reads it, the first one there.
        to_gpu: from host memory to the GPU; otherwise the other way.
        nbytes: its size; ``None`` where its shape is not known.
        times: how often the step has it.
    """

    value: Value
    to: int
    to_gpu: bool
    nbytes: int | None
    times: int = 1


@dataclass
class Border:
    """All crossings of a graph, by the node that makes and by the node that reads the tensor."""

    crossings: list[Crossing] = field(default_factory=list)
    touching: dict[int, list[Crossing]] = field(default_factory=dict)

    def count(self) -> Mapping[bool, tuple[int, int]]:
        """Crossings and bytes, by whether they go to the GPU."""
        times: Counter[bool] = Counter()
        sizes: Counter[bool] = Counter()
        for one in self.crossings:
            times[one.to_gpu] += one.times
            sizes[one.to_gpu] += one.times * (one.nbytes or 0)
        return {to_gpu: (times[to_gpu], sizes[to_gpu]) for to_gpu in (True, False)}


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

    Args:
        eager: a constant is copied when it is made, but a single number, of which TensorFlow keeps the copy
            (``python/eager/pywrap_tensor_conversion.h``).
    """
    nodes = graph.nodes
    found = Border()
    seen: set[tuple[Value, bool]] = set()
    outputs = [_of_arguments(node, one, outputs=True) for node, one in zip(nodes, placed, strict=True)]
    for index, node in enumerate(nodes):
        here = placed[index]
        if here is None or here.device is None or node.is_call:
            continue
        inputs = _of_arguments(node, here, outputs=False)
        if (
            eager
            and node.operator == CONST
            and node.results[0].shape
            and not in_host_memory(node, here, 0, outputs[index])
        ):
            result = node.results[0]
            made = Crossing(Value(index, 0), index, True, nbytes(result.dtype, result.shape), node.times)
            found.crossings.append(made)
            found.touching.setdefault(index, []).append(made)
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
            one = Crossing(value, index, from_host, nbytes(result.dtype, result.shape), times)
            found.crossings.append(one)
            found.touching.setdefault(index, []).append(one)
            found.touching.setdefault(value.node, []).append(one)
    return found


def _of_arguments(node: Node, placed: Placed | None, *, outputs: bool) -> list[bool]:
    """For each tensor, whether the kernel keeps it in host memory."""
    kernel: Kernel | None = placed.kernel if placed is not None else None
    known = definition(node.operator)
    if kernel is None or not kernel.host or known is None:
        return []
    arguments = known.output_arg if outputs else known.input_arg
    tensors = node.results if outputs else node.inputs
    return [name in kernel.host for name in _names(arguments, node, len(tensors))]


def _names(arguments: Sequence[object], node: Node, count: int) -> list[str]:
    """The argument of each tensor. Of one with many tensors the number is what the others leave over."""
    found: list[str] = []
    plural = [one for one in arguments if one.number_attr or one.type_list_attr]  # type: ignore[attr-defined]
    rest = max(count - (len(arguments) - len(plural)), 0)
    for one in arguments:
        times = 1
        if one in plural:
            listed = node.types.get(one.type_list_attr)  # type: ignore[attr-defined]
            times = len(listed) if listed is not None else rest if len(plural) == 1 else rest // len(plural)
        found += [one.name] * times  # type: ignore[attr-defined]
    return found
