"""Keras models and functions of TensorFlow: what a workload built, and the step that is made of it."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mpsprobe.errors import UsageError, WorkloadError
from mpsprobe.protocols import RunOptions
from mpsprobe.schemas import WorkloadInfo
from mpsprobe.suggestions import an, in_short, printable
from mpsprobe_tensorflow import tracing
from mpsprobe_tensorflow.tracing import BATCH, Step

OPTIMIZED, EAGER = "optimized", "eager"
NOT_HERE = {"lora": "--lora", "weights": "--weights", "trust_remote_code": "--trust-remote-code"}
ALIKE = frozenset({
    "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "Ftrl", "Lamb", "Lion", "Nadam", "RMSprop", "SGD",
})  # fmt: skip
"""The optimizers of ``keras.optimizers`` whose ``update_step`` looks at nothing of a variable but shape and dtype."""

SIZE, LENGTH = 224, 128
"""Of dimensions that a model leaves open: of pictures, and of everything else."""
RETURNS = (
    "It should return a Keras model, a tf.function with an input_signature, or (model or function, inputs), "
    "with inputs a tensor, an array or a tf.TensorSpec, or a list, tuple or dict of them."
)


def check(options: RunOptions, workload: str, *, foreign: bool = False) -> None:
    """Refuse options of torch workloads alone; a ``foreign`` workload runs what others wrote, which needs trust."""
    shown = printable(workload)
    if options.phase not in BATCH:
        raise UsageError(f"'{shown}' has no --phase {options.phase}", f"There are: {', '.join(BATCH)}.")
    for name, flag in NOT_HERE.items():
        if getattr(options, name) and not (foreign and name == "trust_remote_code"):
            raise UsageError(f"'{shown}' is a workload of TensorFlow: {flag} is for torch", "Leave it out.")
    if options.grad_accum != 1:
        hint = "Set gradient_accumulation_steps of the optimizer in a function of your own."
        raise UsageError(f"'{shown}' is a workload of TensorFlow: --grad-accum is for torch", hint)


@dataclass
class Built:
    """What a workload built, ready to be traced or run."""

    model: Any  # a Keras model, or a function of TensorFlow
    is_model: bool
    specs: Any  # what it is called with, a structure of tf.TensorSpec; for a function a list of its arguments
    inputs: Any = None  # the same as its program has it; None where that does not say it
    opened: int | None = None  # what was taken for a first dimension of a function that is open
    notes: list[str] = field(default_factory=list)  # what was taken for what is open

    @property
    def architecture(self) -> str:
        """The class of a model, or its name where the class says nothing."""
        kind = type(self.model).__name__ if self.is_model else "function"
        return str(self.model.name) if kind in ("Functional", "Sequential") else kind

    @property
    def batch_size(self) -> int | None:
        return self.opened or first_dimension(self.specs)


def built_of(result: Any, options: RunOptions, workload: str) -> Built:
    """What a workload built: a Keras model, a function of TensorFlow, or one of them with its inputs."""
    import keras
    import tensorflow as tf

    model, inputs = result if isinstance(result, tuple) and len(result) == 2 else (result, None)
    notes: list[str] = []
    given = None if inputs is None else specs_of(inputs)
    there = first_dimension(given)
    if None not in (there, options.batch_size) and there != options.batch_size:
        hint = "Let its function take batch_size, or leave --batch-size out."
        message = f"'{printable(workload)}' brings inputs of {there} samples, not of {options.batch_size}"
        raise UsageError(message, hint)
    if isinstance(model, keras.Model):
        specs = given if inputs is not None else specs_of_model(model, options, notes, workload)
        return Built(model, True, specs, inputs, notes=notes)
    if not (hasattr(model, "get_concrete_function") or isinstance(model, tf.types.experimental.ConcreteFunction)):
        shown = an(type(model).__name__) if model is not None else "nothing"
        raise WorkloadError(f"'{printable(workload)}' returned {shown}", RETURNS)
    if options.phase == "training":
        hint = "Put the step, with its gradients, into the function, and leave --phase out."
        raise UsageError(f"'{printable(workload)}' is a function: it says itself what it runs", hint)
    if inputs is not None:
        alone = not isinstance(given, (list, tuple))
        return Built(model, False, [given] if alone else given, [inputs] if alone else inputs)
    signature = getattr(model, "input_signature", None) or ()
    if not signature and hasattr(model, "structured_input_signature"):
        positional, named = model.structured_input_signature
        signature = [*positional, *named.values()]
    opened = None
    if any(spec.shape.rank and spec.shape[0] is None for spec in tf.nest.flatten(signature)):
        opened = options.batch_size or BATCH[options.phase]
        notes.append(f"the first dimension is open: {opened} was taken for it")
    return Built(model, False, signature, opened=opened, notes=notes)


def step_of(result: Any, options: RunOptions, workload: str) -> Step:
    """The step of what a workload built, traced."""
    built = built_of(result, options, workload)
    model = built.model
    if not built.is_model:
        step = _function(built, workload)
    elif options.phase == "training":
        step = _training(built, workload, once=options.graph != OPTIMIZED)
    else:
        concrete, held, resident = tracing.traced(lambda inputs: model(inputs, training=False), [built.specs], workload)
        step = _of_graph(built, concrete.graph, held, resident)
    step.notes[:0] = built.notes
    return step


@contextlib.contextmanager
def policy(options: RunOptions) -> Iterator[None]:
    """Keras' dtype policy for ``options``, for as long as a model is built."""
    import keras

    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(f"mixed_{options.autocast}" if options.autocast else options.dtype)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def ready_to_train(model: Any, specs: Any) -> tuple[Any, list[str]]:
    """Specs of the targets of ``model``, and notes. It is compiled, if it was not, and its optimizer built."""
    import tensorflow as tf

    notes = []
    expected = _outputs(model, specs)
    if not getattr(model, "compiled", False):
        last = model.layers[-1] if getattr(model, "layers", None) else None
        is_softmax = getattr(getattr(last, "activation", None), "__name__", "") == "softmax"
        is_classifier = is_softmax and len(tf.nest.flatten(expected)) == 1
        loss = "categorical_crossentropy" if is_classifier else "mean_squared_error"
        with tracing.variables_without_values():
            model.compile(optimizer="adam", loss=loss, jit_compile=False)
        notes.append(f"the model is not compiled: it is trained with Adam and {loss.replace('_', ' ')}")
    optimizer = model.optimizer
    with tracing.variables_without_values(), contextlib.suppress(AttributeError):
        if not optimizer.built:
            optimizer.build(model.trainable_variables)
    if "sparse" in str(getattr(model, "loss", "")).lower():  # it compares outputs with classes as whole numbers
        return tf.nest.map_structure(lambda spec: tf.TensorSpec(spec.shape[:-1], tf.int32), expected), notes
    return tf.nest.map_structure(lambda spec: tf.TensorSpec(spec.shape, tf.float32), expected), notes


