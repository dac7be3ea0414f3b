"""What this plugin offers. Thin: it imports neither TensorFlow nor Keras nor torch."""

# ruff: noqa: PTH111, PTH113, PTH118
# Importing pathlib takes a twentieth of mpsprobe --help.
from __future__ import annotations

import os.path
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
from mpsprobe_tensorflow import BACKEND, FRAMEWORK, SAVED_MODEL, SPACE

if TYPE_CHECKING:
    from mpsprobe.protocols import Workload


@hookimpl
def mpsprobe_scanners() -> list[ScannerDeclaration]:
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
    module = "mpsprobe_tensorflow.devices"
    return [
        DeviceDeclaration("metal", f"{module}:MetalDevice", "Apple's GPU, by tensorflow-metal.", FRAMEWORK),
        DeviceDeclaration("cuda", f"{module}:CudaDevice", "An NVIDIA GPU (or an AMD one with ROCm).", FRAMEWORK),
        DeviceDeclaration("cpu", f"{module}:CpuDevice", "The processor.", FRAMEWORK),
    ]


@hookimpl
def mpsprobe_kernel_tables() -> list[KernelTablesDeclaration]:
    return [
        KernelTablesDeclaration(
            name=BACKEND,
            target="mpsprobe_tensorflow.tables.releases:Tables",
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
    folder = os.path.expanduser(name)
    model, other = (os.path.join(folder, file) for file in (SAVED_MODEL, "config.json"))
    if os.path.isfile(model) and not os.path.isfile(other):  # which a checkpoint of transformers has
        target = "mpsprobe_tensorflow.workloads:SavedModelWorkload"
        return WorkloadDeclaration(name, target, "a SavedModel", "file", FRAMEWORK, phases=("inference",))
    return None


@hookimpl
def mpsprobe_workload_of(model: object, inputs: object) -> Workload | None:
    """Keras models and functions of TensorFlow; whoever has one has imported it."""
    import sys

    if "tensorflow" not in sys.modules:
        return None
    from mpsprobe_tensorflow.workloads import workload_of

    return workload_of(model, inputs)


@hookimpl
def mpsprobe_workload_space(space: str) -> list[WorkloadDeclaration] | None:
    """Every model of ``keras.applications``."""
    if space != SPACE:
        return None
    from mpsprobe_tensorflow.workloads import applications

    return [_keras(f"{SPACE}:{name}") for name in applications(f"'{SPACE}:'")]


def _keras(name: str) -> WorkloadDeclaration:
    target = "mpsprobe_tensorflow.workloads:KerasWorkload"
    return WorkloadDeclaration(name, target, "a model of Keras", "vision", FRAMEWORK)


@hookimpl
def mpsprobe_doctor(environment: Mapping[str, Any]) -> Iterable[DoctorFinding]:
    """Whether Apple's plugin goes with the installed TensorFlow."""
    from mpsprobe_tensorflow.doctor import findings

    return findings(environment, os.environ)
