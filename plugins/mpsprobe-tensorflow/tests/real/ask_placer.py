"""What the oracle is asked, and what it answers, next to what mpsprobe says: for tests, and as a program for sweeps.

``python ask_placer.py WORKLOAD PHASE…`` compares one workload after the other and prints the operations that differ.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from oracle import BEGINS, ERROR, MARK

FOLDER = Path(__file__).parent
EXECUTED = re.compile(r"Executing op (\w+) in device \S*/device:(\w+):\d+")
LINE = re.compile(r"placer\.cc:\d+\] (\S+): \((\w+)\): \S*/device:(\w+):\d+$", re.MULTILINE)


@dataclass
class Compared:
    """How many operations both name and TensorFlow places on the GPU, those that they place elsewhere, and others."""

    both: int
    gpu: int
    wrong: list[str] = field(default_factory=list)
    ours_alone: list[str] = field(default_factory=list)
    theirs_alone: list[str] = field(default_factory=list)
    failed: str = ""  # what TensorFlow raised


def build_stub(folder: Path) -> Path:
    """Compile the plugin with the headers that TensorFlow's wheel has."""
    import tensorflow as tf

    stub = folder / "stub.so"
    flags = [*tf.sysconfig.get_compile_flags(), "-O0", "-shared", "-fPIC"]
    command = ["c++", *flags, str(FOLDER / "stub.cc"), "-o", str(stub), *tf.sysconfig.get_link_flags()]
    subprocess.run(command, check=True, capture_output=True)
    return stub


def compare(
    stub: Path,
    concrete: Any,
    registrations: Iterable[Any],
    *,
    soft: bool = True,
    off: Sequence[str] = (),
    dumped: Path | None = None,
) -> Compared:
    """Where both place the operations of a traced function, with the kernels of ``registrations`` on the GPU.

    Optimizers of grappler that are ``off`` do not run; ``dumped`` gets the graphs that TensorFlow makes on its way.
    """
    from mpsprobe_tensorflow import tracing
    from mpsprobe_tensorflow.placing.flattening import flatten
    from mpsprobe_tensorflow.placing.kernels import Kernels
    from mpsprobe_tensorflow.placing.placer import place

    listed = list(registrations)
    held, resident = tracing.captures(concrete.graph)
    returned = [one.name for one in concrete.outputs]
    graph = flatten(concrete.graph.as_graph_def(add_shapes=True), held, resident, returned)
    placed = place(graph, Kernels(listed), soft=soft)
    arguments = []
    for inside in concrete.graph.inputs:
        variable = inside.op.name in held
        data = tracing.variable_of(inside) if variable else None
        dtype, shape = data or (inside.dtype.name, inside.shape.as_list())
        arguments.append({"variable": variable, "dtype": dtype, "shape": shape})
    whole = concrete.graph.as_graph_def()
    whole.library.function.append(concrete.function_def)
    asked = {
        "function": concrete.function_def.signature.name,
        "outputs": len(concrete.outputs),
        "library": whole.SerializeToString().hex(),
        "arguments": arguments,
        "soft": soft,
        "off": list(off),
    }
    answer = _answer(stub, asked, listed, dumped)
    theirs = {re.sub(r"/_\d+(?=/|$)", "", name): (operator, device) for name, operator, device in LINE.findall(answer)}
    ours = {
        node.full_name: (node.operator, one.device)
        for node, one in zip(graph.nodes, placed, strict=True)
        if one is not None and not node.inserted and not node.is_call
    }
    both = ours.keys() & theirs.keys()
    return Compared(
        both=len(both),
        gpu=sum(theirs[name][1] == "GPU" for name in both),
        wrong=sorted(f"{name}: {theirs[name]}, not {ours[name]}" for name in both if theirs[name] != ours[name]),
        ours_alone=sorted(f"{name} {ours[name]}" for name in ours.keys() - both),
        theirs_alone=sorted(f"{name} {theirs[name]}" for name in theirs.keys() - both),
        failed=answer.partition(ERROR)[2].strip(),
    )


def _answer(stub: Path, asked: object, registrations: Sequence[Any], dumped: Path | None = None) -> str:
    """What the oracle prints after its first mark."""
    import tensorflow as tf

    lines = []
    for one in registrations:
        types = ",".join(f"{name}={tf.as_dtype(dtype).as_datatype_enum}" for name, dtype in one.types.items())
        lines.append(f"{one.operator}\t{types}\t{','.join(one.host)}\n")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "table.tsv").write_text("".join(lines), encoding="utf-8")
        (folder / "asked.json").write_text(json.dumps(asked), encoding="utf-8")
        # On some processors oneDNN, which no Mac has, runs another operation (_MklMatMul) in place of this one.
        environment = {**os.environ, "STUB_TABLE": str(folder / "table.tsv"), "TF_ENABLE_ONEDNN_OPTS": "0"}
        if dumped is not None:
            environment |= {"TF_DUMP_GRAPH_PREFIX": str(dumped), "TF_DUMP_GRAPH_NAME_FILTER": "*"}
            environment["TF_DUMP_GRAPH_GROUPS"] = "main"
        command = [sys.executable, str(FOLDER / "oracle.py"), str(stub), "asked.json"]
        ended = subprocess.run(command, check=False, cwd=folder, env=environment, capture_output=True, text=True)
    before, mark, answer = ended.stderr.partition(MARK)
    if not mark:
        raise RuntimeError(before[-2000:])
    return answer


