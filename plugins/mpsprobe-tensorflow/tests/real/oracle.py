"""TensorFlow's own placer as an oracle: ``python oracle.py STUB GRAPH``.

STUB is the plugin of ``stub.cc``, which registers the kernels of a table (``STUB_TABLE``), and computes nothing. GRAPH
is a traced step, as ``ask_placer.py`` writes it, or a list of single operations, each to be run eagerly. TensorFlow is
asked to run it, and logs on standard error where it places each operation before that runs, which may then abort the
process: hence a program of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Any

MARK = "=== placed from here on"
BEGINS = "=== begins"
ERROR = "=== raised"


def main(stub: str, graph: str) -> None:
    """Run the function of ``graph``."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "0"
    import tensorflow as tf
    from tensorflow.core.framework import graph_pb2
    from tensorflow.python.eager import context
    from tensorflow.python.framework import load_library

    load_library.load_pluggable_device_library(stub)
    tf.debugging.set_log_device_placement(True)  # only before it has a context
    asked = json.loads(Path(graph).read_text(encoding="utf-8"))
    if "operations" in asked:
        for number, one in enumerate(asked["operations"]):
            print(MARK, number, file=sys.stderr, flush=True)  # noqa: T201
            run_eagerly(one)
        return
    library = graph_pb2.GraphDef.FromString(bytes.fromhex(asked["library"])).library
    for function in library.function:
        context.context().add_function_def(function)
    inputs = []
    for one in asked["arguments"]:
        dtype, shape = tf.as_dtype(one["dtype"]), one["shape"]
        if one["variable"]:
            inputs.append(tf.raw_ops.VarHandleOp(dtype=dtype, shape=shape))
        else:
            with tf.device("CPU:0"):
                inputs.append(tf.zeros(shape, dtype))
    assert [one.device_type for one in tf.config.list_physical_devices()] == ["CPU", "GPU"]
    tf.config.set_soft_device_placement(asked["soft"])
    tf.config.optimizer.set_experimental_options(dict.fromkeys(asked["off"], False))
    print(MARK, file=sys.stderr, flush=True)  # noqa: T201
    try:
        context.context().call_function(asked["function"].encode(), inputs, asked["outputs"])
    except Exception as error:  # noqa: BLE001 - what is placed is run, and the stub computes nothing
        print(ERROR, error, file=sys.stderr, flush=True)  # noqa: T201


def run_eagerly(asked: Any) -> None:
    """Run one operation with zeros where ``asked`` has its tensors. What it raises is printed; most compute nothing."""
    import tensorflow as tf
    from tensorflow.core.framework import node_def_pb2
    from tensorflow.python.eager import context, execute

    inputs = []
    for one in asked["inputs"]:
        if one["variable"]:
            inputs.append(tf.raw_ops.VarHandleOp(dtype=one["dtype"], shape=one["shape"]))
            continue
        with tf.device("CPU:0"):
            value = tf.zeros(one["shape"], one["dtype"])
        with tf.device(one["device"]):
            inputs.append(tf.identity(value))
        assert inputs[-1].device.endswith(f"{one['device']}:0")
    node = node_def_pb2.NodeDef.FromString(bytes.fromhex(asked["node"]))
    attributes = [part for name, value in node.attr.items() for part in (name, _plain(value))]
    print(BEGINS, file=sys.stderr, flush=True)  # noqa: T201
    with tf.device(node.device) if node.device else contextlib.nullcontext():
        if node.op == "Const":  # Python's: nothing is run
            made = tf.constant(tf.make_ndarray(node.attr["value"].tensor))
            print("Executing op Const in device", made.backing_device, file=sys.stderr, flush=True)  # noqa: T201
            return
        try:
            execute.execute(node.op, asked["outputs"], inputs, tuple(attributes), context.context())
        except Exception as error:  # noqa: BLE001 - as above
            print(ERROR, error, file=sys.stderr, flush=True)  # noqa: T201


def _plain(value: Any) -> Any:
    """An attribute as the generated functions of TensorFlow pass it on."""
    import tensorflow as tf

    kind = value.WhichOneof("value")
    if kind == "shape":
        return tf.TensorShape(value.shape).as_list() if not value.shape.unknown_rank else None
    if kind == "list":
        shapes = [_plain(type(value)(shape=one)) for one in value.list.shape]
        return shapes or next((list(found) for _, found in value.list.ListFields()), [])
    return getattr(value, kind)


if __name__ == "__main__":
    main(*sys.argv[1:])
