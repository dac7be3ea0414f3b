"""Keras models: what they are called with, and the step that Keras makes of them."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from mpsprobe.errors import UsageError, WorkloadError
from mpsprobe.protocols import RunOptions
from mpsprobe.suggestions import an, in_short, printable
from mpsprobe_tensorflow import tracing
from mpsprobe_tensorflow.placing import crossing
from mpsprobe_tensorflow.tracing import BATCH, Step
from mpsprobe_tensorflow.updates import Updates

SIZE, LENGTH = 224, 128
"""Of dimensions that a model leaves open: of pictures, and of everything else."""
RETURNS = (
    "It should return a Keras model, a tf.function with an input_signature, or (model or function, inputs), "
    "with inputs a tensor, an array or a tf.TensorSpec, or a list, tuple or dict of them."
)
NOT_HERE = {"lora": "--lora", "weights": "--weights", "trust_remote_code": "--trust-remote-code"}


def check(options: RunOptions, workload: str) -> None:
    """Refuse what no workload of TensorFlow can honour.

    Raises:
        UsageError: an option of torch workloads alone.
    """
    shown = printable(workload)
    if options.phase not in BATCH:
        raise UsageError(f"'{shown}' has no --phase {options.phase}", f"There are: {', '.join(BATCH)}.")
    for name, flag in NOT_HERE.items():
        if getattr(options, name):
            raise UsageError(f"'{shown}' is a workload of TensorFlow: {flag} is for torch", "Leave it out.")
    if options.grad_accum != 1:
        hint = "Set gradient_accumulation_steps of the optimizer in a function of your own."
        raise UsageError(f"'{shown}' is a workload of TensorFlow: --grad-accum is for torch", hint)


def step_of(made: Any, options: RunOptions, workload: str) -> Step:
    """The step of what a workload built: a Keras model, a function of TensorFlow, or one of them with its inputs.

    Raises:
        UsageError: the phase is not one that it has.
        WorkloadError: it is something else, or cannot be traced.
    """
    import keras
    import tensorflow as tf

    model, inputs = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    notes: list[str] = []
    if isinstance(model, keras.Model):
        specs = _given(inputs) if inputs is not None else _asked(model, options, notes, workload)
        build = _training if options.phase == "training" else _inference
        step = build(model, specs, workload)
    elif hasattr(model, "get_concrete_function") or isinstance(model, tf.types.experimental.ConcreteFunction):
        if options.phase == "training":
            hint = "Put the step, with its gradients, into the function, and leave --phase out."
            raise UsageError(f"'{printable(workload)}' is a function: it says itself what it runs", hint)
        step = _function(model, inputs, options, notes, workload)
    else:
        shown = an(type(model).__name__) if model is not None else "nothing"
        raise WorkloadError(f"'{printable(workload)}' returned {shown}", RETURNS)
    step.notes[:0] = notes
    return step


def policy(options: RunOptions) -> contextlib.AbstractContextManager[None]:
    """Keras' dtype policy for ``options``, for as long as a model is built."""
    wanted = f"mixed_{options.autocast}" if options.autocast else options.dtype
    return _policy(wanted)


@contextlib.contextmanager
def _policy(name: str) -> Any:
    import keras

    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def _inference(model: Any, specs: Any, workload: str) -> Step:
    def forward(inputs: Any) -> Any:
        return model(inputs, training=False)

    concrete, held, resident = tracing.traced(forward, [specs], workload)
    return _step(model, concrete, held, resident, specs)


def _training(model: Any, specs: Any, workload: str) -> Step:
    """The step of ``fit``: Keras' own ``train_step`` with the compiled loss, metrics and optimizer."""
    import tensorflow as tf

    notes = []
    outputs = _outputs(model, specs)
    if not getattr(model, "compiled", False):
        dense = len(tf.nest.flatten(outputs)) == 1 and _is_softmax(model)
        loss = "categorical_crossentropy" if dense else "mean_squared_error"
        with tracing.variables_without_values():
            model.compile(optimizer="adam", loss=loss, jit_compile=False)
        notes.append(f"the model is not compiled: it is trained with Adam and {loss.replace('_', ' ')}")
    optimizer = model.optimizer
    with tracing.variables_without_values(), contextlib.suppress(AttributeError):
        if not optimizer.built:
            optimizer.build(model.trainable_variables)
    sparse = "sparse" in str(getattr(model, "loss", "")).lower()
    targets = tf.nest.map_structure(lambda one: _target(one, sparse), outputs)

    def train(inputs: Any, wanted: Any) -> Any:
        return model.train_step((inputs, wanted))

    updates = Updates()
    with updates.once_for_each_kind(optimizer):
        concrete, held, resident = tracing.traced(train, [specs, targets], workload)
    step = _step(model, concrete, held, resident, specs)
    step.times = updates.times(concrete.graph)
    step.optimizer, step.optimizer_scope = type(optimizer).__name__, optimizer.name
    if _compiled_by_xla(model):
        mark_compiled(step.graph)
    step.notes += notes
    return step


