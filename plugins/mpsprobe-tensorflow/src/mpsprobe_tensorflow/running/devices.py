"""The CPU, an NVIDIA GPU and Apple's GPU, as TensorFlow has them."""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import psutil

from mpsprobe.errors import WorkloadError
from mpsprobe.protocols import RunOptions, Workload
from mpsprobe.schemas import DeviceInfo
from mpsprobe_devices.counted import Memory
from mpsprobe_devices.processor import processor_name
from mpsprobe_tensorflow import FRAMEWORK, tracing
from mpsprobe_tensorflow.libraries import import_tensorflow
from mpsprobe_tensorflow.tables import table

if TYPE_CHECKING:
    from mpsprobe_tensorflow.running.steps import TensorflowSteps

GPU = "GPU:0"
NEEDED_BY = "profiling workloads of TensorFlow"
UNCHECKED = "the makers of mpsprobe have no such device: nobody has checked what it measures here"


class TensorflowDevice:
    """A ``mpsprobe.protocols.Device`` of TensorFlow; it has no clock of its own that a program can read."""

    name: str
    framework = FRAMEWORK  # for probes that see operators of torch alone

    def __init__(self) -> None:
        self._waited_for: Any = ()

    def environment(self) -> Mapping[str, str | None]:
        """What took part, for the report; torch did not."""
        import keras

        tensorflow = import_tensorflow(NEEDED_BY)
        others = dict.fromkeys(("torch", "torch_build", "transformers", "torchvision"))
        return {**others, "tensorflow": tensorflow.__version__, "keras": keras.__version__}

    def scope(self) -> contextlib.AbstractContextManager[Any]:
        """Inside, TensorFlow makes variables and traces functions for this device; a GPU is what it prefers anyway."""
        return contextlib.nullcontext()

    def wait_for(self, results: Any) -> None:
        """What ``synchronize`` fetches: tensors that are there when everything that was asked is done."""
        self._waited_for = results

    def synchronize(self) -> None:
        """Fetch what the last step returned: nothing is there before it is computed."""
        results, self._waited_for = self._waited_for, ()
        for one in results:
            one.numpy()

    def is_out_of_memory(self, error: BaseException) -> bool:
        """Whether ``error`` says that there is no more memory."""
        texts = ("out of memory", "oom when allocating")
        named = type(error).__name__ == "ResourceExhaustedError"
        return named or isinstance(error, MemoryError) or any(text in str(error).lower() for text in texts)

    def open(self, workload: Workload, options: RunOptions, *, compiled: bool = False) -> TensorflowSteps:
        """Build ``workload``, with values, and make its step. Raises as ``Device.open``."""
        from mpsprobe_tensorflow.running.steps import TensorflowSteps

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
        found = {
            "tensorflow": tensorflow.__version__,
            "threads within an operation": str(threads.get_intra_op_parallelism_threads() or "all"),
            "operations at a time": str(threads.get_inter_op_parallelism_threads() or "all"),
        }
        memory = psutil.virtual_memory().total
        return DeviceInfo(type=self.name, name=processor_name(), memory_bytes=memory, capabilities=found)

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
        found = {"tensorflow": tf.__version__}
        found |= {name: str(built[f"{name}_version"]) for name in ("cuda", "cudnn") if f"{name}_version" in built}
        if "compute_capability" in details:
            found["compute_capability"] = ".".join(map(str, details["compute_capability"]))
        return DeviceInfo(type=self.name, name=str(details.get("device_name", "GPU")), capabilities=found)

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

        found = {"tensorflow": tf.__version__, "macos": platform.mac_ver()[0]}
        if (plugin := table.installed()) is not None:
            found[table.PLUGIN] = plugin
        name = f"{processor_name()} GPU"
        return DeviceInfo(type=self.name, name=name, capabilities=found, caveats=[UNCHECKED])
