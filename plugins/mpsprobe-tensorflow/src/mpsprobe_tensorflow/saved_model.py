"""A SavedModel folder: its graph is read, and nothing of it is run or unpickled.

``tf.saved_model.load`` restores Python objects and variables; the graph of a signature is in the protocol buffer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from pathlib import Path
from typing import Any

from mpsprobe.errors import UsageError, WorkloadError
from mpsprobe.protocols import RunOptions
from mpsprobe.suggestions import in_short, printable
from mpsprobe_tensorflow import models, tracing
from mpsprobe_tensorflow.libraries import import_tensorflow
from mpsprobe_tensorflow.names import FRAMEWORK, SAVED_MODEL
from mpsprobe_tensorflow.placing.kernels import dtype_name
from mpsprobe_tensorflow.tracing import BATCH, Step

MOST_BYTES = 2**31 - 1
"""Of a protocol buffer."""
TRAIN = "A SavedModel holds functions, not how it is trained. Build the model in a file: path/to/file.py:function."
DAMAGED = "Save it again: model.export(folder) in Keras, or tf.saved_model.save(model, folder)."
TRUST = "If you trust who made it, say --trust-remote-code. 'mpsprobe coverage' reads it without running anything."
PREFERRED = "serving_default"
INTERNAL = "__saved_model_init_op"
RESOURCE = 20
"""``DT_RESOURCE`` of ``types.proto``."""


class SavedModelWorkload:
    """The signature ``serving_default`` of a SavedModel, or its first one."""

    framework = FRAMEWORK

    def __init__(self, name: str) -> None:
        self.name = name
        self.folder = Path(name).expanduser()
        self._kept: Any = None

    def build(self, options: RunOptions) -> Any:
        """Its graph as a step; where it is run, the signature's function.

        Raises:
            UsageError: training is asked for, or it is run and nobody said that it is trusted.
            WorkloadError: it is damaged, or has no signature.
        """
        models.check(options, self.name, foreign=True)
        if options.phase == "training":
            raise UsageError(f"'{printable(self.name)}' cannot be trained", TRAIN)
        tensorflow = import_tensorflow(f"the workload '{self.name}'")
        graph, signatures = self._read()
        names = [one for one in signatures if one != INTERNAL]
        if not names:
            raise WorkloadError(f"'{printable(self.name)}' has no signature, so nothing says what to run", DAMAGED)
        chosen = PREFERRED if PREFERRED in names else sorted(names)[0]
        if tracing.runs():
            return self._loaded(tensorflow, chosen, options)
        return _step(graph, signatures[chosen], chosen, options)

    def _loaded(self, tensorflow: Any, chosen: str, options: RunOptions) -> Any:
        """The signature as a function that can be run. Its operators may do what programs do, files included."""
        shown = printable(self.name)
        if not options.trust_remote_code:
            raise UsageError(f"'{shown}' is a program: its operators may read and write files", TRUST)
        try:
            self._kept = tensorflow.saved_model.load(str(self.folder))  # a function alone does not keep its variables
            return self._kept.signatures[chosen]
        except Exception as error:  # whatever a damaged or foreign folder raises
            raise WorkloadError(f"'{shown}' cannot be loaded: {in_short(error)}", DAMAGED) from error

    def describe(self) -> Mapping[str, Any]:
        """Its folder, and the release of TensorFlow that wrote it."""
        return {"folder": str(self.folder)}

    def _read(self) -> tuple[Any, Mapping[str, Any]]:
        from google.protobuf.message import DecodeError
        from tensorflow.core.protobuf import saved_model_pb2

        path, shown = self.folder / SAVED_MODEL, printable(self.name)
        try:
            if path.stat().st_size > MOST_BYTES:
                raise WorkloadError(f"{SAVED_MODEL} of '{shown}' is too large to be a protocol buffer", DAMAGED)
            saved = saved_model_pb2.SavedModel.FromString(path.read_bytes())
        except OSError as error:
            raise WorkloadError(f"{SAVED_MODEL} of '{shown}' cannot be read: {error.strerror}") from error
        except (DecodeError, RecursionError, ValueError) as error:
            raise WorkloadError(f"{SAVED_MODEL} of '{shown}' is damaged or no SavedModel", DAMAGED) from error
        serving = [one for one in saved.meta_graphs if "serve" in one.meta_info_def.tags] or list(saved.meta_graphs)
        if not serving:
            raise WorkloadError(f"'{shown}' has no graph", DAMAGED)
        return serving[0].graph_def, serving[0].signature_def


def _step(graph: Any, signature: Any, chosen: str, options: RunOptions) -> Step:
    """The part of the graph that the signature's outputs need."""
    returned = [one.name for one in signature.outputs.values() if one.name]
    needed = _needed(graph.node, returned)
    held: dict[str, str] = {}
    numbers = size = 0
    kept = type(graph)()
    kept.library.CopyFrom(graph.library)
    for node in graph.node:
        if node.name not in needed:
            continue
        copy = kept.node.add()
        copy.CopyFrom(node)
        if node.op == "VarHandleOp":  # who loads it makes the variables first, and hands them over
            dtype, shape = dtype_name(node.attr["dtype"].type), [one.size for one in node.attr["shape"].shape.dim]
            held[node.name] = dtype
            count = max(prod(shape), 0)
            numbers, size = numbers + count, size + count * models.item_size(dtype)
            copy.op = "Placeholder"
            copy.attr["dtype"].type = RESOURCE
    notes = [f"the signature {printable(chosen)} of the SavedModel was judged"]
    step = Step(kept, held, returned=returned, architecture="SavedModel", parameters=numbers, parameters_bytes=size)
    shapes = [one.tensor_shape for one in signature.inputs.values() if not one.tensor_shape.unknown_rank]
    if any(shape.dim and shape.dim[0].size < 0 for shape in shapes):
        step.batch_size = step.open_dimension = options.batch_size or BATCH["inference"]
        notes.append(f"the first dimension is open: {step.batch_size} was taken for it")
    elif options.batch_size is not None:
        raise UsageError("the SavedModel has a batch size of its own", "Leave --batch-size out.")
    if any(one.size < 0 for shape in shapes for one in shape.dim[1:]):
        notes.append("other dimensions are open: what is copied is counted without tensors of such shapes")
    step.notes = notes
    return step


def _needed(nodes: Iterable[Any], returned: Iterable[str]) -> set[str]:
    """The nodes that lead to ``returned``."""
    by_name = {node.name: node for node in nodes}
    waiting = [_node(text) for text in returned]
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in found or name not in by_name:
            continue
        found.add(name)
        waiting += map(_node, by_name[name].input)
    return found


def _node(text: str) -> str:
    return text.removeprefix("^").partition(":")[0]
