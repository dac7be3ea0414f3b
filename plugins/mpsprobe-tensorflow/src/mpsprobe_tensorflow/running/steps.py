"""One step of a workload of TensorFlow: a function that it traces once, called again and again."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from mpsprobe.errors import UsageError
from mpsprobe.protocols import RunOptions, Workload
from mpsprobe.schemas import WorkloadInfo
from mpsprobe_tensorflow import calling, models
from mpsprobe_tensorflow.models import Made

if TYPE_CHECKING:
    from mpsprobe_tensorflow.running.devices import TensorflowDevice

SEED = 0
CLASSES = 2
"""Whole numbers are below it: they are often indices of tables whose size nobody says."""
PLAIN = "the step is a tf.function without XLA; fit() of Keras compiles by XLA where it can, as --compile does"


class TensorflowSteps:
    """Satisfies ``mpsprobe.protocols.Steps``; where it is ``compiled``, by XLA (``jit_compile=True``)."""

    def __init__(self, workload: Workload, options: RunOptions, device: TensorflowDevice, *, compiled: bool) -> None:
        import tensorflow as tf

        self.model: Any = None  # no torch.nn.Module, which probes would look into
        self._device = device
        made = models.made_of(workload.build(options), options, workload.name)
        self._kept: Any = made.model
        notes = list(made.notes)
        self._phases: Callable[[], Mapping[str, int]] = self._one_phase
        compiled = compiled or (made.is_model and options.phase == "training" and models.compiled_by_xla(made.model))
        if not made.is_model:
            self._arguments = list(_inputs(made))
            self._call = _function(made.model, compiled=compiled)
        elif options.phase == "training":
            targets, trained = models.ready_to_train(made.model, made.specs)
            notes += trained
            self._arguments = [_inputs(made), tf.nest.map_structure(_likely, _values(targets))]
            self._call = tf.function(lambda x, y: made.model.train_step((x, y)), autograph=False, jit_compile=compiled)
            if models.trains_as_keras(made.model):
                self._phases = _Phases(made.model, self._arguments, device, compiled=compiled)
        else:
            self._arguments = [_inputs(made)]
            self._call = tf.function(lambda x: made.model(x, training=False), autograph=False, jit_compile=compiled)
        notes += [] if compiled or not made.is_model else [PLAIN]
        self.info = _info(workload.name, made, options, notes)

    def step(self) -> None:
        """One whole step. What it returns is fetched when the device is synchronised."""
        import tensorflow as tf

        with self._device.scope():
            found = self._call(*self._arguments)
        self._device.wait_for([one for one in tf.nest.flatten(found) if tf.is_tensor(one)])

    def phases(self) -> Mapping[str, int]:
        """One whole step, synchronised after each phase: ns by phase. Only Keras' own ``train_step`` has several."""
        with self._device.scope():
            return self._phases()

    def close(self) -> None:
        """Forget the model and its step, and what Keras keeps of them."""
        import keras

        if self._kept is not None:
            self._kept, self._arguments, self._call, self._phases = None, [], lambda *_: None, dict
            self._device.wait_for(())
            keras.backend.clear_session(free_memory=True)

    def _one_phase(self) -> Mapping[str, int]:
        self._device.synchronize()
        started = time.perf_counter_ns()
        self.step()
        self._device.synchronize()
        return {"forward": time.perf_counter_ns() - started}


class _Phases:
    """A training step in three parts, which ``train_step`` of Keras does in one function.

    A function that is called under a tape outside of it keeps what its gradients need, and the tape calls those.
    """

    def __init__(self, model: Any, arguments: list[Any], device: TensorflowDevice, *, compiled: bool) -> None:
        import tensorflow as tf

        def forward(x: Any, y: Any) -> Any:
            outputs = model(x, training=True)
            return model.optimizer.scale_loss(model.compute_loss(x=x, y=y, y_pred=outputs, training=True))

        def update(gradients: Any) -> Any:
            model.optimizer.apply(gradients, model.trainable_variables)
            return model.optimizer.iterations.value

        self._arguments, self._device = arguments, device
        self._variables = [one.value for one in model.trainable_variables]
        self._forward = tf.function(forward, autograph=False, jit_compile=compiled)
        self._update = tf.function(update, autograph=False, jit_compile=compiled)

    def __call__(self) -> Mapping[str, int]:
        import tensorflow as tf

        spent: dict[str, int] = {}

        def timed(name: str, part: Callable[[], Any]) -> Any:
            started = time.perf_counter_ns()
            found = part()
            self._device.wait_for([tf.convert_to_tensor(one) for one in tf.nest.flatten(found) if one is not None][-1:])
            self._device.synchronize()
            spent[name] = time.perf_counter_ns() - started
            return found

        self._device.synchronize()
        with tf.GradientTape() as tape:
            loss = timed("forward", lambda: self._forward(*self._arguments))
        gradients = timed("backward", lambda: tape.gradient(loss, self._variables))
        timed("optimizer", lambda: self._update(gradients))
        return spent


def _inputs(made: Made) -> Any:
    """What the program gave, as tensors; random numbers where it gave shapes."""
    import tensorflow as tf

    if made.inputs is None or any(isinstance(one, tf.TensorSpec) for one in tf.nest.flatten(made.inputs)):
        return _values(calling.closed(made.specs, made.opened))
    return tf.nest.map_structure(lambda one, spec: tf.cast(one, spec.dtype), made.inputs, made.specs)


def _values(specs: Any) -> Any:
    """Random numbers for each ``tf.TensorSpec`` in ``specs``, the same each time."""
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


def _likely(value: Any) -> Any:
    """What a loss compares outputs with: probabilities, or the first classes."""
    import tensorflow as tf

    return tf.nn.softmax(value) if value.dtype.is_floating and value.shape.rank else value


def _function(function: Any, *, compiled: bool) -> Callable[..., Any]:
    """A function of a program, compiled by XLA if that is asked for."""
    import tensorflow as tf

    if not compiled:
        # Of a signature, which takes arguments by their names alone.
        named: dict[str, Any] = getattr(function, "structured_input_signature", ((), {}))[1]
        return (lambda *found: function(**dict(zip(named, found, strict=True)))) if named else function
    if not hasattr(function, "python_function"):
        raise UsageError("--compile needs a tf.function, and this one was traced already", "Leave --compile out.")
    return tf.function(function.python_function, jit_compile=True)  # type: ignore[no-any-return]


def _info(name: str, made: Made, options: RunOptions, notes: list[str]) -> WorkloadInfo:
    model = made.model
    training = options.phase == "training"
    count, _ = models.parameters_of(model.variables if hasattr(model, "variables") else ())
    trained, _ = models.parameters_of(model.trainable_variables) if training else (count, 0)
    return WorkloadInfo(
        name=name,
        architecture=models.architecture(model) if made.is_model else "function",
        phase="training" if training else "inference",
        dtype=options.dtype,
        parameters=count,
        batch_size=made.opened or calling.first_dimension(made.specs),
        autocast=options.autocast,
        optimizer=type(model.optimizer).__name__ if training else None,
        trained=None if trained == count else trained,
        notes=notes,
    )
