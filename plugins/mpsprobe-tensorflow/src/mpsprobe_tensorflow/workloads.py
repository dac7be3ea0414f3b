"""Workloads of TensorFlow: models of ``keras.applications``, folders with a SavedModel, and what a program hands over.

Of a SavedModel the graph is read, and nothing of it is run or unpickled: ``tf.saved_model.load`` restores Python
objects and variables, and the graph of a signature is in the protocol buffer.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from math import prod
from pathlib import Path
from typing import Any

from mpsprobe.errors import UnknownName, UsageError, WorkloadError
from mpsprobe.protocols import RunOptions
from mpsprobe.suggestions import in_short, printable
from mpsprobe_tensorflow import FRAMEWORK, SAVED_MODEL, SPACE, models, tracing
from mpsprobe_tensorflow.libraries import import_tensorflow
from mpsprobe_tensorflow.placing.crossing import BYTES
from mpsprobe_tensorflow.placing.kernels import dtype_name
from mpsprobe_tensorflow.tracing import BATCH, Step

IN_A_FILE = "To judge training, build it in a function, which may be named as path/to/file.py:function."
MOST_BYTES = 2**31 - 1
"""Of a protocol buffer."""
TRAIN = "A SavedModel holds functions, not how it is trained. Build the model in a file: path/to/file.py:function."
DAMAGED = "Save it again: model.export(folder) in Keras, or tf.saved_model.save(model, folder)."
TRUST = "If you trust who made it, say --trust-remote-code. 'mpsprobe coverage' reads it without running anything."
PREFERRED = "serving_default"
INTERNAL = "__saved_model_init_op"
RESOURCE = 20
"""``DT_RESOURCE`` of ``types.proto``."""


def applications(needed_by: str) -> dict[str, Callable[..., Any]]:
    """Every function of ``keras.applications`` that makes a model, by its name in snake case."""
    import_tensorflow(needed_by)
    import keras

    functions = inspect.getmembers(keras.applications, inspect.isfunction)
    return {snake_case(name): function for name, function in functions}


def snake_case(name: str) -> str:
    """``MobileNetV2`` as ``mobilenet_v2``, ``EfficientNetV2B0`` as ``efficientnet_v2_b0``: versions and sizes apart."""
    sizes = r"(?:XLarge|(?<!X)Large|Small|Base|Tiny|Mobile|[SML])$"
    return re.sub(rf"(?<=.)(?=V\d|ResNet|B\d|{sizes})", "_", name).lower()


class KerasWorkload:
    """One model of ``keras.applications`` with random weights that are never drawn."""

    framework = FRAMEWORK

    def __init__(self, name: str) -> None:
        self.name = name

    def build(self, options: RunOptions) -> Any:
        """The model, with variables that have no values."""
        models.check(options, self.name)
        if options.size != "real" or options.seq_len is not None:
            flag = "--size" if options.size != "real" else "--seq-len"
            raise UsageError(f"a model of Keras has no {flag}", "Leave it out, or build one in a function of your own.")
        make = self._function()
        with models.policy(options), tracing.variables_without_values():
            return make(weights=None)

    def describe(self) -> Mapping[str, Any]:
        make = self._function()
        return {"function": f"keras.applications.{make.__name__}", "documentation": inspect.getdoc(make) or ""}

    def _function(self) -> Callable[..., Any]:
        functions = applications(f"the workload '{self.name}'")
        # Other spellings are names too: ``efficientnetb0``, ``EfficientNetB0``.
        plain = {re.sub("[_-]", "", name): make for name, make in functions.items()}
        wanted = re.sub("[_-]", "", self.name.partition(":")[2]).lower()
        if wanted in plain:
            return plain[wanted]
        names = [f"{SPACE}:{name}" for name in functions]
        raise UnknownName("workload", self.name, names, "All of them: mpsprobe workloads list --keras")


def workload_of(model: object, inputs: object) -> GivenWorkload | None:
    """The workload of a Keras model or a function of TensorFlow, ``None`` for everything else."""
    keras = sys.modules.get("keras")
    is_model = keras is not None and isinstance(model, keras.Model)
    return GivenWorkload(model, inputs) if is_model or hasattr(model, "get_concrete_function") else None


class GivenWorkload:
    """A model as a program has it (``mpsprobe.coverage(model)``): it is traced, and not changed."""

    framework = FRAMEWORK

    def __init__(self, model: Any, inputs: Any) -> None:
        self.name = str(getattr(model, "name", None) or getattr(model, "__name__", None) or type(model).__name__)
        self._built = model if inputs is None else (model, inputs)

    def build(self, options: RunOptions) -> Any:
        """The model, with its inputs if the program has some; its training would make variables of its optimizer."""
        models.check(options, self.name)
        if options.phase == "training":
            raise UsageError("the training of a program's own model would change its optimizer", IN_A_FILE)
        return self._built

    def describe(self) -> Mapping[str, Any]:
        return {}


class SavedModelWorkload:
    """The signature ``serving_default`` of a SavedModel, or its first one."""

    framework = FRAMEWORK

    def __init__(self, name: str) -> None:
        self.name = name
        self.folder = Path(name).expanduser()
        self._shown = printable(name)
        self._kept: Any = None

    def build(self, options: RunOptions) -> Any:
        """Its graph as a step; where it is run, the signature's function."""
        models.check(options, self.name, foreign=True)
        if options.phase == "training":
            raise UsageError(f"'{self._shown}' cannot be trained", TRAIN)
        tensorflow = import_tensorflow(f"the workload '{self.name}'")
        graph, signatures = self._read()
        names = [name for name in signatures if name != INTERNAL]
        if not names:
            raise WorkloadError(f"'{self._shown}' has no signature, so nothing says what to run", DAMAGED)
        chosen = PREFERRED if PREFERRED in names else sorted(names)[0]
        if tracing.RUNS.get():
            return self._loaded(tensorflow, chosen, options)
        return _step(graph, signatures[chosen], chosen, options)

    def _loaded(self, tensorflow: Any, chosen: str, options: RunOptions) -> Any:
        """The signature as a function that can be run. Its operators may do what programs do, files included."""
        if not options.trust_remote_code:
            raise UsageError(f"'{self._shown}' is a program: its operators may read and write files", TRUST)
        try:
            self._kept = tensorflow.saved_model.load(str(self.folder))  # a function alone does not keep its variables
            return self._kept.signatures[chosen]
        except Exception as error:  # whatever a damaged or foreign folder raises
            raise WorkloadError(f"'{self._shown}' cannot be loaded: {in_short(error)}", DAMAGED) from error

    def describe(self) -> Mapping[str, Any]:
        return {"folder": str(self.folder)}

    def _read(self) -> tuple[Any, Mapping[str, Any]]:
        from google.protobuf.message import DecodeError
        from tensorflow.core.protobuf import saved_model_pb2

        path = self.folder / SAVED_MODEL
        try:
            if path.stat().st_size > MOST_BYTES:
                raise WorkloadError(f"{SAVED_MODEL} of '{self._shown}' is too large to be a protocol buffer", DAMAGED)
            saved = saved_model_pb2.SavedModel.FromString(path.read_bytes())
        except OSError as error:
            raise WorkloadError(f"{SAVED_MODEL} of '{self._shown}' cannot be read: {error.strerror}") from error
        except (DecodeError, RecursionError, ValueError) as error:
            raise WorkloadError(f"{SAVED_MODEL} of '{self._shown}' is damaged or no SavedModel", DAMAGED) from error
        graphs = sorted(saved.meta_graphs, key=lambda graph: "serve" not in graph.meta_info_def.tags)
        if not graphs:
            raise WorkloadError(f"'{self._shown}' has no graph", DAMAGED)
        return graphs[0].graph_def, graphs[0].signature_def


