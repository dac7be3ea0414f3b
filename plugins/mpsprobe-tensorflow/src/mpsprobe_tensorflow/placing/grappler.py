"""A graph after grappler, TensorFlow's own optimizer, which runs when operations have been placed.

It folds constants, removes what nothing needs, merges equal operations and simplifies arithmetic. Its optimizers are
those of the installed TensorFlow; the plugin switches some of them off, and has one of its own, which is not known.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from mpsprobe_tensorflow.placing.kernels import CPU, GPU, Kernels
from mpsprobe_tensorflow.placing.nodes import ARGUMENTS, Graph
from mpsprobe_tensorflow.placing.placer import Placed, variable_device

PLACE = "/job:localhost/replica:0/task:0/device:{}:0"
SHAPES = "_output_shapes"
FETCHED = "train_op"
"""A collection whose nodes grappler keeps (``grappler/grappler_item_builder.cc``)."""


def devices(graph: Graph, placed: Sequence[Placed | None], kernels: Kernels) -> dict[str, str]:
    """Where each node of the graph itself was placed, by name.

    An argument counts as one on the GPU: so grappler merges what is done with it, as TensorFlow does when it is called.
    """
    found = {}
    for index, (node, kernel) in enumerate(zip(graph.nodes, placed, strict=True)):
        device = kernel.device if kernel is not None else None
        if node.operator in ARGUMENTS:
            device = variable_device(graph.held[index], kernels) if index in graph.held else GPU
        if device is not None and not node.scope:
            found[node.name] = device
    return found


def optimized(graph: Any, returned: Sequence[str], devices: Mapping[str, str], off: Collection[str]) -> Any:
    """``graph``, a ``GraphDef``, as TensorFlow would run it on ``devices``, with the optimizers that are ``off``."""
    from tensorflow.core.protobuf import config_pb2, device_properties_pb2, meta_graph_pb2, rewriter_config_pb2
    from tensorflow.python.grappler import cluster, tf_optimizer

    config = config_pb2.ConfigProto()
    options = config.graph_options.rewrite_options
    for name in off:
        setattr(options, name, rewriter_config_pb2.RewriterConfig.OFF)
    options.min_graph_nodes = -1
    known = []
    for kind in (CPU, GPU):
        properties = device_properties_pb2.DeviceProperties(type=kind, frequency=1000, num_cores=1)
        known.append(device_properties_pb2.NamedDevice(name=PLACE.format(kind), properties=properties))
    item = meta_graph_pb2.MetaGraphDef()
    item.graph_def.CopyFrom(graph)
    asked, shapes = {}, {}
    for node in item.graph_def.node:
        asked[node.name] = node.device
        if SHAPES in node.attr:
            shapes[node.name, node.op] = node.attr[SHAPES]
        if node.name in devices:
            node.device = PLACE.format(devices[node.name])
    item.collection_def[FETCHED].node_list.value.extend(_before_identities(graph, returned))
    machine = cluster.Cluster(allow_soft_placement=True, devices=known)
    found = tf_optimizer.OptimizeGraph(config, item, verbose=False, cluster=machine)
    for node in found.node:
        node.device = asked.get(node.name, "")
        if (node.name, node.op) in shapes:
            node.attr[SHAPES].CopyFrom(shapes[node.name, node.op])
    return found


def _before_identities(graph: Any, returned: Sequence[str]) -> list[str]:
    """What is returned; of an ``Identity`` that waits for nothing its tensor, as of the end of a function."""
    passed_on = {node.name: node.input[0] for node in graph.node if node.op == "Identity" and len(node.input) == 1}
    nodes = []
    for text in returned:
        name, _, number = text.partition(":")
        while number in ("", "0") and name in passed_on:
            text = passed_on.pop(name)
            name, _, number = text.partition(":")
        nodes.append(text)
    return nodes
