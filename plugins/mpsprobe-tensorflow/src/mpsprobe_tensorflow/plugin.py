"""What this plugin offers. Thin: it imports neither TensorFlow nor Keras nor torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from mpsprobe import hookimpl
from mpsprobe.declarations import (
    DeviceDeclaration,
    DoctorFinding,
    KernelTablesDeclaration,
    ScannerDeclaration,
    WorkloadDeclaration,
)
from mpsprobe_tensorflow.names import BACKEND, FRAMEWORK, SPACE, is_saved_model

if TYPE_CHECKING:
    from mpsprobe.protocols import Workload


@hookimpl
def mpsprobe_scanners() -> list[ScannerDeclaration]:
    """The scanner of graphs."""
    return [
        ScannerDeclaration(
            name="tensorflow",
            target="mpsprobe_tensorflow.scanner:TensorflowScanner",
            summary="Places each operation of a graph as TensorFlow would with Apple's Metal plugin.",
            frameworks=(FRAMEWORK,),
        )
    ]


@hookimpl
def mpsprobe_devices() -> list[DeviceDeclaration]:
    """The best first."""
    module = "mpsprobe_tensorflow.running.devices"
    return [
        DeviceDeclaration("metal", f"{module}:MetalDevice", "Apple's GPU, by tensorflow-metal.", FRAMEWORK),
        DeviceDeclaration("cuda", f"{module}:CudaDevice", "An NVIDIA GPU (or an AMD one with ROCm).", FRAMEWORK),
        DeviceDeclaration("cpu", f"{module}:CpuDevice", "The processor.", FRAMEWORK),
    ]


@hookimpl
def mpsprobe_kernel_tables() -> list[KernelTablesDeclaration]:
    """What Apple's plugin registers."""
    return [
        KernelTablesDeclaration(
            name=BACKEND,
            target="mpsprobe_tensorflow.listed:Tables",
            summary="Apple's Metal plugin for TensorFlow, from the wheels of every release.",
            framework=FRAMEWORK,
        )
    ]


@hookimpl
def mpsprobe_resolve_workload(name: str) -> WorkloadDeclaration | None:
    """``keras:NAME``, whether there is such a model or not, which only Keras knows; a SavedModel's folder."""
    if not name.isprintable():
        return None
    if name.startswith(f"{SPACE}:"):
        return _keras(name)
    if is_saved_model(name):
        target = "mpsprobe_tensorflow.saved_model:SavedModelWorkload"
        return WorkloadDeclaration(name, target, "a SavedModel", "file", FRAMEWORK, phases=("inference",))
    return None


@hookimpl
def mpsprobe_workload_of(model: object, inputs: object) -> Workload | None:
    """Keras models and functions of TensorFlow; whoever has one has imported it."""
    import sys

    if "tensorflow" not in sys.modules:
        return None
    from mpsprobe_tensorflow.given import given

    return given(model, inputs)


@hookimpl
def mpsprobe_workload_space(space: str) -> list[WorkloadDeclaration] | None:
    """Every model of ``keras.applications``."""
    if space != SPACE:
        return None
    from mpsprobe_tensorflow.applications import known

    return [_keras(f"{SPACE}:{name}") for name in known(f"'{SPACE}:'")]


def _keras(name: str) -> WorkloadDeclaration:
    return WorkloadDeclaration(
        name, "mpsprobe_tensorflow.applications:KerasWorkload", "a model of Keras", "vision", FRAMEWORK
    )


@hookimpl
def mpsprobe_doctor(environment: Mapping[str, Any]) -> Iterable[DoctorFinding]:
    """Whether Apple's plugin goes with the installed TensorFlow."""
    import os

    from mpsprobe_tensorflow.doctor import findings

    return findings(environment, os.environ)
