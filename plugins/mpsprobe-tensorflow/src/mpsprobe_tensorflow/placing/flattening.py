"""From a ``GraphDef`` with its functions to one list of nodes: bodies stand where they are called.

TensorFlow does the same before it places anything (``lower_functional_ops`` and the inlining of calls); a branch and a
loop get operations around their bodies, which have kernels for every device.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mpsprobe_tensorflow.placing.kernels import definition, dtype_name
from mpsprobe_tensorflow.placing.nodes import BRANCHES, CALLS, FOLLOWED, LOOPS, Graph, Node, Result, Value

MOST_NODES = 300_000
"""Calls within calls make a graph of any size out of a small file; the training of NASNetLarge has 60,000."""
MOST_RESULTS = 10_000
"""Of one node: a file may say any number."""
RESOURCES = ("resource", "variant")
CONDITION = "cond"
"""Of a loop: what it returns stays in host memory, where the loop reads it."""


@dataclass
class _Body:
    """What is being flattened: a graph or a function."""

    scope: str = ""  # the calls that lead to it
    nodes: dict[str, int] = field(default_factory=dict)  # the number of each node, by its name
    made: dict[str, list[Value]] = field(default_factory=dict)  # what names stand for; in functions by output argument
    jitted: bool = False  # it is to be compiled
    within: frozenset[str] = frozenset()  # the functions that it is in


def flatten(
    graph: Any,
    held: Mapping[str, str],
    resident: Collection[str] = (),
    returned: Sequence[str] = (),
    first: int | None = None,
    times: Mapping[str, int] = {},
) -> Graph:
    """All nodes of a ``GraphDef`` with ``_output_shapes``, as ``Graph.as_graph_def(add_shapes=True)`` gives it.

    The arguments are those of a ``tracing.Step``; ``first`` is taken for a first dimension that is not known.
    """
    flattening = _Flattening(graph.library, first)
    flattening.body(graph.node, returned, _Body())
    flat = flattening.graph
    if flattening.left_out:
        reason = "calls were not followed: of functions that are not there, that call themselves, or in a graph of more"
        flat.notes.append(f"{flattening.left_out} {reason} than {MOST_NODES:,} operations")
    numbers = {node.name: index for index, node in enumerate(flat.nodes) if not node.scope}
    flat.held = {numbers[name]: dtype for name, dtype in held.items() if name in numbers}
    flat.resident = {numbers[name] for name in resident if name in numbers}
    for node in flat.nodes if times else ():
        node.times = 1 if node.scope else times.get(node.name, 1)
    return flat


class _Flattening:
    def __init__(self, library: Any, first: int | None) -> None:
        self.graph = Graph([])
        self.left_out = 0
        self._first = first
        self._functions = {function.signature.name: function for function in library.function}

    def body(self, protos: Sequence[Any], returned: Iterable[str], body: _Body) -> None:
        added: list[tuple[Node, list[str], list[str]]] = []
        for proto in protos:
            index = self._add(proto, body)
            node = self.graph.nodes[index]
            read = [text for text in proto.input if not text.startswith("^")]
            node.inputs = self._values(read, body)
            added.append((node, read, [text[1:] for text in proto.input if text.startswith("^")]))
            if node.is_call:
                self._follow(index, proto, body)
        for node, read, named in added:
            if len(node.inputs) < len(read):  # it reads what comes later: the order of a function is free
                node.inputs = self._values(read, body)
            for value in node.inputs:
                self._read_once(value, body)
            node.after = [body.nodes[name] for name in dict.fromkeys(named) if name in body.nodes]
            for other in node.after:
                self.graph.nodes[other].edges += 1
        for text in returned:
            self._read_once(self._value(text, body), body)

    def _read_once(self, value: Value | None, body: _Body) -> None:
        if value is not None and self.graph.nodes[value.node].scope == body.scope:
            self.graph.nodes[value.node].edges += 1

    def _add(self, proto: Any, body: _Body) -> int:
        index = len(self.graph.nodes)
        function = self._functions.get(proto.op)
        known = definition(proto.op) if function is None else function.signature
        outputs = _outputs(proto, known, self._first)
        attributes = proto.attr
        node = Node(
            name=proto.name,
            operator=proto.op,
            types=_types(proto, known),
            label=attributes["_kernel"].s.decode(errors="replace") if "_kernel" in attributes else "",
            results=[result for _, result in outputs],
            device=proto.device,
            colocated_with=[
                text.removeprefix(b"loc:@").decode(errors="replace")
                for text in (attributes["_class"].list.s if "_class" in attributes else ())
                if text.startswith(b"loc:@")
            ],
            scope=body.scope,
            jitted=body.jitted or _must_compile(proto),
            is_call=proto.op in FOLLOWED or function is not None,
        )
        self.graph.nodes.append(node)
        values = [Value(index, number) for number in range(len(outputs))]
        body.nodes[proto.name] = index
        body.made[proto.name] = values
        for number, (name, _) in enumerate(outputs):
            body.made.setdefault(f"{proto.name}:{name}", []).append(values[number])
        return index

    def _values(self, texts: Iterable[str], body: _Body) -> list[Value]:
        return [value for text in texts if (value := self._value(text, body)) is not None]

    def _value(self, text: str, body: _Body) -> Value | None:
        """``node``, ``node:1`` (of a graph) or ``node:output:1`` (of a function)."""
        name, _, number = text.rpartition(":")
        if not name:
            name, number = text, "0"
        values = body.made.get(name)
        if values is None or not number.isdigit():
            return None
        return values[int(number)] if int(number) < len(values) else Value(values[0].node, 0) if values else None

    def _follow(self, index: int, proto: Any, body: _Body) -> None:
        """Put the bodies of what ``proto`` calls after it."""
        node = self.graph.nodes[index]
        calls = _called(proto, self._functions)
        skipped = 1 if proto.op in BRANCHES else 0  # the first input chooses the branch
        for part, name in calls:
            function = self._functions.get(name)
            if function is None or name in body.within or len(self.graph.nodes) > MOST_NODES:
                self.left_out += 1
                continue
            scope = f"{node.full_name}/{part}" if part else node.full_name
            jitted = body.jitted or _must_compile(proto) or _must_compile(function)
            inner = _Body(scope, jitted=jitted, within=body.within | {name})
            for number, argument in enumerate(function.signature.input_arg):
                given = node.inputs[number + skipped] if number + skipped < len(node.inputs) else None
                inner.made[argument.name] = [self._given(argument, given, proto.op, inner)]
            self.body(function.node_def, function.ret.values(), inner)
            if proto.op in CALLS or proto.op not in FOLLOWED:  # a branch or a loop has a result of its own
                returned = [self._value(function.ret[result.name], inner) for result in function.signature.output_arg]
                known = [value or Value(index, number) for number, value in enumerate(returned)]
                body.made[proto.name] = known
                body.made[f"{proto.name}:output"] = known
            elif part != CONDITION:
                for output in function.signature.output_arg:
                    self._pass_on(output.name, self._value(function.ret[output.name], inner), inner)

    def _given(self, argument: Any, value: Value | None, operator: str, inner: _Body) -> Value:
        """What an argument of a body is: of a call the tensor itself, of a branch or loop what passes it on."""
        dtype = dtype_name(argument.type) if argument.type else "unknown"
        if value is not None and (operator not in BRANCHES | LOOPS or dtype in RESOURCES):
            return value
        return self._pass_on(argument.name, value, inner) or self._insert(
            argument.name, "Placeholder", Result(dtype, None), [], inner
        )

    def _pass_on(self, name: str, value: Value | None, inner: _Body) -> Value | None:
        """What TensorFlow puts between a body and what is around it: ``Switch``, ``Merge`` and the like."""
        made = self.graph.nodes[value.node].results if value is not None else ()
        if value is None or value.output >= len(made) or made[value.output].dtype in RESOURCES:
            return None
        return self._insert(name, "Identity", made[value.output], [value], inner)

    def _insert(self, name: str, operator: str, result: Result, inputs: list[Value], inner: _Body) -> Value:
        types = {"T": (result.dtype,)}
        node = Node(name, operator, types, inputs=inputs, results=[result], scope=inner.scope, inserted=True)
        node.jitted = inner.jitted
        self.graph.nodes.append(node)
        return Value(len(self.graph.nodes) - 1, 0)


def _called(proto: Any, functions: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The functions that a node runs, with what they are to it."""
    if proto.op in functions:
        return [("", proto.op)]
    attributes = proto.attr
    parts = {"f": "", "then_branch": "then", "else_branch": "else", "cond": CONDITION, "body": "body"}
    branches = [(part, attributes[name].func.name) for name, part in parts.items() if name in attributes]
    if "branches" in attributes:
        branches += [(f"branch{number}", branch.name) for number, branch in enumerate(attributes["branches"].list.func)]
    return branches


