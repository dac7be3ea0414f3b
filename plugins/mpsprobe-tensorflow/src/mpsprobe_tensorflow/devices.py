"""The CPU, an NVIDIA GPU and Apple's GPU, as TensorFlow has them, and steps of workloads on them.

A step is a function that TensorFlow traces once, called again and again.
"""

from __future__ import annotations

import contextlib
import platform
import time
from collections.abc import Callable, Mapping
from typing import Any

import psutil

from mpsprobe.errors import UsageError, WorkloadError
from mpsprobe.protocols import RunOptions, Workload
from mpsprobe.schemas import DeviceInfo
from mpsprobe_devices.machine import Memory, processor_name
from mpsprobe_tensorflow import FRAMEWORK, models, tracing
from mpsprobe_tensorflow.libraries import import_tensorflow, took_part
from mpsprobe_tensorflow.tables import table

GPU = "GPU:0"
NEEDED_BY = "profiling workloads of TensorFlow"
UNCHECKED = "the makers of mpsprobe have no such device: nobody has checked what it measures here"
SEED = 0
CLASSES = 2
"""Whole numbers are below it: they are often indices of tables whose size nobody says."""
PLAIN = "the step is a tf.function without XLA; fit() of Keras compiles by XLA where it can, as --compile does"


class TensorflowDevice:
    """A ``mpsprobe.protocols.Device`` of TensorFlow; it has no clock of its own that a program can read."""

    name: str
    framework = FRAMEWORK  # for probes that see operators of torch alone

    def __init__(self) -> None:
        self._waited_for: Any = ()

    def environment(self) -> Mapping[str, str | None]:
        return took_part(NEEDED_BY)

    def scope(self) -> contextlib.AbstractContextManager[Any]:
        """Inside, TensorFlow makes variables and traces functions for this device; a GPU is what it prefers anyway."""
        return contextlib.nullcontext()

    def wait_for(self, results: Any) -> None:
        """What ``synchronize`` fetches: tensors that are there when everything that was asked is done."""
        self._waited_for = results

    def synchronize(self) -> None:
        """Fetch what the last step returned: nothing is there before it is computed."""
        results, self._waited_for = self._waited_for, ()
        for result in results:
            result.numpy()

    def is_out_of_memory(self, error: BaseException) -> bool:
        """Whether ``error`` says that there is no more memory."""
        texts = ("out of memory", "oom when allocating")
        named = type(error).__name__ == "ResourceExhaustedError"
        return named or isinstance(error, MemoryError) or any(text in str(error).lower() for text in texts)

    def open(self, workload: Workload, options: RunOptions, *, compiled: bool = False) -> TensorflowSteps:
        """Build ``workload``, with values, and make its step. Raises as ``Device.open``."""
        import_tensorflow(f"the workload '{workload.name}'")
        if workload.framework != FRAMEWORK:
            raise WorkloadError(f"'{workload.name}' is a workload of {workload.framework}, not of TensorFlow")
        with self.scope(), tracing.with_values():
            return TensorflowSteps(workload, options, self, compiled=compiled)


class CpuDevice(TensorflowDevice):
    """The processor."""

    name = "cpu"

    def unavailable(self) -> str | None:
        """None: it is always there, where TensorFlow is installed."""
        import_tensorflow(NEEDED_BY)
        return None

    def describe(self) -> DeviceInfo:
        tensorflow = import_tensorflow(NEEDED_BY)
        threads = tensorflow.config.threading
        facts = {
            "tensorflow": tensorflow.__version__,
            "threads within an operation": str(threads.get_intra_op_parallelism_threads() or "all"),
            "operations at a time": str(threads.get_inter_op_parallelism_threads() or "all"),
        }
        memory = psutil.virtual_memory().total
        return DeviceInfo(type=self.name, name=processor_name(), memory_bytes=memory, capabilities=facts)

    def scope(self) -> contextlib.AbstractContextManager[Any]:
        """Nothing goes to a GPU, also where there is one."""
        import tensorflow as tf

        return tf.device("/CPU:0")  # type: ignore[no-any-return]


