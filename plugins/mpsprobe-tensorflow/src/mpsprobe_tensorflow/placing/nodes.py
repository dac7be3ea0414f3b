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
    """What an operation returns."""

    dtype: str  # as numpy writes it (float32, resource)
    shape: tuple[int | None, ...] | None  # None where nothing is known of it; so is a dimension


@dataclass(slots=True)
class Node:
    """One operation."""

    name: str  # in its graph or function
    operator: str  # its type (Conv2D)
    types: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # attributes that are dtypes, or lists of them
    label: str = ""  # _kernel of a node that asks for a special kernel
    inputs: Sequence[Value] = ()  # the tensors that it reads, in order
    after: Sequence[int] = ()  # the nodes that it waits for without reading them
    results: Sequence[Result] = ()
    times: int = 1  # how often the step has it: what is the same for many variables is in the graph once
    edges: int = 0  # how often it is read, waited for or returned in its own graph or function
    device: str = ""  # what a device scope asks for; empty for nothing
    colocated_with: Sequence[str] = ()  # the names of nodes that it has to be on one device with (_class)
    scope: str = ""  # the functions that it is in, by the names of the nodes that call them; empty for the graph itself
    jitted: bool = False  # in a function that is to be compiled (jit_compile=True)
    is_call: bool = False  # it runs functions, whose bodies are nodes of their own
    inserted: bool = False  # TensorFlow puts it in where a function's body takes the place of its call

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
    """A step as one list of nodes, each after what it reads, but for the backward edges of loops."""

    nodes: list[Node]
    held: dict[int, str] = field(default_factory=dict)  # arguments that are variables → dtype of what they hold
    resident: set[int] = field(default_factory=set)  # arguments: tensors made before, which are where such are made
    notes: list[str] = field(default_factory=list)  # what a reader of the report should know
