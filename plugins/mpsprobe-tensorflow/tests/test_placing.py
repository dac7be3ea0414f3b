"""The placer's rules on small graphs with kernels of the tests' own: without TensorFlow, whose placer real/ asks."""

from __future__ import annotations

from types import SimpleNamespace as Proto

import pytest

from mpsprobe_tensorflow.findings import transfers
from mpsprobe_tensorflow.placing import crossing, kernels
from mpsprobe_tensorflow.placing.kernels import Kernel, Kernels
from mpsprobe_tensorflow.placing.nodes import Graph, Node, Result, Value
from mpsprobe_tensorflow.placing.placer import place
from mpsprobe_tensorflow.tables.table import Registration

FLOAT = frozenset({"float32"})
ALL = {"Identity", "Const", "Shape", "Relu", "Sin", "Assign", "Read", "VarHandleOp"}
OF_TENSORFLOW = {
    **{name: [Kernel("CPU", {})] for name in ALL},
    **{name: [Kernel("CPU", {}), Kernel("DEFAULT", {})] for name in ("Identity", "Const", "Read", "VarHandleOp")},
    "Shape": [Kernel("CPU", {}), Kernel("DEFAULT", {}, frozenset({"output"}))],
}
PLUGIN = Kernels([Registration("Relu", "GPU", {"T": "float32"}, []), Registration("Assign", "GPU", {}, [])])


@pytest.fixture(autouse=True)
def own_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "of_tensorflow", lambda operator: tuple(OF_TENSORFLOW.get(operator, ())))
    shape = Proto(output_arg=[Proto(name="output", number_attr="", type_list_attr="")], input_arg=[])
    monkeypatch.setattr(crossing, "definition", lambda operator: shape if operator == "Shape" else None)


def op(operator: str, *inputs: int, dtype: str = "float32", **more: object) -> Node:
    results = [Result(dtype, (2, 3))]
    read = [Value(index, 0) for index in inputs]
    return Node(operator, operator, {"T": (dtype,)}, inputs=read, results=results, **more)  # type: ignore[arg-type]


def devices(*nodes: Node, soft: bool = True, held: dict[int, str] | None = None) -> list[str | None]:
    graph = Graph(list(nodes), held=held or {})
    return [one.device if one else "-" for one in place(graph, PLUGIN, soft=soft)]


def test_the_gpu_is_preferred_and_a_scope_followed_as_far_as_there_are_kernels() -> None:
    assert devices(op("Placeholder"), op("Relu", 0), op("Sin", 1)) == ["-", "GPU", "CPU"]
    assert devices(op("Placeholder"), op("Relu", 0, dtype="float16")) == ["-", "CPU"]
    assert devices(op("Placeholder"), op("Relu", 0, device="/device:CPU:0")) == ["-", "CPU"]
    assert devices(op("Placeholder"), op("Sin", 0, device="/GPU:0")) == ["-", "CPU"]
    assert devices(op("Placeholder"), op("Sin", 0, device="/GPU:0"), soft=False) == ["-", None]
    [placed] = place(Graph([op("Nowhere", 0)]), PLUGIN)
    assert placed is not None and placed.why == "no device has a kernel of Nowhere with these dtypes"
    assert devices(op("Placeholder"), op("Relu", 0, jitted=True)) == ["-", None]


def test_what_reads_nothing_goes_to_its_readers_and_metadata_to_its_tensor() -> None:
    assert devices(op("Const"), op("Sin", 0)) == ["CPU", "CPU"]
    assert devices(op("Const"), op("Sin", 0), op("Relu", 0)) == ["GPU", "CPU", "GPU"]
    assert devices(op("Placeholder"), op("Sin", 0), op("Shape", 1), op("Relu", 0), op("Shape", 3)) == [
        "-", "CPU", "CPU", "GPU", "GPU",
    ]  # fmt: skip


def test_identity_follows_its_tensor_unless_something_else_waits() -> None:
    assert devices(op("Placeholder"), op("Sin", 0), op("Identity", 1, edges=1)) == ["-", "CPU", "CPU"]
    assert devices(op("Placeholder"), op("Sin", 0), op("Identity", 1, edges=2)) == ["-", "CPU", "GPU"]
    assert devices(op("Placeholder"), op("Sin", 0), op("Identity", 1, after=[1])) == ["-", "CPU", "GPU"]


def test_what_uses_a_variable_is_where_it_is() -> None:
    handle = op("Placeholder", dtype="resource")
    assert devices(handle, op("Read", 0), op("Assign", 0), held={0: "float32"}) == ["-", "GPU", "GPU"]
    placed = place(Graph([handle, op("Sin", 0)], held={0: "float32"}), PLUGIN)
    assert placed[1] is not None and placed[1].device is None
    assert placed[1].why == "the variable, float32, is on the GPU, which has no such kernel of Sin"
    assert devices(handle, op("Read", 0), held={0: ""}) == ["-", "CPU"]  # a table of strings, and the like


def test_a_tensor_crosses_once_in_each_direction_unless_it_is_made_in_host_memory() -> None:
    nodes = [op("Placeholder"), op("Relu", 0), op("Relu", 0), op("Sin", 1), op("Sin", 1), op("Shape", 2)]
    graph = Graph(nodes)
    found = crossing.border(graph, place(graph, PLUGIN))
    assert [(one.value.node, one.to_gpu, one.nbytes) for one in found.crossings] == [(0, True, 24), (1, False, 24)]
    assert transfers(found.crossings).model_dump() == {"to_gpu": 1, "to_cpu": 1, "to_gpu_bytes": 24, "to_cpu_bytes": 24}
    graph = Graph([op("Placeholder"), op("Relu", 0), op("Shape", 1, dtype="int32"), op("Sin", 2, dtype="int32")])
    found = crossing.border(graph, place(graph, PLUGIN))
    assert [one.value.node for one in found.crossings] == [0]
