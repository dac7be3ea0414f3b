"""A graph as the placer sees it: every operation, those in functions too, with what it reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
BRANCHES = frozenset({"If", "StatelessIf", "Case", "StatelessCase"})
LOOPS = frozenset({"While", "StatelessWhile"})
FOLLOWED = CALLS | BRANCHES | LOOPS
"""Operations that run functions: their bodies are judged, as if they stood in the graph itself."""
ARGUMENTS = frozenset({"Placeholder", "_Arg", "_DeviceArg"})
"""Inputs of the graph: they are where the caller has them."""


@dataclass(frozen=True, slots=True)
class Value:
    """One tensor: what makes it, and which of its results it is."""

    node: int
    output: int


@dataclass(frozen=True, slots=True)
class Result:
    """What an operation returns.

    Attributes:
        dtype: as numpy writes it (``float32``, ``resource``).
        shape: ``None`` where nothing is known of it; a dimension that is not known is ``None``.
    """

    dtype: str
    shape: tuple[int | None, ...] | None


@dataclass(slots=True)
class Node:
    """One operation.

    Attributes:
        name: in its graph or function.
        operator: its type (``Conv2D``).
        types: attributes that are dtypes, or lists of dtypes.
        label: ``_kernel`` of a node that asks for a special kernel.
        inputs: the tensors that it reads, in order.
        after: the nodes that it waits for without reading them.
        results: the tensors that it makes.
        times: how often the step has it: what is the same for many variables is in the graph once.
        edges: how often it is read, waited for or returned in its own graph or function.
        device: what a device scope asks for; empty for nothing.
        colocated_with: the names of nodes that it has to be on one device with (``_class``).
        scope: the functions that it is in, by the names of the nodes that call them; empty for the graph itself.
        jitted: in a function that is to be compiled (``jit_compile=True``).
        is_call: it runs functions, whose bodies are nodes of their own.
        inserted: TensorFlow puts it in where a function's body takes the place of its call.
    """

    name: str
    operator: str
    types: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    label: str = ""
    inputs: Sequence[Value] = ()
    after: Sequence[int] = ()
    results: Sequence[Result] = ()
    times: int = 1
    edges: int = 0
    device: str = ""
    colocated_with: Sequence[str] = ()
    scope: str = ""
    jitted: bool = False
    is_call: bool = False
    inserted: bool = False

    @property
    def full_name(self) -> str:
        """The name with those of the calls that lead to it."""
        return f"{self.scope}/{self.name}" if self.scope else self.name

    @property
    def module(self) -> str | None:
        """The first name scopes without the node's own name: layers are name scopes."""
        return "/".join(self.full_name.split("/")[:-1][:2]) or None


@dataclass(slots=True)
class Graph:
    """A step as one list of nodes, each after what it reads, but for the backward edges of loops.

    Attributes:
        nodes: all of them.
        held: arguments that are variables → dtype of what they hold.
        resident: arguments that are tensors which were made before, and are where such are made.
        notes: what a reader of the report should know.
    """

    nodes: list[Node]
    held: dict[int, str] = field(default_factory=dict)
    resident: set[int] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