class GpuDevice(TensorflowDevice):
    """What the GPUs of TensorFlow share: the first one is taken, and its allocator counts."""

    def memory(self) -> Memory:
        """What tensors hold now."""
        return Memory(self._counted()["current"], None)

    def reset_peak(self) -> bool:
        """Begin a new measurement of the peak; False where the allocator keeps none."""
        import tensorflow as tf

        try:
            tf.config.experimental.reset_memory_stats(GPU)
        except (ValueError, RuntimeError):  # a plugin's allocator need not count
            return False
        return True

    def peak(self) -> Memory:
        """The largest value since ``reset_peak``."""
        return Memory(self._counted()["peak"], None)

    def _counted(self) -> Mapping[str, int]:
        import tensorflow as tf

        return tf.config.experimental.get_memory_info(GPU)  # type: ignore[no-any-return]


class CudaDevice(GpuDevice):
    """An NVIDIA GPU, or an AMD one with ROCm."""

    name = "cuda"

    def unavailable(self) -> str | None:
        tensorflow = import_tensorflow(NEEDED_BY)
        built = tensorflow.test.is_built_with_cuda() or tensorflow.test.is_built_with_rocm()
        if not built:
            return f"tensorflow {tensorflow.__version__} was built without CUDA"
        return None if tensorflow.config.list_physical_devices("GPU") else "tensorflow sees no GPU"

    def describe(self) -> DeviceInfo:
        import tensorflow as tf

        details = tf.config.experimental.get_device_details(tf.config.list_physical_devices("GPU")[0])
        built = tf.sysconfig.get_build_info()
        facts = {"tensorflow": tf.__version__}
        facts |= {name: str(built[f"{name}_version"]) for name in ("cuda", "cudnn") if f"{name}_version" in built}
        if "compute_capability" in details:
            facts["compute_capability"] = ".".join(map(str, details["compute_capability"]))
        return DeviceInfo(type=self.name, name=str(details.get("device_name", "GPU")), capabilities=facts)

    def synchronize(self) -> None:
        """Fetch what the last step returned, and wait for the stream."""
        import tensorflow as tf

        super().synchronize()
        tf.test.experimental.sync_devices()


class MetalDevice(GpuDevice):
    """Apple's GPU, by its plugin.

    TensorFlow's ``SyncDevice`` does nothing on the device of a plugin (``core/kernels/sync_ops.cc`` waits for a stream
    in builds for CUDA and ROCm alone), so what a step returned is fetched, and nothing else says that it is done.
    """

    name = "metal"

    def unavailable(self) -> str | None:
        """Why there is no usable GPU: no Mac, no plugin, or one that brings no device."""
        if platform.system() != "Darwin":
            return f"{table.PLUGIN} needs a Mac"
        tensorflow = import_tensorflow(NEEDED_BY)
        if tensorflow.config.list_physical_devices("GPU"):
            return None
        return f"tensorflow sees no GPU: is {table.PLUGIN} installed ('mpsprobe doctor' says which one fits)?"

    def describe(self) -> DeviceInfo:
        import tensorflow as tf

        facts = {"tensorflow": tf.__version__, "macos": platform.mac_ver()[0]}
        if (plugin := table.installed()) is not None:
            facts[table.PLUGIN] = plugin
        name = f"{processor_name()} GPU"
        return DeviceInfo(type=self.name, name=name, capabilities=facts, caveats=[UNCHECKED])


