"""TensorFlow's own placer as an oracle: ``python oracle.py STUB GRAPH``.

STUB is the plugin of ``stub.cc``, which registers the kernels of a table (``STUB_TABLE``), and computes nothing. GRAPH
is a traced step, as ``ask_placer.py`` writes it. TensorFlow is asked to run it, and logs on standard error where it
places each operation before the first one runs, which may then abort the process: hence a program of its own.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

MARK = "=== placed from here on"
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


if __name__ == "__main__":
    main(*sys.argv[1:])