def _step(graph: Any, signature: Any, chosen: str, options: RunOptions) -> Step:
    """The part of the graph that the signature's outputs need."""
    returned = [output.name for output in signature.outputs.values() if output.name]
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
            dtype, shape = dtype_name(node.attr["dtype"].type), [size.size for size in node.attr["shape"].shape.dim]
            held[node.name] = dtype
            count = max(prod(shape), 0)
            numbers, size = numbers + count, size + count * BYTES.get(dtype, 0)
            copy.op = "Placeholder"
            copy.attr["dtype"].type = RESOURCE
    notes = [f"the signature {printable(chosen)} of the SavedModel was judged"]
    step = Step(kept, held, returned=returned, architecture="SavedModel", parameters=numbers, parameters_bytes=size)
    shapes = [spec.tensor_shape for spec in signature.inputs.values() if not spec.tensor_shape.unknown_rank]
    if any(shape.dim and shape.dim[0].size < 0 for shape in shapes):
        step.batch_size = step.open_dimension = options.batch_size or BATCH["inference"]
        notes.append(f"the first dimension is open: {step.batch_size} was taken for it")
    elif options.batch_size is not None:
        raise UsageError("the SavedModel has a batch size of its own", "Leave --batch-size out.")
    if any(size.size < 0 for shape in shapes for size in shape.dim[1:]):
        notes.append("other dimensions are open: what is copied is counted without tensors of such shapes")
    step.notes = notes
    return step


def _needed(nodes: Iterable[Any], returned: Iterable[str]) -> set[str]:
    """The nodes that lead to ``returned``."""
    by_name = {node.name: node for node in nodes}
    waiting = [*returned]
    needed: set[str] = set()
    while waiting:
        name = waiting.pop().removeprefix("^").partition(":")[0]
        if name not in needed and name in by_name:
            needed.add(name)
            waiting += by_name[name].input
    return needed