class TensorflowSteps:
    """Satisfies ``mpsprobe.protocols.Steps``; where it is ``compiled``, by XLA (``jit_compile=True``)."""

    def __init__(self, workload: Workload, options: RunOptions, device: TensorflowDevice, *, compiled: bool) -> None:
        import tensorflow as tf

        self.model: Any = None  # no torch.nn.Module, which probes would look into
        self._device = device
        built = models.built_of(workload.build(options), options, workload.name)
        self._kept: Any = built.model
        notes = list(built.notes)
        self._phases: Callable[[], Mapping[str, int]] = self._one_phase
        compiled = compiled or (built.is_model and options.phase == "training" and models.compiled_by_xla(built.model))
        if not built.is_model:
            self._arguments = list(_inputs(built))
            self._call = _function(built.model, compiled=compiled)
        elif options.phase == "training":
            targets, of_training = models.ready_to_train(built.model, built.specs)
            notes += of_training
            # A loss compares outputs with probabilities, or with the first classes.
            likely = tf.nest.map_structure(
                lambda tensor: tf.nn.softmax(tensor) if tensor.dtype.is_floating and tensor.shape.rank else tensor,
                _values(targets),
            )
            self._arguments = [_inputs(built), likely]
            self._call = tf.function(lambda x, y: built.model.train_step((x, y)), autograph=False, jit_compile=compiled)
            if str(type(built.model).train_step.__module__).startswith("keras.src.backend."):  # Keras' own
                self._phases = _in_phases(built.model, self._arguments, device, compiled=compiled)
        else:
            self._arguments = [_inputs(built)]
            self._call = tf.function(lambda x: built.model(x, training=False), autograph=False, jit_compile=compiled)
        notes += [] if compiled or not built.is_model else [PLAIN]
        variables = getattr(built.model, "variables", ())
        training = options.phase == "training"
        parameters, _ = models.parameters_of(variables)
        trained, _ = models.parameters_of(built.model.trainable_variables if training else variables)
        self.info = models.info(
            workload.name,
            options,
            architecture=built.architecture,
            parameters=parameters,
            batch_size=built.batch_size,
            optimizer=type(built.model.optimizer).__name__ if training else None,
            trained=None if trained == parameters else trained,
            notes=notes,
        )

    def step(self) -> None:
        """One whole step. What it returns is fetched when the device is synchronised."""
        import tensorflow as tf

        with self._device.scope():
            results = self._call(*self._arguments)
        self._device.wait_for([tensor for tensor in tf.nest.flatten(results) if tf.is_tensor(tensor)])

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


def _in_phases(
    model: Any, arguments: list[Any], device: TensorflowDevice, *, compiled: bool
) -> Callable[[], Mapping[str, int]]:
    """Runs and times a training step in three parts, which ``train_step`` of Keras does in one function.

    A function that is called under a tape outside of it keeps what its gradients need, and the tape calls those.
    """
    import tensorflow as tf

    def loss_of(x: Any, y: Any) -> Any:
        outputs = model(x, training=True)
        return model.optimizer.scale_loss(model.compute_loss(x=x, y=y, y_pred=outputs, training=True))

    def apply(gradients: Any) -> Any:
        model.optimizer.apply(gradients, model.trainable_variables)
        return model.optimizer.iterations.value

    variables = [variable.value for variable in model.trainable_variables]
    forward = tf.function(loss_of, autograph=False, jit_compile=compiled)
    update = tf.function(apply, autograph=False, jit_compile=compiled)

    def phases() -> Mapping[str, int]:
        spent: dict[str, int] = {}

        def timed(name: str, part: Callable[[], Any]) -> Any:
            started = time.perf_counter_ns()
            results = part()
            tensors = [tf.convert_to_tensor(tensor) for tensor in tf.nest.flatten(results) if tensor is not None]
            device.wait_for(tensors[-1:])
            device.synchronize()
            spent[name] = time.perf_counter_ns() - started
            return results

        device.synchronize()
        with tf.GradientTape() as tape:
            loss = timed("forward", lambda: forward(*arguments))
        gradients = timed("backward", lambda: tape.gradient(loss, variables))
        timed("optimizer", lambda: update(gradients))
        return spent

    return phases


def _inputs(built: models.Built) -> Any:
    """What the program gave, as tensors; random numbers where it gave shapes."""
    import tensorflow as tf

    if built.inputs is None or any(isinstance(tensor, tf.TensorSpec) for tensor in tf.nest.flatten(built.inputs)):
        return _values(models.closed(built.specs, built.opened))
    return tf.nest.map_structure(lambda one, spec: tf.cast(one, spec.dtype), built.inputs, built.specs)


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


def _function(function: Any, *, compiled: bool) -> Callable[..., Any]:
    """A function of a program, compiled by XLA if that is asked for."""
    import tensorflow as tf

    if not compiled:
        # Of a signature, which takes arguments by their names alone.
        named: dict[str, Any] = getattr(function, "structured_input_signature", ((), {}))[1]
        return (lambda *values: function(**dict(zip(named, values, strict=True)))) if named else function
    if not hasattr(function, "python_function"):
        raise UsageError("--compile needs a tf.function, and this one was traced already", "Leave --compile out.")
    return tf.function(function.python_function, jit_compile=True)  # type: ignore[no-any-return]