def _outputs(proto: Any, known: Any, first: int | None) -> list[tuple[str, Result]]:
    """Each result of a node, with the name of the output argument."""
    shapes = proto.attr["_output_shapes"].list.shape if "_output_shapes" in proto.attr else ()
    if known is None:  # a custom operator: only what the node says
        unknown = [("output", Result("unknown", _shape(shape, first))) for shape in shapes]
        return unknown or [("output", Result("unknown", None))]
    pairs: list[tuple[str, str]] = []
    for argument in known.output_arg:
        if argument.type_list_attr:
            listed = _attribute(proto, known, argument.type_list_attr).list.type
            pairs += [(argument.name, dtype_name(dtype)) for dtype in listed]
            continue
        number = argument.type or _attribute(proto, known, argument.type_attr).type
        count = _attribute(proto, known, argument.number_attr).i if argument.number_attr else 1
        pairs += [(argument.name, dtype_name(number))] * min(max(count, 0), MOST_RESULTS)
    return [
        (name, Result(dtype, _shape(shapes[number], first) if number < len(shapes) else None))
        for number, (name, dtype) in enumerate(pairs)
    ]


def _types(proto: Any, known: Any) -> dict[str, tuple[str, ...]]:
    """The attributes that are dtypes."""
    if known is None:
        return {}
    of = {
        attribute.name: (attribute.type, _attribute(proto, known, attribute.name))
        for attribute in known.attr
        if "type" in attribute.type
    }
    return {
        name: tuple(map(dtype_name, value.list.type if kind == "list(type)" else [value.type]))
        for name, (kind, value) in of.items()
    }


def _attribute(proto: Any, known: Any, name: str) -> Any:
    """The value of an attribute, or its default: what is saved has no defaults."""
    if name in proto.attr:
        return proto.attr[name]
    return next(attribute.default_value for attribute in known.attr if attribute.name == name)


def _shape(shape: Any, first: int | None) -> tuple[int | None, ...] | None:
    if shape.unknown_rank:
        return None
    sizes = [size.size if size.size >= 0 else None for size in shape.dim]
    if sizes and sizes[0] is None:
        sizes[0] = first
    return tuple(sizes)


def _must_compile(proto: Any) -> bool:
    return "_XlaMustCompile" in proto.attr and proto.attr["_XlaMustCompile"].b
