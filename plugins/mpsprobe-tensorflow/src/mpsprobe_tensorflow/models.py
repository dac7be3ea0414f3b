"""Keras models: what they are called with, and the step that Keras makes of them."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mpsprobe.errors import UsageError, WorkloadError
from mpsprobe.protocols import RunOptions
from mpsprobe.suggestions import an, printable
from mpsprobe_tensorflow import calling, tracing
from mpsprobe_tensorflow.placing import crossing
from mpsprobe_tensorflow.tracing import BATCH, Step
from mpsprobe_tensorflow.updates import Updates

OPTIMIZED, EAGER = "optimized", "eager"
NOT_HERE = {"lora": "--lora", "weights": "--weights", "trust_remote_code": "--trust-remote-code"}


def check(options: RunOptions, workload: str, *, foreign: bool = False) -> None:
    """Refuse what no workload of TensorFlow can honour.

    Args:
        foreign: it runs what others wrote, which the user has to trust.

    Raises:
        UsageError: an option of torch workloads alone.
    """
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
class Made:
    """What a workload built, ready to be traced or run.

    Attributes:
        model: a Keras model, or a function of TensorFlow.
        is_model: which of both.
        specs: what it is called with: a structure of ``tf.TensorSpec``; for a function a list of its arguments.
        inputs: the same as its program has it; ``None`` where that does not say it.
        opened: what was taken for a first dimension of a function that is open.
        notes: what was taken for what is open.
    """

    model: Any
    is_model: bool
    specs: Any
    inputs: Any = None
    opened: int | None = None
    notes: list[str] = field(default_factory=list)


def made_of(made: Any, options: RunOptions, workload: str) -> Made:
    """What a workload built: a Keras model, a function of TensorFlow, or one of them with its inputs.

    Raises:
        UsageError: the phase is not one that it has.
        WorkloadError: it is something else.
    """
    import keras
    import tensorflow as tf

    model, inputs = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    notes: list[str] = []
    if inputs is not None:
        _refuse_another_batch(calling.first_dimension(calling.given(inputs)), options.batch_size, workload)
    if isinstance(model, keras.Model):
        specs = calling.given(inputs) if inputs is not None else calling.asked(model, options, notes, workload)
        return Made(model, True, specs, inputs, notes=notes)
    if not (hasattr(model, "get_concrete_function") or isinstance(model, tf.types.experimental.ConcreteFunction)):
        shown = an(type(model).__name__) if model is not None else "nothing"
        raise WorkloadError(f"'{printable(workload)}' returned {shown}", calling.RETURNS)
    if options.phase == "training":
        hint = "Put the step, with its gradients, into the function, and leave --phase out."
        raise UsageError(f"'{printable(workload)}' is a function: it says itself what it runs", hint)
    if inputs is not None:
        found = calling.given(inputs)
        alone = not isinstance(found, (list, tuple))
        return Made(model, False, [found] if alone else found, [inputs] if alone else inputs)
    signature = getattr(model, "input_signature", None) or ()
    if not signature and hasattr(model, "structured_input_signature"):
        positional, named = model.structured_input_signature
        signature = [*positional, *named.values()]
    opened = None
    if any(one.shape.rank and one.shape[0] is None for one in tf.nest.flatten(signature)):
        opened = options.batch_size or BATCH[options.phase]
        notes.append(f"the first dimension is open: {opened} was taken for it")
    return Made(model, False, signature, opened=opened, notes=notes)


def _refuse_another_batch(there: int | None, asked: int | None, workload: str) -> None:
    if asked is not None and there is not None and there != asked:
        raise UsageError(
            f"'{printable(workload)}' brings inputs of {there} samples, not of {asked}",
            "Let its function take batch_size, or leave --batch-size out.",
        )


def step_of(made: Any, options: RunOptions, workload: str) -> Step:
    """The step of what a workload built, traced. Raises as ``made_of``, and ``WorkloadError`` where tracing fails."""
    found = made_of(made, options, workload)
    if not found.is_model:
        step = _function(found, workload)
    else:
        if options.phase == "training":
            step = _training(found.model, found.specs, workload, once=options.graph != OPTIMIZED)
        else:
            step = _inference(found.model, found.specs, workload)
    step.notes[:0] = found.notes
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


def ready_to_train(model: Any, specs: Any) -> tuple[Any, list[str]]:
    """Specs of the targets of ``model``, and notes. It is compiled, if it was not, and its optimizer built."""
    import tensorflow as tf

    notes = []
    outputs = calling.outputs(model, specs)
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
    return tf.nest.map_structure(lambda one: calling.target(one, sparse), outputs), notes


def _training(model: Any, specs: Any, workload: str, *, once: bool = True) -> Step:
    """The step of ``fit``: Keras' own ``train_step`` with the compiled loss, metrics and optimizer.

    Args:
        once: trace the update of variables that are alike once.
    """
    targets, notes = ready_to_train(model, specs)
    optimizer = model.optimizer

    def train(inputs: Any, wanted: Any) -> Any:
        return model.train_step((inputs, wanted))

    updates = Updates()
    with updates.once_for_each_kind(optimizer) if once else contextlib.nullcontext():
        concrete, held, resident = tracing.traced(train, [specs, targets], workload)
    step = _step(model, concrete, held, resident, specs)
    step.times = updates.times(concrete.graph)
    step.optimizer, step.optimizer_scope = type(optimizer).__name__, optimizer.name
    if compiled_by_xla(model):
        mark_compiled(step.graph)
    step.notes += notes
    return step


def _function(made: Made, workload: str) -> Step:
    function = made.model
    if hasattr(function, "get_concrete_function"):
        function, held, resident = tracing.traced(function, made.specs, workload)
    else:
        held, resident = tracing.captures(function.graph)
    compiled = bool(function.function_def.attr["_XlaMustCompile"].b)
    step = Step(function.graph.as_graph_def(add_shapes=True), held, resident, architecture="function")
    step.site = tracing.site_of(function.graph)
    step.returned = [one.name for one in function.graph.outputs]
    step.effects = [one.name for one in function.graph.control_outputs]
    step.parameters, step.parameters_bytes = parameters_of(function.variables)
    step.batch_size, step.open_dimension = made.opened or calling.first_dimension(made.specs), made.opened
    if compiled:
        mark_compiled(step.graph)
    return step


def trains_as_keras(model: Any) -> bool:
    """Whether its ``train_step`` is that of Keras, which forward pass, gradients and update can be taken from."""
    return str(type(model).train_step.__module__).startswith("keras.src.backend.")


def mark_compiled(graph: Any) -> None:
    """Mark each node as one to be compiled, as ``jit_compile=True`` marks a function."""
    for node in graph.node:
        node.attr["_XlaMustCompile"].b = True


def _step(model: Any, concrete: Any, held: dict[str, str], resident: list[str], specs: Any) -> Step:
    step = Step(concrete.graph.as_graph_def(add_shapes=True), held, resident, architecture=architecture(model))
    step.parameters, step.parameters_bytes = parameters_of(model.variables)
    step.batch_size = calling.first_dimension(specs)
    step.site = tracing.site_of(concrete.graph)
    step.returned = [one.name for one in concrete.graph.outputs]
    step.effects = [one.name for one in concrete.graph.control_outputs]
    return step


def architecture(model: Any) -> str:
    """The class of a model, or its name where the class says nothing."""
    kind = type(model).__name__
    return str(model.name) if kind in ("Functional", "Sequential") else kind


def _is_softmax(model: Any) -> bool:
    last = model.layers[-1] if getattr(model, "layers", None) else None
    activation = getattr(last, "activation", None)
    return getattr(activation, "__name__", "") == "softmax"


def compiled_by_xla(model: Any) -> bool:
    """Whether the model's program asks for it; by default Keras does not on a Mac with a GPU."""
    config = getattr(model, "_compile_config", None)
    return bool(config is not None and config.config.get("jit_compile") is True)


def parameters_of(variables: Sequence[Any]) -> tuple[int, int]:
    """How many numbers ``variables`` are, and their bytes."""
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