class _Updates:
    """The optimizer's part of a training step, traced once for all variables that it updates in the same way.

    It is half of the operations of a step. Keras' optimizers do the same for each variable; its shape and dtype alone
    differ.
    """

    def __init__(self) -> None:
        self._kinds: dict[object, tuple[int, int]] = {}
        self._counts: Counter[object] = Counter()

    def times(self, graph: Any) -> dict[str, int]:
        """Name of a node of ``graph`` → how often the step has it, where that is more than once."""
        operations = graph.get_operations()
        return {
            operation.name: self._counts[kind]
            for kind, (first, last) in self._kinds.items()
            if self._counts[kind] > 1
            for operation in operations[first:last]
        }

    @contextlib.contextmanager
    def once_for_each_kind(self, optimizer: Any) -> Iterator[None]:
        """``optimizer`` updates the first variable of each shape and dtype only; one that is not ``ALIKE`` all."""
        import tensorflow as tf

        kind = type(optimizer)
        if kind.__name__ not in ALIKE or not kind.__module__.startswith("keras.src.optimizers."):
            yield
            return
        original = optimizer.update_step

        def update_step(gradient: Any, variable: Any, learning_rate: Any) -> Any:
            key = (type(gradient), tuple(variable.shape), variable.dtype)
            self._counts[key] += 1
            if key in self._kinds:
                return None
            graph = tf.compat.v1.get_default_graph()
            first = len(graph.get_operations())
            update = original(gradient, variable, learning_rate)
            self._kinds[key] = first, len(graph.get_operations())
            return update

        optimizer.update_step = update_step
        try:
            yield
        finally:
            del optimizer.update_step