def compare_eagerly(stub: Path, concretes: Iterable[Any], registrations: Iterable[Any]) -> Compared:
    """Where both place each operation of traced functions that is run by itself; of constants, where their memory is.

    Its tensors are where mpsprobe says that they are. Operations that read what cannot be made from nothing (lists of
    tensors, handles that are no variables) are left out, as are calls and what is in their bodies.
    """
    from mpsprobe_tensorflow import tracing
    from mpsprobe_tensorflow.placing.crossing import in_host_memory
    from mpsprobe_tensorflow.placing.flattening import flatten
    from mpsprobe_tensorflow.placing.kernels import Kernels
    from mpsprobe_tensorflow.placing.placer import place

    listed = list(registrations)
    asked: dict[str, tuple[dict[str, Any], str | None]] = {}
    for concrete in concretes:
        held, resident = tracing.captures(concrete.graph)
        proto = concrete.graph.as_graph_def(add_shapes=True)
        graph = flatten(proto, held, resident, [one.name for one in concrete.outputs])
        placed = place(graph, Kernels(listed), eager=True)
        protos = {one.name: one for one in proto.node}
        variables = {one.op.name: tracing.variable_of(one) for one in concrete.graph.inputs}
        for node, one in zip(graph.nodes, placed, strict=True):
            if one is None or node.scope or node.is_call:
                continue
            inputs = []
            for value in node.inputs:
                source, there = graph.nodes[value.node], placed[value.node]
                made = source.results[value.output]
                variable = variables.get(source.name) if made.dtype == "resource" else None
                dtype, shape = variable or (made.dtype, made.shape)
                device = there.device if there is not None else "CPU"
                sizes = [size if size is not None else 2 for size in shape or ()]
                inputs.append({"variable": variable is not None, "dtype": dtype, "shape": sizes, "device": device})
            if any(each["dtype"] in ("resource", "variant", "") or not each["device"] for each in inputs):
                continue
            plain = type(protos[node.name])(op=node.operator, device=node.device)
            for name, attribute in protos[node.name].attr.items():
                if not name.startswith("_"):
                    plain.attr[name].CopyFrom(attribute)
            text = plain.SerializeToString(deterministic=True).hex()
            single = {"operator": node.operator, "node": text, "inputs": inputs, "outputs": len(node.results)}
            stays = node.operator == "Const" and in_host_memory(node, one, 0, [bool(one.kernel and one.kernel.host)])
            asked.setdefault(json.dumps(single), (single, "CPU" if stays else f"{one.device}"))
    answers = _answer(stub, {"operations": [single for single, _ in asked.values()]}, listed).split(MARK)
    found = Compared(0, 0)
    for answer, (single, ours) in zip(answers, asked.values(), strict=True):
        after = answer.partition(BEGINS)[2]
        theirs = dict(EXECUTED.findall(after)).get(single["operator"], "None")
        found.both += 1
        found.gpu += theirs == "GPU"
        if theirs != ours:
            found.wrong.append(f"{single['operator']}: {theirs}, not {ours}: {single['inputs']} {after[:600]}")
    return found


def traced(made: Any, options: Any) -> tuple[Any, Any]:
    """The function that mpsprobe traces of what a workload made, and the step that it makes of it."""
    from mpsprobe_tensorflow import models, tracing

    seen: list[Any] = []
    keep = lambda *one, original=tracing.traced: seen.append(original(*one)) or seen[-1]  # noqa: E731
    with mock.patch.object(tracing, "traced", keep):
        step = models.step_of(made, options, "it")
    return seen[-1][0], step


def main() -> None:
    """Compare what is named on the command line."""
    from mpsprobe.plugins.registry import get_registry
    from mpsprobe.protocols import RunOptions
    from mpsprobe_tensorflow.tables.table import load, releases

    with tempfile.TemporaryDirectory() as folder:
        stub = build_stub(Path(folder))
        for name in sys.argv[1:]:
            workload, _, phase = name.rpartition("/")
            options = RunOptions(phase=phase)
            made = get_registry().workload(workload).build(options)
            found = compare(stub, traced(made, options)[0], load(releases()[-1]).on())
            theirs = [one for one in found.theirs_alone if not re.search(r"_Arg|_Retval", one)]
            print(f"{name}: {found.both} ({found.gpu} GPU), {len(found.wrong)} wrong {found.wrong[:20]}")  # noqa: T201
            print(f"  alone: {found.ours_alone[:20]}, theirs: {theirs[:20]} {found.failed[:300]}", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
