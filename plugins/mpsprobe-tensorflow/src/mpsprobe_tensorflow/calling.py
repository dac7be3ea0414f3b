"""What models and functions are called with: as their programs say it, or as a size that is taken for what is open."""

from __future__ import annotations

from typing import Any

from mpsprobe.errors import WorkloadError
from mpsprobe.protocols import RunOptions
from mpsprobe.suggestions import in_short, printable
from mpsprobe_tensorflow.tracing import BATCH

SIZE, LENGTH = 224, 128
"""Of dimensions that a model leaves open: of pictures, and of everything else."""
RETURNS = (
    "It should return a Keras model, a tf.function with an input_signature, or (model or function, inputs), "
    "with inputs a tensor, an array or a tf.TensorSpec, or a list, tuple or dict of them."
)


def of_model(model: Any, options: RunOptions, notes: list[str], workload: str) -> Any:
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


def given(inputs: Any) -> Any:
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


def outputs(model: Any, specs: Any) -> Any:
    """What a model returns for its inputs, as specs. A functional model knows it, but for the batch."""
    import keras
    import tensorflow as tf

    known = getattr(model, "_outputs_struct", None)
    batch = first_dimension(specs)
    if known is not None and not any(None in one.shape[1:] for one in tf.nest.flatten(known)):
        return tf.nest.map_structure(lambda one: tf.TensorSpec((batch, *one.shape[1:]), one.dtype), known)
    symbols = tf.nest.map_structure(lambda one: keras.KerasTensor(tuple(one.shape), one.dtype.name), specs)
    return tf.nest.map_structure(_spec, model.compute_output_spec(symbols))


def target(spec: Any, sparse: bool) -> Any:
    """What a loss compares an output with: its like, or classes as whole numbers."""
    import tensorflow as tf

    return tf.TensorSpec(spec.shape[:-1], tf.int32) if sparse else tf.TensorSpec(spec.shape, tf.float32)


def first_dimension(specs: Any) -> int | None:
    """The samples in a step, by the first tensor; ``None`` where it has no dimensions."""
    import tensorflow as tf

    first = next((spec for spec in tf.nest.flatten(specs) if isinstance(spec, tf.TensorSpec)), None)
    return first.shape[0] if first is not None and first.shape.rank else None