def _training(built: Built, workload: str, *, once: bool) -> Step:
    """The step of ``fit``: Keras' own ``train_step`` with the compiled loss, metrics and optimizer.

    With ``once``, the update of variables that are alike is traced once.
    """
    model = built.model
    targets, notes = ready_to_train(model, built.specs)
    optimizer = model.optimizer
    updates = _Updates()
    with updates.once_for_each_kind(optimizer) if once else contextlib.nullcontext():
        specs = [built.specs, targets]
        concrete, held, resident = tracing.traced(
            lambda inputs, wanted: model.train_step((inputs, wanted)), specs, workload
        )
    step = _of_graph(built, concrete.graph, held, resident)
    step.times = updates.times(concrete.graph)
    step.optimizer, step.optimizer_scope = type(optimizer).__name__, optimizer.name
    if compiled_by_xla(model):
        _mark_compiled(step.graph)
    step.notes += notes
    return step


def _function(built: Built, workload: str) -> Step:
    function = built.model
    if hasattr(function, "get_concrete_function"):
        function, held, resident = tracing.traced(function, built.specs, workload)
    else:
        held, resident = tracing.captures(function.graph)
    step = _of_graph(replace(built, model=function), function.graph, held, resident)
    if function.function_def.attr["_XlaMustCompile"].b:
        _mark_compiled(step.graph)
    return step


def _mark_compiled(graph: Any) -> None:
    """Mark each node as one to be compiled, as ``jit_compile=True`` marks a function."""
    for node in graph.node:
        node.attr["_XlaMustCompile"].b = True


def _of_graph(built: Built, graph: Any, held: dict[str, str], resident: list[str]) -> Step:
    parameters, parameters_bytes = parameters_of(built.model.variables)
    return Step(
        graph.as_graph_def(add_shapes=True),
        held,
        resident,
        returned=[output.name for output in graph.outputs],
        effects=[operation.name for operation in graph.control_outputs],
        architecture=built.architecture,
        parameters=parameters,
        parameters_bytes=parameters_bytes,
        batch_size=built.batch_size,
        open_dimension=built.opened,
        site=tracing.site_of(graph),
    )


def compiled_by_xla(model: Any) -> bool:
    """Whether the model's program asks for it; by default Keras does not on a Mac with a GPU."""
    config = getattr(model, "_compile_config", None)
    return bool(config is not None and config.config.get("jit_compile") is True)


def parameters_of(variables: Sequence[Any]) -> tuple[int, int]:
    """How many numbers ``variables`` are, and their bytes."""
    import tensorflow as tf

    numbers = size = 0
    for variable in variables:
        count = tf.TensorShape(variable.shape).num_elements() or 0
        numbers += count
        size += count * tf.as_dtype(variable.dtype).size
    return numbers, size


def info(workload: str, options: RunOptions, **fields: Any) -> WorkloadInfo:
    """What reports say about a workload, with ``fields``."""
    return WorkloadInfo(
        name=workload,
        phase="training" if options.phase == "training" else "inference",
        dtype=options.dtype,
        autocast=options.autocast,
        **fields,
    )


