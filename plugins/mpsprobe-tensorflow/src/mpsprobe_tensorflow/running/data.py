"""What a workload is run with where its program gives shapes alone: random numbers, the same each time."""

from __future__ import annotations

from typing import Any

SEED = 0
CLASSES = 2
"""Whole numbers are below it: they are often indices of tables whose size nobody says."""


def values(specs: Any) -> Any:
    """A tensor for each ``tf.TensorSpec`` in ``specs``."""
    import numpy
    import tensorflow as tf

    generator = numpy.random.default_rng(SEED)

    def value(spec: Any) -> Any:
        shape, dtype = spec.shape.as_list(), spec.dtype
        if dtype.is_floating or dtype.is_complex:
            return tf.cast(tf.constant(generator.standard_normal(shape, numpy.float32)), dtype)
        if dtype.is_integer or dtype.is_bool:
            return tf.cast(tf.constant(generator.integers(CLASSES, size=shape)), dtype)
        return tf.zeros(shape, dtype)

    return tf.nest.map_structure(value, specs)


def targets(specs: Any) -> Any:
    """What a loss compares outputs with: probabilities, or the first classes."""
    import tensorflow as tf

    def likely(value: Any) -> Any:
        return tf.nn.softmax(value) if value.dtype.is_floating and value.shape.rank else value

    return tf.nest.map_structure(likely, values(specs))