def _function(function: Any, inputs: Any, options: RunOptions, notes: list[str], workload: str) -> Step:
    import tensorflow as tf

    opened = None
    if inputs is None:
        signature = getattr(function, "input_signature", None) or ()
        if not signature and hasattr(function, "structured_input_signature"):
            positional, named = function.structured_input_signature
            signature = [*positional, *named.values()]
        specs: Sequence[Any] = signature
        if any(one.shape.rank and one.shape[0] is None for one in tf.nest.flatten(signature)):
            opened = options.batch_size or BATCH[options.phase]
            notes.append(f"the first dimension is open: {opened} was taken for it")
    else:
        given = _given(inputs)
        specs = given if isinstance(given, (list, tuple)) else [given]
    if hasattr(function, "get_concrete_function"):
        function, held, resident = tracing.traced(function, specs, workload)
    else:
        held, resident = tracing.captures(function.graph)
    compiled = bool(function.function_def.attr["_XlaMustCompile"].b)
    step = Step(function.graph.as_graph_def(add_shapes=True), held, resident, architecture="function")
    step.site = tracing.site_of(function.graph)
    step.returned = [one.name for one in function.graph.outputs]
    step.parameters, step.parameters_bytes = _size(function.variables)
    step.batch_size, step.open_dimension = opened or _first_dimension(specs), opened
    if compiled:
        mark_compiled(step.graph)
    return step


def mark_compiled(graph: Any) -> None:
    """Mark each node as one to be compiled, as ``jit_compile=True`` marks a function."""
    for node in graph.node:
        node.attr["_XlaMustCompile"].b = True


def _step(model: Any, concrete: Any, held: dict[str, str], resident: list[str], specs: Any) -> Step:
    step = Step(concrete.graph.as_graph_def(add_shapes=True), held, resident, architecture=type(model).__name__)
    if type(model).__name__ in ("Functional", "Sequential"):
        step.architecture = model.name
    step.parameters, step.parameters_bytes = _size(model.variables)
    step.batch_size = _first_dimension(specs)
    step.site = tracing.site_of(concrete.graph)
    step.returned = [one.name for one in concrete.graph.outputs]
    return step


def _asked(model: Any, options: RunOptions, notes: list[str], workload: str) -> Any:
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


def _given(inputs: Any) -> Any:
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
    batch = _first_dimension(specs)
    if known is not None and not any(None in one.shape[1:] for one in tf.nest.flatten(known)):
        return tf.nest.map_structure(lambda one: tf.TensorSpec((batch, *one.shape[1:]), one.dtype), known)
    symbols = tf.nest.map_structure(lambda one: keras.KerasTensor(tuple(one.shape), one.dtype.name), specs)
    return tf.nest.map_structure(_spec, model.compute_output_spec(symbols))


def _target(spec: Any, sparse: bool) -> Any:
    import tensorflow as tf

    return tf.TensorSpec(spec.shape[:-1], tf.int32) if sparse else tf.TensorSpec(spec.shape, tf.float32)


def _is_softmax(model: Any) -> bool:
    last = model.layers[-1] if getattr(model, "layers", None) else None
    activation = getattr(last, "activation", None)
    return getattr(activation, "__name__", "") == "softmax"


def _compiled_by_xla(model: Any) -> bool:
    """Whether the program asks for it; by default Keras does not on a Mac with a GPU."""
    config = getattr(model, "_compile_config", None)
    return bool(config is not None and config.config.get("jit_compile") is True)


def _size(variables: Sequence[Any]) -> tuple[int, int]:
    import tensorflow as tf

    numbers = size = 0
    for one in variables:
        count = tf.TensorShape(one.shape).num_elements() or 0
        numbers += count
        size += count * tf.as_dtype(one.dtype).size
    return numbers, size


def item_size(dtype: str) -> int:
    """Bytes of one number; 0 for what has no fixed size."""
    return crossing.BYTES.get(dtype, 0)


def _first_dimension(specs: Any) -> int | None:
    import tensorflow as tf

    first = next((one for one in tf.nest.flatten(specs) if isinstance(one, tf.TensorSpec)), None)
    return first.shape[0] if first is not None and first.shape.rank else None