def specs_of_model(model: Any, options: RunOptions, notes: list[str], workload: str) -> Any:
    """What a model says that it is called with."""
    import tensorflow as tf

    inputs = getattr(model, "_inputs_struct", None)
    inputs = getattr(model, "inputs", None) if inputs is None else inputs
    if inputs is None:
        shown = printable(workload)
        raise WorkloadError(f"'{shown}' is a model that does not say what it is called with", RETURNS)
    if isinstance(inputs, list) and len(inputs) == 1:
        inputs = inputs[0]
    return tf.nest.map_structure(lambda one: _sized(_spec(one), options, notes), inputs)


def _sized(spec: Any, options: RunOptions, notes: list[str]) -> Any:
    """A spec without open dimensions."""
    import tensorflow as tf

    if spec.shape.rank is None:
        notes.append(f"the input {spec.name or ''} may have any rank: it was taken for a scalar".replace("  ", " "))
        return tf.TensorSpec((), spec.dtype, spec.name)
    batch = options.batch_size or BATCH[options.phase]
    shape = list(spec.shape)
    for index, size in enumerate(shape):
        if size is None and index:
            shape[index] = SIZE if len(shape) == 4 else options.seq_len or LENGTH
            notes.append(f"dimension {index} of the input {spec.name or ''} is open: {shape[index]} was taken for it")
    if shape and (shape[0] is None or options.batch_size):
        shape[0] = batch
    return tf.TensorSpec(shape, spec.dtype, spec.name)


def closed(specs: Any, first: int | None) -> Any:
    """Specs without open dimensions: ``first`` for the first one, ``LENGTH`` for others."""
    import tensorflow as tf

    def sized(spec: Any) -> Any:
        sizes = spec.shape.as_list() if spec.shape.rank is not None else []
        sizes = [size or (first if index == 0 and first else LENGTH) for index, size in enumerate(sizes)]
        return tf.TensorSpec(sizes, spec.dtype, spec.name)

    return tf.nest.map_structure(sized, specs)


def specs_of(inputs: Any) -> Any:
    """The specs of what a program calls a model with."""
    import tensorflow as tf

    try:
        return tf.nest.map_structure(_spec, inputs)
    except Exception as error:
        raise WorkloadError(f"the inputs are no tensors: {in_short(error)}", RETURNS) from error


def _spec(value: Any) -> Any:
    import numpy
    import tensorflow as tf

    if isinstance(value, tf.TensorSpec):
        return value
    if not hasattr(value, "shape") or not hasattr(value, "dtype"):
        value = numpy.asarray(value)
    name = getattr(value, "name", None) if not isinstance(value, tf.Tensor) else None
    return tf.TensorSpec(tuple(value.shape), tf.as_dtype(getattr(value.dtype, "name", value.dtype)), name)


def _outputs(model: Any, specs: Any) -> Any:
    """What a model returns for its inputs, as specs. A functional model knows it, but for the batch."""
    import keras
    import tensorflow as tf

    known = getattr(model, "_outputs_struct", None)
    batch = first_dimension(specs)
    if known is not None and not any(None in spec.shape[1:] for spec in tf.nest.flatten(known)):
        return tf.nest.map_structure(lambda spec: tf.TensorSpec((batch, *spec.shape[1:]), spec.dtype), known)
    symbols = tf.nest.map_structure(lambda spec: keras.KerasTensor(tuple(spec.shape), spec.dtype.name), specs)
    return tf.nest.map_structure(_spec, model.compute_output_spec(symbols))


def first_dimension(specs: Any) -> int | None:
    """The samples in a step, by the first tensor; ``None`` where it has no dimensions."""
    import tensorflow as tf

    first = next((spec for spec in tf.nest.flatten(specs) if isinstance(spec, tf.TensorSpec)), None)
    return first.shape[0] if first is not None and first.shape.rank else None
