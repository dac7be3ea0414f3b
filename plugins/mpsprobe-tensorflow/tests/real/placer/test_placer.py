"""Every operation is placed where TensorFlow's own placer puts it, on a device with the kernels of tensorflow-metal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from ask_placer import build_stub, compare, compare_eagerly, traced
from google.protobuf import text_format
from tensorflow.core.framework import graph_pb2

from mpsprobe.protocols import RunOptions
from mpsprobe_tensorflow.placing import grappler
from mpsprobe_tensorflow.placing.flattening import flatten
from mpsprobe_tensorflow.placing.kernels import Kernels
from mpsprobe_tensorflow.placing.placer import place
from mpsprobe_tensorflow.tables.releases import optimizers_off
from mpsprobe_tensorflow.tables.table import load
from mpsprobe_tensorflow.workloads import KerasWorkload

X = tf.TensorSpec((2, 8))
BORDER = {"_Arg", "_Retval", "Placeholder", "NoOp"}
"""What a graph begins and ends with, here and there."""


@pytest.fixture(scope="module")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_stub(tmp_path_factory.mktemp("stub"))


class Variables:
    """What the functions below read and write; made when the first of them is traced."""

    def __init__(self) -> None:
        self.matrix = tf.Variable(tf.zeros((8, 4)))
        self.count = tf.Variable(0, dtype=tf.int32)
        self.steps = tf.Variable(0, dtype=tf.int64)
        self.half = tf.Variable(tf.zeros((4,), tf.float16))
        self.flag = tf.Variable(True)
        self.text = tf.Variable("a")
        self.double = tf.Variable(tf.zeros((3,), tf.float64))


def control_flow(x: Any, v: Variables) -> Any:
    found = tf.TensorArray(tf.float32, size=0, dynamic_size=True)

    def body(i: Any, z: Any, found: Any) -> Any:
        z = tf.nn.relu(z) * 2 + tf.math.lgamma(z)
        return i + 1, z, found.write(i, tf.reduce_sum(z))

    _, z, found = tf.while_loop(lambda i, *_: i < 3, body, (tf.constant(0), x, found))
    y = tf.reshape(z, [tf.shape(z)[0], -1])
    chosen = tf.cond(tf.reduce_sum(y) > 0, lambda: tf.nn.softmax(y), lambda: tf.cumsum(y, 1))
    index = tf.cast(x[0, 0], tf.int32)
    switched = tf.switch_case(index, [lambda: x * 2, lambda: tf.cumsum(x), lambda: tf.sin(x)])
    return chosen, tf.argmax(y, 1), found.stack(), switched, tf.map_fn(tf.sort, x)


def variables(x: Any, v: Variables) -> Any:
    @tf.function
    def inner(x: Any) -> Any:
        return tf.linalg.svd(x)[0] + tf.matmul(x, v.matrix)[:, :1]

    v.count.assign_add(1)
    v.steps.assign_add(1)
    v.half.assign_add(tf.ones((4,), tf.float16))
    v.flag.assign(False)
    v.matrix.scatter_nd_update([[0]], [[1.0, 2.0, 3.0, 4.0]])
    read = tf.gather(v.matrix, tf.constant([1, 2])) * tf.cast(v.steps, tf.float32)
    mixed = tf.cast(v.double, tf.float32), v.text.read_value(), tf.range(v.count + 3), tf.stack([v.count, v.count])
    return inner(x), v.count.read_value(), read, mixed, tf.unique(tf.range(4)).y, tf.where(x > 0)


def scopes(x: Any, v: Variables) -> Any:
    with tf.device("/CPU:0"):
        y = tf.matmul(x, v.matrix)
    with tf.device("/GPU:0"):
        return y, tf.linalg.inv(tf.matmul(x, x, transpose_b=True)), tf.nn.relu(x)


def gradients(x: Any, v: Variables) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        turn = lambda i, z: (i + 1, tf.tanh(tf.matmul(tf.matmul(z, v.matrix), v.matrix, transpose_b=True)))  # noqa: E731
        y = tf.while_loop(lambda i, _: i < 3, turn, (0, x), maximum_iterations=5)[1]
        loss = tf.reduce_sum(y**2) + tf.reduce_sum(tf.gather(v.matrix, [1, 1]))
    return tape.gradient(loss, [x, v.matrix])


def identities(x: Any, v: Variables) -> Any:
    same, on_cpu = tf.raw_ops.Identity, tf.sin(x)
    once, chain, twice, never = (same(input=on_cpu) for _ in range(4))
    with tf.control_dependencies([once]):
        waits = same(input=on_cpu)
    del never
    both = tf.nn.relu(twice) + tf.tanh(twice)
    return tf.nn.relu(once), tf.nn.relu(same(input=chain)), both, tf.nn.relu(waits), tf.nn.relu(same(input=x))


def texts_and_numbers(x: Any, v: Variables) -> Any:
    texts = tf.strings.as_string(x)
    drawn = tf.random.uniform((3,)), tf.random.stateless_uniform((2,), [1, 2])
    resized = tf.image.resize(tf.reshape(x, (1, 2, 8, 1)), (4, 4))
    return texts, tf.strings.length(texts), drawn, resized, tf.py_function(lambda z: z, [x], tf.float32)


def single(x: Any, v: Variables) -> Any:
    """What eager execution runs although no graph could hold it, and places by rules of its own."""
    make = tf.raw_ops
    make.ResourceScatterMin(resource=v.matrix.handle, indices=[0], updates=[[1.0, 2.0, 3.0, 4.0]])  # no kernel
    with tf.device("/CPU:0"):
        v.matrix.assign_add(tf.ones((8, 4)))
        constants = tf.constant([1.0]) + tf.cast(tf.constant([1, 2]) * 3, tf.float32)
    with tf.device("/GPU:0"):
        v.count.assign_add(2)
        return constants, tf.linalg.inv(x @ tf.transpose(x)), tf.constant([1, 2]) + 3, tf.constant(1, tf.int64) + 3


FUNCTIONS = (control_flow, variables, scopes, gradients, identities, texts_and_numbers)


@pytest.mark.parametrize(("function", "release"), [*((one, "1.2.0") for one in FUNCTIONS), (gradients, "0.5.0")])
def test_functions(stub: Path, function: Callable[..., Any], release: str) -> None:
    v = Variables()
    concrete = tf.function(lambda x: function(x, v)).get_concrete_function(X)
    found = compare(stub, concrete, load(release).on())
    assert not found.wrong
    assert found.both > len(found.ours_alone) and 0 < found.gpu < found.both


def test_single_operations(stub: Path) -> None:
    v = Variables()
    functions = (tf.function(lambda x, each=each: each(x, v)) for each in (*FUNCTIONS, single))
    concretes = [one.get_concrete_function(X) for one in functions]
    found = compare_eagerly(stub, concretes, load("1.2.0").on())
    assert not found.wrong
    assert found.both > 100 and 0 < found.gpu < found.both


def test_without_soft_placement(stub: Path) -> None:
    v = Variables()
    concrete = tf.function(lambda x: scopes(x, v)).get_concrete_function(X)
    found = compare(stub, concrete, load("1.2.0").on(), soft=False)
    assert "Could not satisfy explicit device specification" in found.failed
    assert "MatrixInverse ('MatrixInverse', None)" in found.ours_alone


@pytest.mark.parametrize("phase", ["inference", "training"])
def test_a_model(stub: Path, phase: str) -> None:
    options = RunOptions(phase=phase)
    concrete, _ = traced(KerasWorkload("keras:mobilenet_v3_small").build(options), options)
    found = compare(stub, concrete, load("1.2.0").on())
    assert not found.wrong and found.both > 800
    assert (found.gpu < found.both) == (phase == "training")


def test_grappler_leaves_what_it_leaves_in_tensorflow(stub: Path, tmp_path: Path) -> None:
    matrix = tf.Variable(tf.zeros((8, 4)))

    @tf.function
    def train(x: Any) -> Any:
        with tf.GradientTape() as tape:
            y = tf.nn.softmax(tf.identity(tf.matmul(x * 2.0 * 3.0, matrix)) + tf.zeros((2, 4)))
            loss = tf.reduce_mean(tf.nn.relu(tf.reshape(y, [tf.shape(y)[0], -1])) ** 2)
        matrix.assign_sub(0.1 * tape.gradient(loss, matrix))
        return loss

    concrete, step = traced((train, X), RunOptions(graph="optimized"))
    off = optimizers_off("1.2.0")
    compare(stub, concrete, load("1.2.0").on(), off=off, dumped=tmp_path)
    [file] = tmp_path.glob("*after_graph_optimization*")
    theirs = text_format.Parse(file.read_text(encoding="utf-8"), graph_pb2.GraphDef())
    before = flatten(step.graph, step.held, step.resident, step.returned)
    kernels = Kernels(load("1.2.0").on())
    devices = grappler.devices(before, place(before, kernels), kernels)
    ours = grappler.optimized(step.graph, [*step.returned, *step.effects], devices, off)
    counted = [Counter(node.op for node in graph.node if node.op not in BORDER) for graph in (ours, theirs)]
    # TensorFlow folds one constant more, the gradient of a mean: its shape is known where the function is called.
    assert counted[0] - counted[1] == {"BroadcastTo": 1, "Const": 1} and not counted[1] - counted[0]
    assert counted[0]["Mul"] < sum(node.op == "Mul" for node in step.graph.node)
    assert counted[0]["AssignSubVariableOp"] == 1
